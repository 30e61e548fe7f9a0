"""What the scaler chooses, pools and fabrics."""

from muster_tools.grafana.boards import RATE, Board, Panel, quantiles

SCALING = Board(
    "scaling",
    "Scaling",
    "What the scaler chooses, what it comes to, pools and fabrics.",
    rows=(
        (
            Panel(
                "Choices that ended",
                "By choice and outcome. Of nothing-chosen the outcome is what stood in the way.",
                [
                    (
                        f"sum by (choice, outcome) (increase(muster_scale_choices_total{RATE}))",
                        "{{choice}} {{outcome}}",
                    )
                ],
                stacked=True,
            ),
            Panel(
                "Choices under way",
                "One that stays: see what it waits for with muster scale.",
                [("sum by (choice) (muster_scale_choices_open)", "{{choice}}")],
                stacked=True,
            ),
            Panel(
                "Jobs that scaling could help",
                "They wait for what could be attached or added.",
                [("sum by (cluster) (muster_scale_waiting_jobs)", "{{cluster}}")],
            ),
        ),
        (
            Panel(
                "From chosen to done",
                "By choice.",
                quantiles("muster_scale_choice_seconds", by="choice"),
                unit="s",
                exemplars=True,
            ),
            Panel(
                "From requested to online",
                "Attaching one device, by fabric.",
                quantiles("muster_attach_seconds", by="fabric"),
                unit="s",
                exemplars=True,
            ),
            Panel(
                "From wanted to detached",
                "Taking one device back, by fabric.",
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
                "All but online are on their way.",
                [("sum by (phase) (muster_attachments)", "{{phase}}")],
                stacked=True,
            ),
            Panel(
                "Attachments that failed",
                "For good, by failure.",
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
                "Those that did what they should.",
                quantiles("muster_fabric_call_seconds", by="call"),
                unit="s",
            ),
            Panel(
                "Calls under way and unsettled",
                "Unsettled: they may still have an effect.",
                [
                    ("sum by (fabric) (muster_fabric_calls_running)", "{{fabric}} running"),
                    ("sum by (fabric) (muster_fabric_calls_unsettled)", "{{fabric}} unsettled"),
                ],
            ),
            Panel(
                "Breaker and survey",
                "Breaker: 0 closed, 1 half-open, 2 open. Age of the newest look, in minutes.",
                [
                    ("max by (fabric) (muster_fabric_breaker)", "{{fabric}} breaker"),
                    ("max by (fabric) (muster_fabric_survey_age_seconds) / 60", "{{fabric}} survey, minutes"),
                    ("max by (fabric) (muster_fabric_orphans)", "{{fabric}} orphans"),
                ],
            ),
        ),
    ),
)
