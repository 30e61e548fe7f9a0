"""What there is of nodes and GPUs, and what cannot be used."""

from muster_tools.grafana.boards import RATE, Board, Panel

_FREE = (
    "sum by (model) (muster_gpus) - sum by (model) (muster_gpus_unusable)"
    " - (sum by (model) (muster_gpus_held) or 0 * sum by (model) (muster_gpus))"
)

FLEET = Board(
    "fleet",
    "Fleet",
    "What there is, what is held, what cannot be used.",
    rows=(
        (
            Panel("Usable nodes", "They take new jobs.", [('sum(muster_nodes{state="usable"})', "nodes")], kind="stat"),
            Panel("GPUs", "Of all nodes of the cluster.", [("sum(muster_gpus)", "GPUs")], kind="stat"),
            Panel("GPUs held", "By jobs.", [("sum(muster_gpus_held)", "held")], kind="stat"),
            Panel(
                "Utilisation",
                "Held GPUs, of those that can be used; and how busy all are.",
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
                "Parts of a GPU count as such.",
                [("sum by (model) (muster_gpus_held)", "{{model}}")],
                stacked=True,
            ),
            Panel(
                "GPUs free by model",
                "Usable and not held. Free beside waiting jobs: see Queues for what stands in their way.",
                [
                    (_FREE, "{{model}}"),
                ],
            ),
        ),
        (
            Panel(
                "Utilisation of held GPUs",
                "Mean of what nodes measured, by model. Low: jobs hold what they do not use.",
                [("max by (model) (muster_gpu_held_utilisation_ratio)", "{{model}}")],
                unit="percentunit",
            ),
            Panel(
                "Power",
                "What the reporting GPUs draw together.",
                [("max by (model) (muster_gpu_power_watts)", "{{model}}")],
                unit="watt",
                stacked=True,
            ),
            Panel(
                "Hottest GPU, and GPUs that report",
                "Highest temperature by model; reporting, of all there are.",
                [
                    ("max by (model) (muster_gpu_temperature_max_celsius)", "{{model}} °C"),
                    ("100 * sum(muster_gpus_reporting) / sum(muster_gpus)", "reporting, %"),
                ],
            ),
        ),
        (
            Panel(
                "Nodes by state",
                "lost: they do not answer. withheld: somebody asked for them. unreleased: new.",
                [("sum by (state) (muster_nodes)", "{{state}}")],
                stacked=True,
            ),
            Panel(
                "GPUs that take no jobs",
                "On nodes that are lost or withheld, or withheld themselves.",
                [("sum by (model) (muster_gpus_unusable)", "{{model}}")],
            ),
            Panel(
                "Runs that ended for nothing",
                "Jobs that wait again after a run, by reason.",
                [(f"sum by (reason) (rate(muster_jobs_requeued_total{RATE}))", "{{reason}}")],
                unit="ops",
            ),
        ),
    ),
)
