"""Federation: state of the clusters, routed jobs, waiting jobs with reasons, rerouted jobs."""

from muster_tools.grafana.boards import Board, Panel

_ASKED = (
    "max by (cluster) (muster_federation_cluster_gpus) / (max by (cluster) (muster_federation_cluster_gpus_there) > 0)"
)

FEDERATION = Board(
    "federation",
    "Federation",
    "Clusters, routed jobs, waiting jobs and rerouted jobs. `muster cluster list` shows the reasons.",
    rows=(
        (
            Panel(
                "Clusters by state",
                "lost: its jobs run in other clusters. drained: it accepts no jobs.",
                [("sum by (state) (max by (cluster, state) (muster_federation_cluster_state))", "{{state}}")],
                kind="stat",
            ),
            Panel(
                "Jobs that wait for a cluster",
                "Jobs in the federation that have no cluster yet.",
                [("sum(muster_federation_jobs_waiting)", "jobs")],
                kind="stat",
            ),
            Panel(
                "Longest time without a message",
                "Longest time since the last answer of a cluster that can be declared lost.",
                [("max(time() - (muster_federation_cluster_heard_timestamp_seconds > 0))", "silent")],
                unit="s",
                kind="stat",
            ),
        ),
        (
            Panel(
                "State of each cluster",
                "State of each cluster over time.",
                [("max by (cluster, state) (muster_federation_cluster_state) == 1", "{{cluster}} {{state}}")],
            ),
            Panel(
                "Time without a message",
                "Time since the last answer. At federation.lost_after_s the cluster is declared lost.",
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
                "Jobs routed to the cluster that have not ended.",
                [("max by (cluster) (muster_federation_cluster_jobs)", "{{cluster}}")],
                stacked=True,
            ),
            Panel(
                "Jobs that wait in the cluster",
                "As last reported by the clusters. Routing rules may send further jobs to other clusters.",
                [("max by (cluster) (muster_federation_cluster_jobs_queued)", "{{cluster}}")],
                stacked=True,
            ),
            Panel(
                "Requested GPUs, share of the cluster's GPUs",
                "Above 100 %: jobs wait.",
                [
                    (_ASKED, "{{cluster}}"),
                ],
                unit="percentunit",
            ),
            Panel(
                "GPUs free",
                "As last reported by the clusters.",
                [("max by (cluster) (muster_federation_cluster_gpus_free)", "{{cluster}}")],
                stacked=True,
            ),
        ),
        (
            Panel(
                "Jobs that wait for a cluster, by reason",
                "team-limit: limit over all clusters. no-cluster: no cluster accepts them.  "
                "unknown-cluster: not a member. overflow: all clusters are full.",
                [("sum by (reason) (muster_federation_jobs_waiting)", "{{reason}}")],
                stacked=True,
            ),
            Panel(
                "Rerouted jobs",
                "Jobs an hour. dropped: their cluster was lost. refused: they had already started.",
                [("sum by (how) (increase(muster_federation_job_moves_total[1h]))", "{{how}}")],
                stacked=True,
            ),
            Panel(
                "Clusters declared lost",
                "Clusters a day.",
                [("sum by (cluster) (increase(muster_federation_cluster_losses_total[1d]))", "{{cluster}}")],
            ),
        ),
    ),
)
