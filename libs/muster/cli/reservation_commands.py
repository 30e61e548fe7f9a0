"""`muster reserve` and `muster reservations`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.options import As, Output, Reason, StateDir, spread

_WHAT, _WHOM, _WHEN = "What is kept", "For whom", "When"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The options of a reservation."""

    name: Annotated[
        str,
        typer.Argument(
            help="Name of the reservation; one of that name is replaced.", metavar="NAME", callback=values.name
        ),
    ]
    nodes: Annotated[list[str] | None, typer.Option(help="a,b; or repeat.", rich_help_panel=_WHAT)] = None
    gpus: Annotated[int, typer.Option(min=0, help="So many, wherever.", rich_help_panel=_WHAT)] = 0
    model: Annotated[str, typer.Option(help="Of this GPU model.", rich_help_panel=_WHAT)] = ""
    for_queue: Annotated[
        str, typer.Option(help="Its jobs, and those below.", rich_help_panel=_WHOM, callback=values.queue)
    ] = ""
    for_job: Annotated[
        str, typer.Option(help="One job.", metavar="ID", rich_help_panel=_WHOM, callback=values.job_id)
    ] = ""
    maintenance: Annotated[bool, typer.Option("--maintenance", help="Nobody.", rich_help_panel=_WHOM)] = False
    starts: Annotated[str, typer.Option(help="2026-11-22T10:00, local time.", rich_help_panel=_WHEN)] = ""
    starts_in: Annotated[str, typer.Option("--in", help="From now: 2h.", rich_help_panel=_WHEN)] = ""
    length: Annotated[str, typer.Option("--for", help="How long: 4h, 90m.", rich_help_panel=_WHEN)] = ""
    weekly: Annotated[bool, typer.Option("--weekly", help="Again each week.", rich_help_panel=_WHEN)] = False
    reason: Reason = ""


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(reserve)
    app.command()(reservations)


@spread
def reserve(
    *,
    state_dir: StateDir,
    wanted: Wanted,
    end: Annotated[bool, typer.Option("--end", help="End the reservation of this name.")] = False,
) -> None:
    """Keep nodes or GPUs from a moment on, for a queue, a job or maintenance (operators and admins)."""
    from muster.cli import reserving

    if not end:
        reserving.reserve(state_dir, wanted)
    elif wanted != Wanted(name=wanted.name, reason=wanted.reason):
        raise usage("--end: takes NAME and --reason alone; leave the rest out")
    else:
        reserving.end(state_dir, wanted.name, reason=wanted.reason)


def reservations(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show advance reservations: what is kept, for whom, and when."""
    from muster.cli import reserving

    reserving.show(state_dir, output)
