"""A real cluster, as the agent sees it."""

from muster_tools.grafana.boards import RATE, Board, Panel

CLUSTER = Board(
    "cluster",
    "Cluster",
    "A real cluster as the agent sees it: one watch per kind, and what it asks. Empty for a simulated one.",
    rows=(
        (
            Panel(
                "Kinds seen whole",
                "Of those that the agent watches. Until pods and nodes were, nothing is placed.",
                [("sum(muster_kube_watch_synced)", "seen"), ("count(muster_kube_watch_synced)", "watched")],
                kind="stat",
            ),
            Panel(
                "Nodes by state",
                "lost: not ready for a while. withheld: cordoned, or somebody asked for them.",
                [("sum by (state) (muster_nodes)", "{{state}}")],
                kind="stat",
            ),
            Panel(
                "Longest silence",
                "API servers send a bookmark each minute.",
                [("max(muster_kube_watch_silent_seconds)", "silent")],
                unit="s",
                kind="stat",
            ),
            Panel("GPUs held", "By jobs.", [("sum(muster_gpus_held)", "held")], kind="stat"),
        ),
        (
            Panel(
                "Objects held",
                "A few fields of each, by kind.",
                [("max by (resource) (muster_kube_objects)", "{{resource}}")],
            ),
            Panel(
                "Events",
                "Of watches, each second: what changes in the cluster.",
                [(f"sum by (resource) (rate(muster_kube_events_total{RATE}))", "{{resource}}")],
                unit="ops",
            ),
            Panel(
                "Requests",
                "That the agent sends, each second. They follow jobs, not services or dashboards.",
                [(f"sum by (service) (rate(muster_kube_requests_total{RATE}))", "{{service}}")],
                unit="reqps",
            ),
        ),
        (
            Panel(
                "Asked for all objects",
                "In a quarter of an hour, by kind. Flat: watches go on where they were.",
                [("sum by (resource) (increase(muster_kube_lists_total[15m]))", "{{resource}}")],
            ),
            Panel(
                "Watches that failed",
                "In a quarter of an hour, by kind; they are resumed.",
                [("sum by (resource) (increase(muster_kube_watch_failures_total[15m]))", "{{resource}}")],
            ),
            Panel(
                "Silence",
                "Of each watch.",
                [("max by (resource) (muster_kube_watch_silent_seconds)", "{{resource}}")],
                unit="s",
            ),
            Panel(
                "Missed and repaired",
                "Objects that comparing found changed without an event.",
                [("sum by (resource) (increase(muster_kube_watch_missed_objects_total[1h]))", "{{resource}}")],
            ),
        ),
    ),
)
