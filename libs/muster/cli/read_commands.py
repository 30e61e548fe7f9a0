"""Commands that read the state: `muster queue`, `job`, `why`, `nodes`, `clusters`, `quota` and `trace`."""

from dataclasses import asdict
from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, JobIdArgument, Output, StateDir, Team, listing
from muster.cli.output import print_line


def register(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (queue, job, why, nodes, clusters, quota, trace):
        app.command()(command)


@listing
def queue(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    team: Team = "",
    name: Annotated[str, typer.Option("--queue", help="Filter by queue.", callback=values.queue)] = "",
    all_phases: Annotated[bool, typer.Option("--all", "-a", help="Include completed jobs.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of jobs, newest first.")] = 200,
) -> None:
    """List jobs, as squeue does, and queues. JSON: {"jobs": [...], "queues": [...]}."""
    from muster.cli import reading

    reading.queue(state_dir, output, team=team, queue=name, all_phases=all_phases, limit=limit)


def job(job_id: JobIdArgument, *, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show one job in detail."""
    from muster.cli import reading

    reading.job(state_dir, output, job_id)


def why(job_id: JobIdArgument, *, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Explain the state of a job: reason, position in the queue, hint, expected start."""
    from muster.cli import reading

    reading.why(state_dir, output, job_id)


@listing
def nodes(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    reasons: Annotated[
        bool, typer.Option("--reasons", "-R", help="List the reasons why nodes are, or will be, unschedulable.")
    ] = False,
) -> None:
    """List nodes, as sinfo does."""
    from muster.cli import reading

    reading.nodes(state_dir, output, reasons=reasons)


def clusters(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the clusters: backend, capacity, the component that assigns GPUs, and missing API capabilities."""
    from muster.cli import reading

    reading.clusters(state_dir, output)


def trace(job_id: JobIdArgument, *, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the facts of a job as a tree of causes, with the service, the time and the duration of each.

    Similar attachments of devices are shown once; `-o wide` shows each.
    """
    from muster.cli import output as printed
    from muster.cli import reading, tables

    found = reading.job_trace(state_dir, job_id)
    if output is Output.JSON:
        printed.emit_json(asdict(found))
        return
    for line in tables.trace_lines(found, whole=output is Output.WIDE):
        print_line(line)


@listing
def quota(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the rate limits of the token in use, and the rest of them at the gateway that answers."""
    from muster.cli import reading

    reading.quota(state_dir, output)
