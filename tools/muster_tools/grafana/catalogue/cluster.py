"""A real cluster as the agent sees it."""

from muster_tools.grafana.boards import RATE, Board, Panel

CLUSTER = Board(
    "cluster",
    "Cluster",
    "A real cluster as the agent sees it: its watches and requests. Empty for a simulated cluster.",
    rows=(
        (
            Panel(
                "Completely listed kinds",
                "Of the watched kinds. Until pods and nodes are listed completely, no pods are started.",
                [("sum(muster_kube_watch_synced)", "seen"), ("count(muster_kube_watch_synced)", "watched")],
                kind="stat",
            ),
            Panel(
                "Nodes by state",
                "lost: not ready for some time. withheld: cordoned or drained.",
                [("sum by (state) (muster_nodes)", "{{state}}")],
                kind="stat",
            ),
            Panel(
                "Longest time without a message",
                "Of all watches. API servers send a bookmark every minute.",
                [("max(muster_kube_watch_silent_seconds)", "silent")],
                unit="s",
                kind="stat",
            ),
            Panel("GPUs held", "By jobs.", [("sum(muster_gpus_held)", "held")], kind="stat"),
        ),
        (
            Panel(
                "Cached objects",
                "Objects in the agent's cache, with a few fields each, by kind.",
                [("max by (resource) (muster_kube_objects)", "{{resource}}")],
            ),
            Panel(
                "Events",
                "Watch events a second: the rate of changes in the cluster.",
                [(f"sum by (resource) (rate(muster_kube_events_total{RATE}))", "{{resource}}")],
                unit="ops",
            ),
            Panel(
                "Requests",
                "Requests a second that the agent sends. They depend on jobs, not on services or dashboards.",
                [(f"sum by (service) (rate(muster_kube_requests_total{RATE}))", "{{service}}")],
                unit="reqps",
            ),
        ),
        (
            Panel(
                "LIST requests",
                "In 15 minutes, by kind. Zero: all watches were resumed.",
                [("sum by (resource) (increase(muster_kube_lists_total[15m]))", "{{resource}}")],
            ),
            Panel(
                "Watches that failed",
                "In 15 minutes, by kind. They are resumed.",
                [("sum by (resource) (increase(muster_kube_watch_failures_total[15m]))", "{{resource}}")],
            ),
            Panel(
                "Time without a message",
                "Seconds since the last message of each watch.",
                [("max by (resource) (muster_kube_watch_silent_seconds)", "{{resource}}")],
                unit="s",
            ),
            Panel(
                "Missed changes",
                "Objects that changed without a watch event, found by comparison and read again.",
                [("sum by (resource) (increase(muster_kube_watch_missed_objects_total[1h]))", "{{resource}}")],
            ),
        ),
    ),
)
