"""`muster dashboard`: the way into the dashboard, with the token of the state directory."""

from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from muster.cli.options import StateDir
from muster.cli.output import print_line


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(dashboard)


def dashboard(
    *,
    state_dir: StateDir,
    browser: Annotated[
        bool, typer.Option("--open", help="Open it in this machine's browser, too; its process list shows the address.")
    ] = False,
) -> None:
    """Print the dashboard's address with your token in it: whoever has it is you."""
    from muster.cli.errors import refused
    from muster.cli.session import call

    call(state_dir, lambda muster: muster.me())
    address = login_address(state_dir)
    print_line(address)
    if browser and typer.launch(address) != 0:
        raise refused("no browser could be opened here; open the printed address in one")


def login_address(state_dir: Path) -> str:
    """Where a running stack's dashboard is, with the token behind `#`, which browsers send to no server.

    Raises OSError if nothing runs on the state directory.
    """
    from muster.schemas.access import Endpoints
    from muster.stack.state_dir import StateDir as Directory

    state = Directory(state_dir)
    endpoints = Endpoints.model_validate_json(state.endpoints.read_bytes())
    return f"{endpoints.http}/#token={quote(state.token.read_text().strip(), safe='')}"
