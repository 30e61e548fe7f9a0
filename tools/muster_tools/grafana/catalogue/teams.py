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
    "Who runs what, how long teams wait, how their jobs end. Small teams beyond a bound stand together as other.",
    variables=(("team", "Team", "label_values(muster_team_gpus_held, team)"),),
    rows=(
        (
            Panel("GPUs held", "By the team's jobs.", [(f"muster_team_gpus_held{_IN_TEAM}", "{{team}}")], stacked=True),
            Panel(
                "Running jobs",
                "All pods of the gang run.",
                [('muster_team_jobs{team=~"$team",state="running"}', "{{team}}")],
                stacked=True,
            ),
            Panel(
                "Waiting jobs",
                "Not placed, and not held by anybody.",
                [('muster_team_jobs{team=~"$team",state="waiting"}', "{{team}}")],
                stacked=True,
            ),
        ),
        (
            Panel(
                "Placed",
                "Placements, first and later ones.",
                [(f"rate(muster_jobs_placed_total{_IN_TEAM}{RATE})", "{{team}}")],
                unit="ops",
            ),
            Panel(
                "Mean wait",
                "From queued to placed, of the jobs placed then.",
                [
                    (_MEAN_WAIT, "{{team}}"),
                ],
                unit="s",
            ),
        ),
        (
            Panel(
                "Ended by outcome",
                "Of all chosen teams.",
                [(f"sum by (outcome) (rate(muster_jobs_ended_total{_IN_TEAM}{RATE}))", "{{outcome}}")],
                unit="ops",
                stacked=True,
            ),
            Panel(
                "Failed, of those that ended",
                "Over six hours, by team.",
                [
                    (_FAILED, "{{team}}"),
                ],
                unit="percentunit",
            ),
        ),
    ),
)
