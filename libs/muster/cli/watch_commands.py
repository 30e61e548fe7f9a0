"""Commands that follow changes: `muster watch` and `muster events`."""

from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Output, StateDir, Team

FACTS_MAX = 2_000  # maximum of one response of the API


def register(app: typer.Typer) -> None:
    """Register the commands."""
    app.command()(watch)
    app.command()(events)


def watch(
    job_id: Annotated[
        str,
        typer.Argument(
            help="Job to follow to its end. Default: a live view of the fleet.", metavar="ID", callback=values.job_id
        ),
    ] = "",
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
) -> None:
    """Follow a job to its end (exit code 1 unless it succeeds), or show the fleet live until Ctrl-C."""
    from muster.cli import watching

    if job_id:
        watching.job(state_dir, output, job_id)
    elif output is Output.JSON:
        watching.facts(state_dir, output, job_id="", team="", follow=True, limit=0)
    else:
        watching.show(state_dir)


def events(
    job_id: Annotated[str, typer.Argument(help="Filter by job.", metavar="ID", callback=values.job_id)] = "",
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    team: Team = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new facts until Ctrl-C, or until the job ends.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=0, max=FACTS_MAX, help="Number of existing facts to print, the newest ones.")
    ] = 100,
) -> None:
    """Print facts of the log, oldest first. JSON: one fact per line."""
    from muster.cli import watching

    watching.facts(state_dir, output, job_id=job_id, team=team, follow=follow, limit=limit)
