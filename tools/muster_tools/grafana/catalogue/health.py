"""Health of the fleet: faults, hardware out of use and why, failure rates and repair times."""

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
    "Faulty hardware, its faults, failure rates, and the effect on jobs. `muster health` shows the names.",
    rows=(
        (
            Panel(
                "Nodes out of use for health",
                "Suspect, quarantined, in repair or in verification.",
                [('sum(muster_health_units{kind="node"})', "nodes")],
                kind="stat",
            ),
            Panel(
                "GPUs out of use for health",
                "Single GPUs on otherwise healthy nodes.",
                [('sum(muster_health_units{kind="device"})', "GPUs")],
                kind="stat",
            ),
            Panel(
                "Waiting for an operator",
                "Muster tries no further repairs.",
                [("sum by (kind) (muster_health_waiting_for_person)", "{{kind}}")],
                kind="stat",
            ),
            Panel(
                "Brake",
                "1: tripped; health takes no action until an operator resets it. The brake trips at a load of 100 %.",
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
                "Nodes that are not healthy. suspect: jobs may still run there. quarantined: no jobs, waiting.",
                [(_ILL, "{{phase}}")],
                stacked=True,
            ),
            Panel(
                "Devices by state",
                "Single devices that are not healthy.",
                [('sum by (phase) (muster_health_units{kind="device"})', "{{phase}}")],
                stacked=True,
            ),
            Panel(
                "Reasons for being out of use",
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
                "Faults an hour. application: caused by the program. note: recorded for trends.",
                [("sum by (fault_class) (increase(muster_health_faults_total[1h]))", "{{fault_class}}")],
                stacked=True,
            ),
            Panel(
                "Hardware faults by code",
                "Degraded and fatal faults an hour.",
                [
                    (
                        'sum by (code) (increase(muster_health_faults_total{fault_class=~"degraded|fatal"}[1h]))',
                        "{{code}}",
                    )
                ],
                stacked=True,
            ),
            Panel(
                "Faults caused by programs",
                "Faults an hour, by the notified team.",
                [("sum by (team) (increase(muster_health_owners_told_total[1h]))", "{{team}}")],
                stacked=True,
            ),
        ),
        (
            Panel(
                "Mean time between failures of a node",
                "Node-hours in a week divided by new node failures. Without failures it is a lower bound.",
                [(f"{_NODE_HOURS} / clamp_min({_BEGAN}, 1)", "node")],
                unit="h",
            ),
            Panel(
                "Mean time to repair",
                "From suspect to healthy, of hardware that recovered within a week.",
                [(f"{_LENGTH} / clamp_min({_ENDED}, 1)", "{{kind}}")],
                unit="s",
            ),
            Panel(
                "Failures that begin and end",
                "Failures a day. If more begin than end, the fleet shrinks.",
                [
                    ("sum by (kind) (increase(muster_health_illnesses_begun_total[1d]))", "{{kind}} begun"),
                    ("sum by (kind) (increase(muster_health_illnesses_total[1d]))", "{{kind}} ended"),
                ],
            ),
        ),
        (
            Panel(
                "Runs ended by hardware",
                "Jobs an hour that were requeued because of a lost node or a failed preflight check.",
                [(f"sum by (reason) (increase(muster_jobs_requeued_total{{{_HARDWARE}}}[1h]))", "{{reason}}")],
                stacked=True,
            ),
            Panel(
                "Preflight",
                "Preflight checks an hour, by outcome.",
                [("sum by (outcome) (increase(muster_health_preflights_total[1h]))", "{{outcome}}")],
                stacked=True,
            ),
            Panel(
                "Readings of health",
                "Readings a second, unreadable readings, pending facts and dropped ones.",
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
                "Nodes by state of their exporter. Only the states ok and stale give readings of the GPUs.",
                [("sum by (state) (muster_telemetry_exporters)", "{{state}}")],
                stacked=True,
            ),
            Panel(
                "GPUs expected and seen",
                "GPUs in the log, and GPUs on exporter pages.",
                [
                    ("sum(muster_telemetry_gpus_expected)", "expected"),
                    ("sum(muster_telemetry_gpus_seen)", "seen"),
                    ("sum by (model) (muster_telemetry_gpus_missing)", "{{model}} missing"),
                ],
            ),
            Panel(
                "Age of the oldest reading",
                "More than a few intervals: the telemetry service is behind.",
                [("max(muster_telemetry_oldest_reading_seconds)", "oldest")],
                unit="s",
            ),
        ),
    ),
)
