"""Health of the fleet: problems over time, what is out of use and why, how often and for how long."""

from muster_tools.grafana.boards import RATE, Board, Panel

_ILL = 'sum by (phase) (muster_health_units{kind="node"})'
_BEGAN = 'sum(increase(muster_health_illnesses_begun_total{kind="node"}[7d]))'
_NODE_HOURS = "sum_over_time(sum(muster_nodes)[7d:1m]) / 60"
_LENGTH = "sum by (kind) (increase(muster_health_illness_seconds_total[7d]))"
_ENDED = "sum by (kind) (increase(muster_health_illnesses_total[7d]))"
_HARDWARE = 'reason=~"node-lost|preflight-failed"'

HEALTH = Board(
    "health",
    "Health",
    "Which hardware is sick, why, how often, and what it costs jobs. `muster health` has the names.",
    rows=(
        (
            Panel(
                "Nodes out of use for health",
                "Suspect, quarantined, repaired or checked just now.",
                [('sum(muster_health_units{kind="node"})', "nodes")],
                kind="stat",
            ),
            Panel(
                "GPUs out of use for health",
                "By themselves, on nodes that are well otherwise.",
                [('sum(muster_health_units{kind="device"})', "GPUs")],
                kind="stat",
            ),
            Panel(
                "Wait for a person",
                "Nothing more is tried on them.",
                [("sum by (kind) (muster_health_waiting_for_person)", "{{kind}}")],
                kind="stat",
            ),
            Panel(
                "Brake",
                "1: tripped, health does nothing until a person resets it. Beside it how near it is, 100 % trips it.",
                [
                    ("max by (cluster) (muster_health_brake_tripped)", "{{cluster}} tripped"),
                    ("100 * max by (cluster) (muster_health_brake_utilisation_ratio)", "{{cluster}} used, %"),
                ],
                kind="stat",
            ),
        ),
        (
            Panel(
                "Nodes by state",
                "Not healthy. suspect: jobs may still be there. quarantined: empty, and waits.",
                [(_ILL, "{{phase}}")],
                stacked=True,
            ),
            Panel(
                "Devices by state",
                "The same for single GPUs.",
                [('sum by (phase) (muster_health_units{kind="device"})', "{{phase}}")],
                stacked=True,
            ),
            Panel(
                "Why they are out of use",
                "Faults that keep nodes and devices from jobs, by code.",
                [
                    (
                        "sum by (kind, code, fault_class) (muster_health_standing_faults)",
                        "{{kind}} {{code}} ({{fault_class}})",
                    )
                ],
                stacked=True,
            ),
        ),
        (
            Panel(
                "Faults by class",
                "An hour each. application: the owner's program. note: kept for trends.",
                [("sum by (fault_class) (increase(muster_health_faults_total[1h]))", "{{fault_class}}")],
                stacked=True,
            ),
            Panel(
                "Faults of hardware by code",
                "An hour each, degraded and fatal.",
                [
                    (
                        'sum by (code) (increase(muster_health_faults_total{fault_class=~"degraded|fatal"}[1h]))',
                        "{{code}}",
                    )
                ],
                stacked=True,
            ),
            Panel(
                "Programs at fault",
                "An hour each, by the team that was told.",
                [("sum by (team) (increase(muster_health_owners_told_total[1h]))", "{{team}}")],
                stacked=True,
            ),
        ),
        (
            Panel(
                "Mean time between failures of a node",
                "Hours of all nodes in a week, over illnesses of nodes that began. Without any: so long at least.",
                [(f"{_NODE_HOURS} / clamp_min({_BEGAN}, 1)", "node")],
                unit="h",
            ),
            Panel(
                "Mean time to repair",
                "From suspicion to health, of what became well within a week.",
                [(f"{_LENGTH} / clamp_min({_ENDED}, 1)", "{{kind}}")],
                unit="s",
            ),
            Panel(
                "Illnesses that begin and end",
                "A day each. More that begin than end: the fleet shrinks.",
                [
                    ("sum by (kind) (increase(muster_health_illnesses_begun_total[1d]))", "{{kind}} begun"),
                    ("sum by (kind) (increase(muster_health_illnesses_total[1d]))", "{{kind}} ended"),
                ],
            ),
        ),
        (
            Panel(
                "Runs that hardware ended",
                "An hour each: jobs that wait again for their node, or for checks before their first step.",
                [(f"sum by (reason) (increase(muster_jobs_requeued_total{{{_HARDWARE}}}[1h]))", "{{reason}}")],
                stacked=True,
            ),
            Panel(
                "Pre-flight",
                "An hour each: verdicts on checks before a job's first step.",
                [("sum by (outcome) (increase(muster_health_preflights_total[1h]))", "{{outcome}}")],
                stacked=True,
            ),
            Panel(
                "What health sees",
                "Readings each second, what cannot be read, what waits to be told and what found no room.",
                [
                    (f"sum(rate(muster_health_readings_total{RATE}))", "readings/s"),
                    (f"sum(rate(muster_health_readings_unreadable_total{RATE}))", "unreadable/s"),
                    ("sum(muster_health_sightings)", "wait"),
                    ("sum(muster_health_sightings_dropped)", "no room"),
                    ("sum(muster_health_unknown_codes)", "codes without a rule"),
                ],
            ),
        ),
        (
            Panel(
                "Exporters",
                "Nodes by how their exporter is. Of a node that is not ok or stale nothing is known of its GPUs.",
                [("sum by (state) (muster_telemetry_exporters)", "{{state}}")],
                stacked=True,
            ),
            Panel(
                "GPUs expected and seen",
                "By the log, and by the pages.",
                [
                    ("sum(muster_telemetry_gpus_expected)", "expected"),
                    ("sum(muster_telemetry_gpus_seen)", "seen"),
                    ("sum by (model) (muster_telemetry_gpus_missing)", "{{model}} missing"),
                ],
            ),
            Panel(
                "Age of the oldest reading",
                "More than a few intervals: who reads is behind.",
                [("max(muster_telemetry_oldest_reading_seconds)", "oldest")],
                unit="s",
            ),
        ),
    ),
)
