"""Nodes and GPUs, and the unusable ones."""

from muster_tools.grafana.boards import RATE, Board, Panel

_FREE = (
    "sum by (model) (muster_gpus) - sum by (model) (muster_gpus_unusable)"
    " - (sum by (model) (muster_gpus_held) or 0 * sum by (model) (muster_gpus))"
)

FLEET = Board(
    "fleet",
    "Fleet",
    "All, held and unusable nodes and GPUs.",
    rows=(
        (
            Panel("Usable nodes", "They take new jobs.", [('sum(muster_nodes{state="usable"})', "nodes")], kind="stat"),
            Panel("GPUs", "Of all nodes of the cluster.", [("sum(muster_gpus)", "GPUs")], kind="stat"),
            Panel("GPUs held", "By jobs.", [("sum(muster_gpus_held)", "held")], kind="stat"),
            Panel(
                "Utilization",
                "Share of usable GPUs that jobs hold, and mean utilization of all GPUs.",
                [
                    ("sum(muster_gpus_held) / (sum(muster_gpus) - sum(muster_gpus_unusable))", "held"),
                    ("avg(muster_gpu_utilisation_ratio)", "busy"),
                ],
                unit="percentunit",
                kind="stat",
            ),
        ),
        (
            Panel(
                "GPUs held by model",
                "Fractions of a GPU count as fractions.",
                [("sum by (model) (muster_gpus_held)", "{{model}}")],
                stacked=True,
            ),
            Panel(
                "GPUs free by model",
                "Usable and not held. If GPUs are free while jobs wait, see the dashboard Queues.",
                [
                    (_FREE, "{{model}}"),
                ],
            ),
        ),
        (
            Panel(
                "Utilization of held GPUs",
                "Mean of the measured utilization, by model. Low: jobs hold GPUs that they do not use.",
                [("max by (model) (muster_gpu_held_utilisation_ratio)", "{{model}}")],
                unit="percentunit",
            ),
            Panel(
                "Power",
                "Total power of the reporting GPUs.",
                [("max by (model) (muster_gpu_power_watts)", "{{model}}")],
                unit="watt",
                stacked=True,
            ),
            Panel(
                "Hottest GPU, and GPUs that report",
                "Highest temperature by model, and share of GPUs that report.",
                [
                    ("max by (model) (muster_gpu_temperature_max_celsius)", "{{model}} °C"),
                    ("100 * sum(muster_gpus_reporting) / sum(muster_gpus)", "reporting, %"),
                ],
            ),
        ),
        (
            Panel(
                "Nodes by state",
                "lost: the node does not answer. withheld: drained. unreleased: new.",
                [("sum by (state) (muster_nodes)", "{{state}}")],
                stacked=True,
            ),
            Panel(
                "Unusable GPUs",
                "GPUs that are drained, or on lost or drained nodes.",
                [("sum by (model) (muster_gpus_unusable)", "{{model}}")],
            ),
            Panel(
                "Wasted runs",
                "Jobs that were requeued after a run, by reason.",
                [(f"sum by (reason) (rate(muster_jobs_requeued_total{RATE}))", "{{reason}}")],
                unit="ops",
            ),
        ),
    ),
)
