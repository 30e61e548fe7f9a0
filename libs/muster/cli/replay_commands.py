"""`muster replay openb`: a real trace through the real bus, against a simulated fleet of exactly its nodes."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output

replay_app = typer.Typer(name="replay", help="Run a recorded trace through the whole stack.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(replay_app)


@replay_app.callback()
def replay() -> None:
    """Run a recorded trace through the whole stack."""


@replay_app.command()
def openb(
    *,
    directory: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="Folder with the node and pod lists.", metavar="DIR")
    ],
    speedup: Annotated[
        float | None, typer.Option(min=1, help="Trace seconds per second; by default all in two minutes.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report, the PNG and the CSV.")] = Path("out/openb"),
    output: As = Output.TABLE,
) -> None:
    """Replay Alibaba's openb trace on a fresh stack of its own: placed, never placed and why, waits, GPU allocation."""
    from muster.cli import replaying

    replaying.openb(directory, speedup=speedup, out=out, form=output)
