"""Commands for GPU usage: `muster stats` and `muster top`."""

from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Cluster, Output, StateDir, Team, listing
from muster.schemas.usage_words import DAYS_MAX, ROWS_MAX, EnergyBy, TopBy, TopOrder


def register(app: typer.Typer) -> None:
    """Register the commands."""
    app.command()(stats)
    app.command()(top)


def stats(
    *,
    job: Annotated[str, typer.Argument(help="Job id.", metavar="JOB", callback=values.job_id)],
    state_dir: StateDir,
    output: As = Output.TABLE,
) -> None:
    """Show the GPU usage of a job: utilization, activity, memory, power, energy, and hints."""
    from muster.cli import usage

    usage.stats(state_dir, job, output)


@listing
def top(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    by: Annotated[TopBy, typer.Option(help="Grouping of rows.")] = TopBy.JOB,
    order: Annotated[
        TopOrder, typer.Option(help="Sort column, largest first; busy and sm: smallest first.")
    ] = TopOrder.GPUS,
    team: Team = "",
    limit: Annotated[int, typer.Option(min=1, max=ROWS_MAX, help="Maximum number of rows.")] = 20,
    idle: Annotated[bool, typer.Option("--idle", help="List allocated but idle GPUs, by team.")] = False,
    energy: Annotated[
        bool,
        typer.Option("--energy", help="List the usage and energy of teams over --days; of queues with --by queue."),
    ] = False,
    days: Annotated[int, typer.Option(min=1, max=DAYS_MAX, help="Days of --energy, including today.")] = 30,
    cluster: Cluster = "",
) -> None:
    """List current GPU usage and activity, and the nodes whose exporter does not answer."""
    from muster.cli import usage

    wanted = usage.Wanted(by, order, team, limit, cluster)
    if energy:
        over = EnergyBy.QUEUE if by is TopBy.QUEUE else EnergyBy.TEAM
        usage.energy(state_dir, output, by=over, days=days, wanted=wanted)
    elif idle:
        usage.idle(state_dir, output, team=team, limit=limit, cluster=cluster)
    else:
        usage.top(state_dir, output, wanted=wanted)
