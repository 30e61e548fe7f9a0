"""The command `muster guard demo`."""

from typing import Annotated

import typer

from muster.cli.options import As, Output

app = typer.Typer()


@app.command()
def demo(
    *,
    story: Annotated[
        list[str] | None,
        typer.Option(help="Run only this story; repeat for more: lists, skew, memory, secrets, limits."),
    ] = None,
    emulated_version: Annotated[
        str, typer.Option("--emulated-version", help="Older version to emulate for comparison.")
    ] = "1.32",
    output: As = Output.TABLE,
) -> None:
    """Show API server hazards before and after a remedy: LISTs, skew, garbage collection, secrets, LIST limits.

    Takes about five minutes; starts real API servers on loopback and stops them.
    """
    from muster_tools.demo.guard.run import tell

    tell(story or [], output, emulated_version=emulated_version)
