"""Command for the decisions of the scaler: `muster scale`."""

from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Cluster, Output, StateDir, listing


def register(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(scale)


@listing
def scale(
    *,
    choice: Annotated[
        str, typer.Argument(help="Show one decision in detail.", metavar="ID", callback=values.choice)
    ] = "",
    state_dir: StateDir,
    output: As = Output.TABLE,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Include the alternatives of each decision.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of decisions, newest first.")] = 50,
    cluster: Cluster = "",
) -> None:
    """List the decisions of the scaler, with reasons: attach or detach GPUs, add or remove nodes, or nothing."""
    from muster.cli import scaling

    if choice:
        scaling.one(state_dir, output, choice, cluster=cluster)
    else:
        scaling.choices(state_dir, output, verbose=verbose, limit=limit, cluster=cluster)
