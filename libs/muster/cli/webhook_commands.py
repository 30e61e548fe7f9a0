"""`muster webhook`: who is told what, and whether messages arrive."""

from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Output, StateDir

app = typer.Typer(name="webhook", help="Webhooks: who is told of which events.", no_args_is_help=True)


@app.callback()
def webhook() -> None:
    """Webhooks: who is told of which events."""


@app.command("list")
def list_webhooks(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the webhooks of the settings, and how many events wait for each."""
    from muster.cli import webhooks

    webhooks.show(state_dir, output)


@app.command("test")
def try_out(
    *,
    name: Annotated[
        str, typer.Argument(help="A webhook's name, as the settings say it.", metavar="NAME", callback=values.name)
    ],
    state_dir: StateDir,
    output: As = Output.TABLE,
) -> None:
    """Post a test message, signed as real ones are, from here; exit 3 unless the receiver takes it."""
    from muster.cli import webhooks

    webhooks.try_out(state_dir, output, name=name)


@app.command()
def secret() -> None:
    """Print a new key to sign with, for the file that a webhook's `secret` names; the receiver gets the same."""
    from muster.cli import webhooks

    webhooks.print_secret()
