"""`muster guard demo` on the command line."""

from typing import Annotated

import typer

from muster.cli.options import As, Output

app = typer.Typer()


@app.command()
def demo(
    *,
    story: Annotated[
        list[str] | None,
        typer.Option(help="Only this one; repeat. lists, skew, memory, secrets, limits."),
    ] = None,
    emulated_version: Annotated[
        str, typer.Option("--emulated-version", help="Version whose encoding is shown beside this one's own.")
    ] = "1.32",
    output: As = Output.TABLE,
) -> None:
    """Show on a local control plane, before and after: who lists, skew, garbage collection, secrets, limited LISTs.

    Takes about five minutes; starts real API servers on loopback and ends them.
    """
    from muster_tools.demo.guard.run import tell

    tell(story or [], output, emulated_version=emulated_version)
