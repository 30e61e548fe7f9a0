"""Commands for webhooks: `muster webhook`."""

from typing import Annotated

import typer

from muster.cli import values
from muster.cli.options import As, Output, StateDir, listing

app = typer.Typer(name="webhook", help="List and test webhooks.", no_args_is_help=True)


@app.callback()
def webhook() -> None:
    """List and test webhooks."""


@app.command("list")
@listing
def list_webhooks(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """List the configured webhooks, with the number of undelivered events."""
    from muster.cli import webhooks

    webhooks.show(state_dir, output)


@app.command("test")
def try_out(
    *,
    name: Annotated[
        str, typer.Argument(help="Webhook name, as in the settings.", metavar="NAME", callback=values.name)
    ],
    state_dir: StateDir,
    output: As = Output.TABLE,
) -> None:
    """Send a signed test message from this machine; exit code 3 unless the receiver accepts it."""
    from muster.cli import webhooks

    webhooks.try_out(state_dir, output, name=name)


@app.command()
def secret() -> None:
    """Print a new signing key, for the `secret` file of a webhook and for its receiver."""
    from muster.cli import webhooks

    webhooks.print_secret()
