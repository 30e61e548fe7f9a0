"""Several clusters as one: where they stand, what they were given, what waits and why, what moved."""

from muster_tools.grafana.boards import Board, Panel

_ASKED = (
    "max by (cluster) (muster_federation_cluster_gpus) / (max by (cluster) (muster_federation_cluster_gpus_there) > 0)"
)

FEDERATION = Board(
    "federation",
    "Federation",
    "Clusters, what each was given, what waits for one, what moved. `muster cluster list` has the reasons.",
    rows=(
        (
            Panel(
                "Clusters by state",
                "lost: given up, its jobs run elsewhere. drained: it takes none.",
                [("sum by (state) (max by (cluster, state) (muster_federation_cluster_state))", "{{state}}")],
                kind="stat",
            ),
            Panel(
                "Jobs that wait for a cluster",
                "With the federation, of no cluster yet.",
                [("sum(muster_federation_jobs_waiting)", "jobs")],
                kind="stat",
            ),
            Panel(
                "Longest silence",
                "Since a cluster that may be given up was last answered.",
                [("max(time() - (muster_federation_cluster_heard_timestamp_seconds > 0))", "silent")],
                unit="s",
                kind="stat",
            ),
        ),
        (
            Panel(
                "State of each cluster",
                "Over time; each has one.",
                [("max by (cluster, state) (muster_federation_cluster_state) == 1", "{{cluster}} {{state}}")],
            ),
            Panel(
                "Silence",
                "Of clusters that may be given up: at federation.lost_after_s they are.",
                [
                    (
                        "max by (cluster) (time() - (muster_federation_cluster_heard_timestamp_seconds > 0))",
                        "{{cluster}}",
                    )
                ],
                unit="s",
            ),
        ),
        (
            Panel(
                "Jobs",
                "Routed there, and not ended.",
                [("max by (cluster) (muster_federation_cluster_jobs)", "{{cluster}}")],
                stacked=True,
            ),
            Panel(
                "Jobs that wait there",
                "As clusters said last. Rules may let others overflow.",
                [("max by (cluster) (muster_federation_cluster_jobs_queued)", "{{cluster}}")],
                stacked=True,
            ),
            Panel(
                "GPUs asked for, of those there",
                "Above 100 %: jobs wait.",
                [
                    (_ASKED, "{{cluster}}"),
                ],
                unit="percentunit",
            ),
            Panel(
                "GPUs free",
                "As clusters said last.",
                [("max by (cluster) (muster_federation_cluster_gpus_free)", "{{cluster}}")],
                stacked=True,
            ),
        ),
        (
            Panel(
                "Jobs that wait for a cluster, by reason",
                "team-limit: over all clusters. no-cluster: none takes them. "
                "unknown-cluster: it is no member. overflow: all are full.",
                [("sum by (reason) (muster_federation_jobs_waiting)", "{{reason}}")],
                stacked=True,
            ),
            Panel(
                "Jobs that moved",
                "An hour each. dropped: with their cluster. refused: they had started.",
                [("sum by (how) (increase(muster_federation_job_moves_total[1h]))", "{{how}}")],
                stacked=True,
            ),
            Panel(
                "Clusters that were given up",
                "A day each.",
                [("sum by (cluster) (increase(muster_federation_cluster_losses_total[1d]))", "{{cluster}}")],
            ),
        ),
    ),
)
