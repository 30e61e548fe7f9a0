"""Commands that replay traces on a stack: `muster replay`."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import As, Output

replay_app = typer.Typer(name="replay", help="Replay a recorded trace on a separate stack.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(replay_app)


@replay_app.callback()
def replay() -> None:
    """Replay a recorded trace on a separate stack."""


@replay_app.command()
def openb(
    *,
    directory: Annotated[
        Path,
        typer.Argument(
            exists=True, file_okay=False, help="Directory with the node list and the pod list.", metavar="DIR"
        ),
    ],
    speedup: Annotated[
        float | None, typer.Option(min=1, help="Trace seconds per second. Default: the trace takes two minutes.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Output directory for the report, PNG and CSV.", file_okay=False)] = Path(
        "out/openb"
    ),
    output: As = Output.TABLE,
) -> None:
    """Replay the Alibaba openb trace on a fresh stack; report placed and unplaced jobs, waits and GPU allocation."""
    from muster.cli import replaying

    replaying.openb(directory, speedup=speedup, out=out, form=output)
