"""`muster scale`: what the scaler chose, why, and what else it looked at."""

from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Cluster, Output, StateDir


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(scale)


def scale(
    *,
    choice: Annotated[
        str, typer.Argument(help="Only this choice, in full.", metavar="ID", callback=values.choice)
    ] = "",
    state_dir: StateDir,
    output: As = Output.TABLE,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="With every alternative looked at.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Newest choices shown.")] = 50,
    cluster: Cluster = "",
) -> None:
    """Show what the scaler chose: attach a GPU, add a node, give a GPU back, remove a node, or nothing, and why."""
    from muster.cli import scaling

    if choice:
        scaling.one(state_dir, output, choice, cluster=cluster)
    else:
        scaling.choices(state_dir, output, verbose=verbose, limit=limit, cluster=cluster)
