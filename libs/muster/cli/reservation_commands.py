"""Commands for advance reservations: `muster reserve` and `muster reservations`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.errors import usage
from muster.cli.options import As, Output, Reason, StateDir, listing, spread

_WHAT, _WHOM, _WHEN = "Reserved resources", "Users of the reservation", "Time"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Options of a reservation."""

    name: Annotated[
        str,
        typer.Argument(
            help="Name of the reservation; an existing one is replaced.", metavar="NAME", callback=values.name
        ),
    ]
    nodes: Annotated[
        list[str] | None, typer.Option(help="Nodes to reserve, separated by commas; or repeat.", rich_help_panel=_WHAT)
    ] = None
    gpus: Annotated[
        int, typer.Option(min=0, help="Number of GPUs to reserve, on any nodes.", rich_help_panel=_WHAT)
    ] = 0
    model: Annotated[str, typer.Option(help="GPU model for --gpus. Default: any.", rich_help_panel=_WHAT)] = ""
    for_queue: Annotated[
        str,
        typer.Option(
            help="Reserve for the jobs of this queue and its subqueues.", rich_help_panel=_WHOM, callback=values.queue
        ),
    ] = ""
    for_job: Annotated[
        str, typer.Option(help="Reserve for one job.", metavar="ID", rich_help_panel=_WHOM, callback=values.job_id)
    ] = ""
    maintenance: Annotated[
        bool, typer.Option("--maintenance", help="Reserve for maintenance: no job runs there.", rich_help_panel=_WHOM)
    ] = False
    starts: Annotated[
        str, typer.Option(help="Start time, such as 2026-11-22T10:00 (local time).", rich_help_panel=_WHEN)
    ] = ""
    starts_in: Annotated[
        str, typer.Option("--in", help="Start after this time from now, such as 2h.", rich_help_panel=_WHEN)
    ] = ""
    length: Annotated[str, typer.Option("--for", help="Duration, such as 4h or 90m.", rich_help_panel=_WHEN)] = ""
    weekly: Annotated[bool, typer.Option("--weekly", help="Repeat every week.", rich_help_panel=_WHEN)] = False
    reason: Reason = ""


def register(app: typer.Typer) -> None:
    """Register the commands."""
    app.command()(reserve)
    app.command()(reservations)


@spread
def reserve(
    *,
    state_dir: StateDir,
    wanted: Wanted,
    end: Annotated[bool, typer.Option("--end", help="End the reservation of this name.")] = False,
) -> None:
    """Reserve nodes or GPUs for a period, for a queue, a job or maintenance (operators and admins)."""
    from muster.cli import reserving

    if not end:
        reserving.reserve(state_dir, wanted)
    elif wanted != Wanted(name=wanted.name, reason=wanted.reason):
        raise usage("--end: takes only NAME and --reason; remove the other options")
    else:
        reserving.end(state_dir, wanted.name, reason=wanted.reason)


@listing
def reservations(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """List advance reservations: resources, users and time."""
    from muster.cli import reserving

    reserving.show(state_dir, output)
