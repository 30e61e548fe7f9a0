"""Jobs by team."""

from muster_tools.grafana.boards import RATE, Board, Panel

_IN_TEAM = '{team=~"$team"}'
_MEAN_WAIT = f"rate(muster_jobs_waited_seconds_total{_IN_TEAM}{RATE}) / rate(muster_jobs_placed_total{_IN_TEAM}{RATE})"
_FAILED = (
    'sum by (team) (increase(muster_jobs_ended_total{team=~"$team",outcome="failed"}[6h]))'
    f" / sum by (team) (increase(muster_jobs_ended_total{_IN_TEAM}[6h]))"
)

TEAMS = Board(
    "teams",
    "Jobs by team",
    "Running jobs, waits and outcomes by team. Teams beyond a limit are combined as other.",
    variables=(("team", "Team", "label_values(muster_team_gpus_held, team)"),),
    rows=(
        (
            Panel("GPUs held", "By the team's jobs.", [(f"muster_team_gpus_held{_IN_TEAM}", "{{team}}")], stacked=True),
            Panel(
                "Running jobs",
                "Jobs whose pods all run.",
                [('muster_team_jobs{team=~"$team",state="running"}', "{{team}}")],
                stacked=True,
            ),
            Panel(
                "Waiting jobs",
                "Jobs that are not placed and not held.",
                [('muster_team_jobs{team=~"$team",state="waiting"}', "{{team}}")],
                stacked=True,
            ),
        ),
        (
            Panel(
                "Placed",
                "First and repeated placements.",
                [(f"rate(muster_jobs_placed_total{_IN_TEAM}{RATE})", "{{team}}")],
                unit="ops",
            ),
            Panel(
                "Mean wait",
                "From queued to placed, of the jobs placed at that time.",
                [
                    (_MEAN_WAIT, "{{team}}"),
                ],
                unit="s",
            ),
        ),
        (
            Panel(
                "Ended by outcome",
                "Of all selected teams.",
                [(f"sum by (outcome) (rate(muster_jobs_ended_total{_IN_TEAM}{RATE}))", "{{outcome}}")],
                unit="ops",
                stacked=True,
            ),
            Panel(
                "Failed share of ended jobs",
                "Over six hours, by team.",
                [
                    (_FAILED, "{{team}}"),
                ],
                unit="percentunit",
            ),
        ),
    ),
)
