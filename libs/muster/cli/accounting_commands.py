"""`muster history` and `muster report usage`: ended jobs, and sums over them."""

from enum import StrEnum
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Output, StateDir, Team, listing

LIMIT_MAX = 100_000


class EndedState(StrEnum):
    """How a job ended: the values of `Phase` that are terminal."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed-out"


class ReportBy(StrEnum):
    """Unit that a row of a report sums up."""

    TEAM = "team"
    QUEUE = "queue"
    USER = "user"
    JOB = "job"


_Queue = Annotated[str, typer.Option("--queue", help="Only jobs of this queue.", callback=values.queue)]
_user = values.kind("user's name", r"\S{1,253}", "use at most 253 characters without spaces")
_User = Annotated[str, typer.Option(help="Only jobs that this user submitted.", callback=_user)]
_MOMENT = "a moment such as 2026-11-22T10:00, or a time ago such as 7d"
_From = Annotated[str, typer.Option("--from", help=f"Only jobs that ended then or later: {_MOMENT}.")]
_To = Annotated[str, typer.Option("--to", help=f"Only jobs that ended earlier: {_MOMENT}. By default: now.")]

_report = typer.Typer(name="report", help="Sums over ended jobs.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(history)
    _report.command("usage")(usage)
    app.add_typer(_report)


@listing
def history(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    user: _User = "",
    team: Team = "",
    queue: _Queue = "",
    state: Annotated[EndedState | None, typer.Option(help="Only jobs that ended this way.")] = None,
    from_: _From = "",
    to: _To = "",
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="Maximum number of jobs shown.")] = 200,
) -> None:
    """Show ended jobs, the last to end first (as sacct does)."""
    from muster.cli import accounting

    ended = accounting.Ended(user=user, team=team, queue=queue, state=state.value if state else "", from_=from_, to=to)
    accounting.history(state_dir, output, ended, limit=limit)


@listing
def usage(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    by: Annotated[ReportBy, typer.Option(help="What a row sums up.")] = ReportBy.TEAM,
    user: _User = "",
    team: Team = "",
    queue: _Queue = "",
    from_: _From = "30d",
    to: _To = "",
) -> None:
    """Sum up jobs that ended in a period: GPU-hours, busy GPU-hours, waiting time, preemptions (as sreport does)."""
    from muster.cli import accounting

    ended = accounting.Ended(user=user, team=team, queue=queue, from_=from_, to=to)
    accounting.report(state_dir, output, ended, by=by, most=LIMIT_MAX)
