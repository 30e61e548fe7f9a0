"""`muster demo`: see it work, on a stack of its own."""

from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Output

app = typer.Typer(name="demo", help="See it work, on a fresh stack of its own.", no_args_is_help=True)


@app.callback()
def demo() -> None:
    """See it work, on a fresh stack of its own."""


@app.command()
def devices(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack running at the end.")] = False,
    output: As = Output.TABLE,
) -> None:
    """Attach a GPU, add a node, give both back, and take a GPU from a node that cannot go: what was decided, and why.

    JSON: [{name, title, passed, seconds, problem, crossed, decisions: [{case, name, reason, alternatives, outcome,
    ...}]}]; crossed: who spoke in the trace from the pending job to the running one. Exit code 3 unless all pass.
    """
    from muster_tools.demo.devices import run

    run(output, keep=keep)


@app.command()
def health(*, output: As = Output.TABLE) -> None:
    """A GPU falls off the bus under a job of 16 GPUs, and a node fails a job's checks: who says what, and when.

    JSON: [{name, title, passed, seconds, problem, facts: [{at_s, writer, subject, name, detail}]}]. Exit code 3 unless
    both pass.
    """
    from muster_tools.demo.health import run

    run(output)


@app.command()
def upgrade(
    *,
    nodes: Annotated[int, typer.Option(min=2, max=2_000, help="Of 8 GPUs each.")] = 200,
    max_unavailable: Annotated[
        str, typer.Option(help="Nodes out of use at one time: 10 or 5%.", callback=values.share)
    ] = "5%",
    output: As = Output.TABLE,
) -> None:
    """Upgrade a fleet full of week-long jobs in virtual time: by a campaign, and as one drains by hand.

    Needs no stack; about two minutes for 200 nodes. JSON: {nodes, ways: [{name, took_s, killed, moved, redone_gpu_h,
    idle_gpu_h, lost_gpu_h, nodes_out, upgraded, facts}]}. Exit code 3 unless the campaign upgraded every node and no
    job was killed.
    """
    from muster_tools.demo.upgrade.command import run

    run(output, nodes=nodes, max_unavailable=max_unavailable)


@app.command()
def transition(
    *,
    jobs: Annotated[int, typer.Option(min=20, max=2_000, help="Short jobs that the team submits meanwhile.")] = 60,
    output: As = Output.TABLE,
) -> None:
    """A team moves from one cluster to another while it goes on submitting: what ran where, and that nobody noticed.

    About a minute, on a federation of two clusters of its own. JSON: {jobs, stayed, moved, straight, lost, twice, aged,
    submissions, stopped, away_s_max, drained_s, moments: [{at_s, who, said}], passed, problem}. Exit code 3 unless no
    job was lost, run twice, stopped or submitted again, and all kept their age.
    """
    from muster_tools.demo.transition import run

    run(output, jobs=jobs)
