"""`muster queue`, `job`, `why`, `nodes`, `clusters`, `quota`, `trace`."""

from dataclasses import asdict
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, JobIdArgument, Output, StateDir, Team
from muster.cli.output import print_line


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (queue, job, why, nodes, clusters, quota, trace):
        app.command()(command)


def queue(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    team: Team = "",
    name: Annotated[str, typer.Option("--queue", help="Only this queue's.", callback=values.queue)] = "",
    all_phases: Annotated[bool, typer.Option("--all", "-a", help="Jobs that ended, too.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Newest jobs shown.")] = 200,
) -> None:
    """Show jobs (as squeue does) and queues. JSON: {"jobs": [...], "queues": [...]}."""
    from muster.cli import reading

    reading.queue(state_dir, output, team=team, queue=name, all_phases=all_phases, limit=limit)


def job(job_id: JobIdArgument, *, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show one job in full."""
    from muster.cli import reading

    reading.job(state_dir, output, job_id)


def why(job_id: JobIdArgument, *, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Say why a job is where it is, its position, and what would make it run."""
    from muster.cli import reading

    reading.why(state_dir, output, job_id)


def nodes(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    reasons: Annotated[bool, typer.Option("--reasons", "-R", help="What speaks against nodes, now or later.")] = False,
) -> None:
    """Show the nodes and what they hold."""
    from muster.cli import reading

    reading.nodes(state_dir, output, reasons=reasons)


def clusters(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the clusters: what they are, who picks GPUs there, and what they cannot do."""
    from muster.cli import reading

    reading.clusters(state_dir, output)


def trace(job_id: JobIdArgument, *, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Draw a job's way through the services from its facts: causes, durations, who wrote what.

    Devices attached alike are drawn once; wide: each.
    """
    from muster.cli import output as printed
    from muster.cli import reading, tables

    found = reading.job_trace(state_dir, job_id)
    if output is Output.JSON:
        printed.emit_json(asdict(found))
        return
    for line in tables.trace_lines(found, whole=output is Output.WIDE):
        print_line(line)


def quota(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the request limits of the token in use, and what is left of them at the gateway that answers."""
    from muster.cli import reading

    reading.quota(state_dir, output)
