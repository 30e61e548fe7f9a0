"""Upgrade campaigns: their progress, the steps of their nodes, the duration and cost of node upgrades."""

from muster_tools.grafana.boards import Board, Panel, quantiles

_OUT = 'step=~"cordoned|waiting-for-jobs|drained|upgrading|validating|rolling-back"'
_ENDS = 'step=~"done|failed|rolled-back"'

CAMPAIGNS = Board(
    "campaigns",
    "Campaigns",
    "Upgrades of nodes while jobs run. `muster upgrade status` shows names and reasons.",
    rows=(
        (
            Panel(
                "Campaigns",
                "Campaigns that have not ended. stopped: the campaign stopped by itself and needs an operator.",
                [("sum by (state) (muster_upgrade_campaigns)", "{{state}}")],
                kind="stat",
            ),
            Panel(
                "Completed nodes",
                "Share of nodes of open campaigns that are done, failed or rolled back.",
                [(f"sum(muster_upgrade_nodes{{{_ENDS}}})", "through"), ("sum(muster_upgrade_nodes)", "all")],
                kind="stat",
            ),
            Panel(
                "GPU-hours lost in a week",
                "GPU-hours unused because campaigns that ended had drained the nodes.",
                [("sum(increase(muster_upgrade_gpu_hours_lost_total[7d]))", "GPU-hours")],
                kind="stat",
            ),
        ),
        (
            Panel(
                "Nodes by step",
                "waiting-for-jobs: the node waits until its last jobs end.",
                [("sum by (step) (muster_upgrade_nodes)", "{{step}}")],
                stacked=True,
            ),
            Panel(
                "Nodes out of use",
                "Nodes drained by campaigns and by health; both count toward --max-unavailable.",
                [
                    (f"sum(muster_upgrade_nodes{{{_OUT}}})", "campaigns"),
                    ('sum(muster_health_units{kind="node"})', "health"),
                ],
            ),
        ),
        (
            Panel(
                "Completed node upgrades",
                "Node upgrades an hour, by outcome.",
                [("sum by (outcome) (increase(muster_upgrade_turns_total[1h]))", "{{outcome}}")],
                stacked=True,
            ),
            Panel(
                "Duration of a node upgrade",
                "From the drained node to the end of its upgrade.",
                quantiles("muster_upgrade_turn_seconds"),
                unit="s",
            ),
            Panel(
                "Campaigns by state",
                "Over time.",
                [("sum by (state) (muster_upgrade_campaigns)", "{{state}}")],
                stacked=True,
            ),
        ),
    ),
)
