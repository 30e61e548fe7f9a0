"""Upgrade campaigns: how they go, where their nodes are, what turns take and cost."""

from muster_tools.grafana.boards import Board, Panel, quantiles

_OUT = 'step=~"cordoned|waiting-for-jobs|drained|upgrading|validating|rolling-back"'
_ENDS = 'step=~"done|failed|rolled-back"'

CAMPAIGNS = Board(
    "campaigns",
    "Campaigns",
    "Upgrades of nodes under running jobs. `muster upgrade status` has names and reasons.",
    rows=(
        (
            Panel(
                "Campaigns",
                "That are not over. stopped: by itself, it needs somebody.",
                [("sum by (state) (muster_upgrade_campaigns)", "{{state}}")],
                kind="stat",
            ),
            Panel(
                "Nodes that are through",
                "Of the nodes of campaigns that are not over: done, failed or rolled back.",
                [(f"sum(muster_upgrade_nodes{{{_ENDS}}})", "through"), ("sum(muster_upgrade_nodes)", "all")],
                kind="stat",
            ),
            Panel(
                "GPU-hours lost in a week",
                "That nobody used while campaigns which ended kept nodes.",
                [("sum(increase(muster_upgrade_gpu_hours_lost_total[7d]))", "GPU-hours")],
                kind="stat",
            ),
        ),
        (
            Panel(
                "Nodes by step",
                "waiting-for-jobs: the last jobs run to their end. It may take as long as they do.",
                [("sum by (step) (muster_upgrade_nodes)", "{{step}}")],
                stacked=True,
            ),
            Panel(
                "Nodes out of use",
                "Of campaigns, and for health beside them: both count in --max-unavailable.",
                [
                    (f"sum(muster_upgrade_nodes{{{_OUT}}})", "campaigns"),
                    ('sum(muster_health_units{kind="node"})', "health"),
                ],
            ),
        ),
        (
            Panel(
                "Turns that ended",
                "An hour each, by outcome.",
                [("sum by (outcome) (increase(muster_upgrade_turns_total[1h]))", "{{outcome}}")],
                stacked=True,
            ),
            Panel(
                "Length of a turn",
                "From a node that is empty to the end of its turn.",
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
