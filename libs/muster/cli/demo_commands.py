"""`muster demo`: see it work, on a stack of its own."""

from typing import Annotated

import typer

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
    from muster.cli import demo_devices

    demo_devices.run(output, keep=keep)
