"""Scaling decisions, pools and fabrics."""

from muster_tools.grafana.boards import RATE, Board, Panel, quantiles

SCALING = Board(
    "scaling",
    "Scaling",
    "Scaling decisions and their outcomes, pools and fabrics.",
    rows=(
        (
            Panel(
                "Completed decisions",
                "By choice and outcome. For nothing-chosen, the outcome is the reason.",
                [
                    (
                        f"sum by (choice, outcome) (increase(muster_scale_choices_total{RATE}))",
                        "{{choice}} {{outcome}}",
                    )
                ],
                stacked=True,
            ),
            Panel(
                "Open decisions",
                "If a decision stays open, `muster scale` shows what it waits for.",
                [("sum by (choice) (muster_scale_choices_open)", "{{choice}}")],
                stacked=True,
            ),
            Panel(
                "Jobs that scaling could help",
                "Jobs that wait for capacity that scaling could add.",
                [("sum by (cluster) (muster_scale_waiting_jobs)", "{{cluster}}")],
            ),
        ),
        (
            Panel(
                "Duration of decisions",
                "From chosen to done, by choice.",
                quantiles("muster_scale_choice_seconds", by="choice"),
                unit="s",
                exemplars=True,
            ),
            Panel(
                "Attach time",
                "From requested to online, for one device, by fabric.",
                quantiles("muster_attach_seconds", by="fabric"),
                unit="s",
                exemplars=True,
            ),
            Panel(
                "Detach time",
                "From requested to detached, for one device, by fabric.",
                quantiles("muster_detach_seconds", by="fabric"),
                unit="s",
                exemplars=True,
            ),
        ),
        (
            Panel(
                "Devices by place",
                "Free in the pool, or attached.",
                [("sum by (fabric, model, place) (muster_fabric_devices)", "{{fabric}} {{model}} {{place}}")],
                stacked=True,
            ),
            Panel(
                "Attachments by phase",
                "All phases but online are temporary.",
                [("sum by (phase) (muster_attachments)", "{{phase}}")],
                stacked=True,
            ),
            Panel(
                "Failed attachments",
                "Attachments that failed permanently, by failure.",
                [
                    (
                        f"sum by (fabric, failure) (increase(muster_attachments_failed_total{RATE})) > 0",
                        "{{fabric}} {{failure}}",
                    )
                ],
            ),
        ),
        (
            Panel(
                "Calls to fabrics",
                "By call and outcome.",
                [
                    (
                        f"sum by (fabric, call, outcome) (rate(muster_fabric_calls_total{RATE}))",
                        "{{fabric}} {{call}} {{outcome}}",
                    )
                ],
                unit="ops",
            ),
            Panel(
                "Duration of calls",
                "Successful calls.",
                quantiles("muster_fabric_call_seconds", by="call"),
                unit="s",
            ),
            Panel(
                "Running and unsettled calls",
                "Unsettled: the call may still have an effect.",
                [
                    ("sum by (fabric) (muster_fabric_calls_running)", "{{fabric}} running"),
                    ("sum by (fabric) (muster_fabric_calls_unsettled)", "{{fabric}} unsettled"),
                ],
            ),
            Panel(
                "Breaker and survey",
                "Circuit breaker: 0 closed, 1 half-open, 2 open. Age of the last survey, in minutes.",
                [
                    ("max by (fabric) (muster_fabric_breaker)", "{{fabric}} breaker"),
                    ("max by (fabric) (muster_fabric_survey_age_seconds) / 60", "{{fabric}} survey, minutes"),
                    ("max by (fabric) (muster_fabric_orphans)", "{{fabric}} orphans"),
                ],
            ),
        ),
    ),
)
