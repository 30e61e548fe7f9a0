"""`muster queue`, `job`, `why`, `nodes`, `trace`, and `queues set`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, JobIdArgument, Output, StateDir, Team

queues_app = typer.Typer(name="queues", help="Queues: who may use how much.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (queue, job, why, nodes, trace):
        app.command()(command)
    app.add_typer(queues_app)


def queue(
    *,
    state_dir: StateDir,
    output: As = Output.TABLE,
    team: Team = "",
    name: Annotated[str, typer.Option("--queue", help="Only this queue's.")] = "",
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
    reasons: Annotated[bool, typer.Option("--reasons", "-R", help="Only nodes that cannot be used, and why.")] = False,
) -> None:
    """Show the nodes and what they hold."""
    from muster.cli import reading

    reading.nodes(state_dir, output, reasons=reasons)


def trace(job_id: JobIdArgument, *, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Draw a job's way through the services from its facts: causes, durations, who wrote what."""
    from muster.cli import output as printed
    from muster.cli import reading, tables

    found = reading.job_trace(state_dir, job_id)
    if output is Output.JSON:
        printed.emit_json(asdict(found))
        return
    for line in tables.trace_lines(found):
        typer.echo(line)


@queues_app.callback()
def queues() -> None:
    """Queues: who may use how much."""


@queues_app.command("list")
def list_queues(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the queues."""
    from muster.cli import reading

    reading.queues(state_dir, output)


@queues_app.command("set")
def set_queues(
    *,
    file: Annotated[Path | None, typer.Argument(help="Queue file, one queue per document.", metavar="FILE")] = None,
    state_dir: StateDir,
    name: Annotated[str, typer.Option(help="One queue without a file.")] = "",
    quota: Annotated[float | None, typer.Option(help="GPUs that it can always have.", min=0)] = None,
    limit: Annotated[float | None, typer.Option(help="GPUs that it never exceeds.", min=0)] = None,
    closed: Annotated[bool, typer.Option("--closed", help="Takes no new jobs.")] = False,
) -> None:
    """Create or change queues (operators and admins)."""
    from muster.cli import queue_changes

    queue_changes.apply(state_dir, queue_changes.wanted(file, name=name, quota=quota, limit=limit, closed=closed))
