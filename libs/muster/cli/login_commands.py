"""Commands for the identity of the user: `muster login`, `whoami` and `dashboard`."""

from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from muster.cli import values
from muster.cli.errors import refused, usage
from muster.cli.options import As, Output, StateDir
from muster.cli.output import emitted, print_line, print_note, table


def register(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (dashboard, login, whoami):
        app.command()(command)


def login(
    *,
    issuer: Annotated[
        str,
        typer.Option(
            envvar="MUSTER_OIDC_ISSUER",
            help="Issuer URL of the identity provider.",
            callback=values.url("https", "http"),
        ),
    ],
    client_id: Annotated[
        str, typer.Option(envvar="MUSTER_OIDC_CLIENT_ID", help="OAuth client id of the command line.")
    ],
    state_dir: StateDir,
    scope: Annotated[
        str, typer.Option(envvar="MUSTER_OIDC_SCOPE", help="OAuth scopes, separated by spaces.")
    ] = "openid offline_access",
    audience: Annotated[
        str, typer.Option(envvar="MUSTER_OIDC_AUDIENCE", help="OAuth audience, if the provider needs one.")
    ] = "",
    id_token: Annotated[bool, typer.Option("--id-token", help="Use the ID token instead of the access token.")] = False,
    issuer_ca_file: Annotated[
        Path | None, typer.Option(help="CA certificates to verify the provider, in PEM.", dir_okay=False, exists=True)
    ] = None,
) -> None:
    """Log in at an identity provider by a code that you enter in any browser; later commands with --url use it."""
    import asyncio
    import os

    from muster.bus.clock import SystemTime
    from muster.cli.api_access import chosen_access
    from muster.cli.login import Provider, Wanted, log_in, login_file, store
    from muster.client.tokens import TokenError

    url = chosen_access().url.rstrip("/") or _url_of(state_dir)
    wanted = Wanted(url, issuer, client_id, scope, audience, "id_token" if id_token else "access_token", issuer_ca_file)
    file = login_file(os.environ, home=Path.home())

    async def logged_in() -> None:
        async with Provider(issuer, ca_file=issuer_ca_file) as provider:
            store(await log_in(provider, wanted, show=print_note, time=SystemTime()), file)

    try:
        asyncio.run(logged_in())
    except TokenError as error:
        raise refused(str(error)) from error
    print_line(f"logged in for {url}; use it with --url {url}, or MUSTER_URL")


def whoami(*, state_dir: StateDir, output: As = Output.TABLE) -> None:
    """Show the user, role and teams of the token in use."""
    from muster.cli.session import call

    found = call(state_dir, lambda muster: muster.me())
    if emitted(found, output):
        return
    table(("PRINCIPAL", "ROLE", "TEAMS"), [(found.principal, found.role.value, ",".join(found.teams))])


def dashboard(
    *,
    state_dir: StateDir,
    browser: Annotated[
        bool, typer.Option("--open", help="Also open it in a browser; the process list then shows the address.")
    ] = False,
) -> None:
    """Print the URL of the dashboard, including your token: keep it private."""
    from muster.cli.session import call

    call(state_dir, lambda muster: muster.me())
    address = login_address(state_dir)
    print_line(address)
    if browser and typer.launch(address) != 0:
        raise refused("no browser could be opened here; open the printed address in one")


def login_address(state_dir: Path) -> str:
    """Return the URL of the dashboard, with the token after `#`, which browsers do not send to servers.

    Raises OSError if nothing runs on the state directory.
    """
    from muster.schemas.access import Endpoints
    from muster.stack.state_dir import StateDir as Directory

    state = Directory(state_dir)
    endpoints = Endpoints.model_validate_json(state.endpoints.read_bytes())
    return f"{endpoints.http}/#token={quote(state.token.read_text().strip(), safe='')}"


def _url_of(state_dir: Path) -> str:
    """Return the gateway URL of the stack in this directory. Raises CliError."""
    from pydantic import ValidationError

    from muster.schemas.access import Endpoints

    try:
        return Endpoints.model_validate_json((state_dir / "run" / "endpoints.json").read_bytes()).http
    except (OSError, ValidationError) as error:
        raise usage("--url: no stack is running in the state directory; give the URL of the gateway") from error
