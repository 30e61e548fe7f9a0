"""`muster stats`, `muster top`: what GPUs do for jobs and teams."""

from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Cluster, Output, StateDir, Team
from muster.schemas.usage_words import DAYS_MAX, ROWS_MAX, EnergyBy, TopBy, TopOrder


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(stats)
    app.command()(top)


def stats(
    *,
    job: Annotated[str, typer.Argument(help="Id of the job.", metavar="JOB", callback=values.job_id)],
    state_dir: StateDir,
    output: As = Output.TABLE,
) -> None:
    """Show what a job did with its GPUs: busy against truly active, memory, power, energy, and what to do about it."""
    from muster.cli import usage

    usage.stats(state_dir, job, output)


def top(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    by: Annotated[TopBy, typer.Option(help="What a row stands for.")] = TopBy.JOB,
    order: Annotated[TopOrder, typer.Option(help="Greatest first; busy and sm: least first.")] = TopOrder.GPUS,
    team: Team = "",
    limit: Annotated[int, typer.Option(min=1, max=ROWS_MAX, help="Rows shown.")] = 20,
    idle: Annotated[bool, typer.Option("--idle", help="GPUs that are held and do nothing, by team.")] = False,
    energy: Annotated[bool, typer.Option("--energy", help="What teams used over days; --by queue: queues.")] = False,
    days: Annotated[int, typer.Option(min=1, max=DAYS_MAX, help="Of --energy, today included.")] = 30,
    cluster: Cluster = "",
) -> None:
    """Show who uses GPUs just now, and how much of that is work; nodes whose exporter does not answer."""
    from muster.cli import usage

    wanted = usage.Wanted(by, order, team, limit, cluster)
    if energy:
        over = EnergyBy.QUEUE if by is TopBy.QUEUE else EnergyBy.TEAM
        usage.energy(state_dir, output, by=over, days=days, wanted=wanted)
    elif idle:
        usage.idle(state_dir, output, team=team, limit=limit, cluster=cluster)
    else:
        usage.top(state_dir, output, wanted=wanted)
