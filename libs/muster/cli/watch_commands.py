"""`muster watch` and `muster events`."""

from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Output, StateDir, Team

FACTS_MAX = 2_000  # what the API gives at once


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(watch)
    app.command()(events)


def watch(
    job_id: Annotated[
        str, typer.Argument(help="Follow this job to its end; else a live view.", metavar="ID", callback=values.job_id)
    ] = "",
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
) -> None:
    """Follow a job to its end (exit 1 unless it succeeds), or show the fleet live until Ctrl-C. JSON: lines."""
    from muster.cli import watching

    if job_id:
        watching.job(state_dir, output, job_id)
    elif output is Output.JSON:
        watching.facts(state_dir, output, job_id="", team="", follow=True, limit=0)
    else:
        watching.show(state_dir)


def events(
    job_id: Annotated[str, typer.Argument(help="Only this job's facts.", metavar="ID", callback=values.job_id)] = "",
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    team: Team = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new facts until Ctrl-C; of a job all until it ends.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, max=FACTS_MAX, help="Newest facts shown first.")] = 100,
) -> None:
    """Print the facts themselves, oldest first. JSON: one fact per line."""
    from muster.cli import watching

    watching.facts(state_dir, output, job_id=job_id, team=team, follow=follow, limit=limit)
