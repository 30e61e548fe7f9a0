"""The commands of `muster demo`."""

from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Output

app = typer.Typer(name="demo", help="Run demonstrations on a fresh stack.", no_args_is_help=True)


@app.callback()
def demo() -> None:
    """Run demonstrations on a fresh stack."""


@app.command()
def devices(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the stack running at the end.")] = False,
    output: As = Output.TABLE,
) -> None:
    """Attach a GPU, add a node, return both, and take a GPU from a node that cannot be removed; show the decisions.

    JSON: [{name, title, passed, seconds, problem, crossed, decisions: [{case, name, reason, alternatives, outcome,
    ...}]}]; crossed: services in the trace from the pending to the running job. Exit code 3 unless all pass.
    """
    from muster_tools.demo.devices import run

    run(output, keep=keep)


@app.command()
def health(*, output: As = Output.TABLE) -> None:
    """Let a GPU fall off the bus under a job of 16 GPUs, and a node fail a job's checks; show the facts of both.

    JSON: [{name, title, passed, seconds, problem, facts: [{at_s, writer, subject, name, detail}]}]. Exit code 3 unless
    both pass.
    """
    from muster_tools.demo.health import run

    run(output)


@app.command()
def upgrade(
    *,
    nodes: Annotated[int, typer.Option(min=2, max=2_000, help="Number of nodes with 8 GPUs each.")] = 200,
    max_unavailable: Annotated[
        str,
        typer.Option(help="Maximum unavailable nodes, as a number or percentage: 10 or 5%.", callback=values.share),
    ] = "5%",
    output: As = Output.TABLE,
) -> None:
    """Upgrade a fleet full of week-long jobs in virtual time, by a campaign and by draining nodes manually.

    Needs no stack; takes about two minutes for 200 nodes. JSON: {nodes, ways: [{name, took_s, killed, moved,
    redone_gpu_h, idle_gpu_h, lost_gpu_h, nodes_out, upgraded, facts}]}. Exit code 3 unless the campaign upgraded every
    node and killed no job.
    """
    from muster_tools.demo.upgrade.command import run

    run(output, nodes=nodes, max_unavailable=max_unavailable)


@app.command()
def transition(
    *,
    jobs: Annotated[
        int, typer.Option(min=20, max=2_000, help="Number of short jobs submitted during the transition.")
    ] = 60,
    output: As = Output.TABLE,
) -> None:
    """Move a team from one cluster to another while it submits jobs; show where its jobs ran and whether any failed.

    Takes about a minute, on a fresh federation of two clusters. JSON: {jobs, stayed, moved, straight, lost, twice,
    aged, submissions, stopped, away_s_max, drained_s, moments: [{at_s, who, said}], passed, problem}. Exit code 3
    unless no job was lost, run twice, stopped or submitted again, and all kept their age.
    """
    from muster_tools.demo.transition import run

    run(output, jobs=jobs)
