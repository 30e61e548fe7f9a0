"""Commands for the identity and the gateways of the user: `muster login`, `whoami`, `dashboard`, `context`."""

from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlsplit

import typer

from muster.cli import values
from muster.cli.errors import refused, usage
from muster.cli.options import As, Output, StateDir, Yes, listing
from muster.cli.output import confirm, emit_json, emitted, print_line, print_note, table


def register(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (dashboard, login, whoami):
        app.command()(command)


def login(
    *,
    gateway: Annotated[
        str,
        typer.Argument(
            help="Gateway URL; becomes the current context. Default: --url, or the gateway of the state directory.",
            metavar="URL",
            callback=values.url("https", "http"),
        ),
    ] = "",
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
    """Log in at an identity provider by a code that you enter in any browser.

    With URL, later commands use this gateway; otherwise they use the login with --url or MUSTER_URL.
    """
    import asyncio
    import os

    from muster.bus.clock import SystemTime
    from muster.cli.api_access import ApiAccess, chosen_access
    from muster.cli.login import Provider, Wanted, log_in, login_file, store
    from muster.client.tokens import TokenError

    url = (gateway or chosen_access().url).rstrip("/") or _url_of(state_dir)
    wanted = Wanted(url, issuer, client_id, scope, audience, "id_token" if id_token else "access_token", issuer_ca_file)
    file = login_file(os.environ, home=Path.home())

    async def logged_in() -> None:
        async with Provider(issuer, ca_file=issuer_ca_file) as provider:
            store(await log_in(provider, wanted, show=print_note, time=SystemTime()), file)

    try:
        asyncio.run(logged_in())
    except TokenError as error:
        raise refused(str(error)) from error
    if not gateway:
        print_line(f"logged in for {url}; use it with --url {url}, or MUSTER_URL")
        return
    from muster.cli import contexts

    name = (urlsplit(url).hostname or "gateway").replace(":", "-")
    contexts.put(name, ApiAccess(url=url, ca_file=chosen_access().ca_file), use=True)
    print_line(f"logged in for {url}; it is the current context ({name})")


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


context_app = typer.Typer(name="context", help="Named gateways: list, choose and change them.", no_args_is_help=True)
context_name = values.own_name("context's name")
_Name = Annotated[str, typer.Argument(help="Name of the context.", metavar="NAME", callback=context_name)]


@context_app.command("list")
@listing
def list_all(*, output: As = Output.TABLE) -> None:
    """List the contexts; `*` marks the current one."""
    from muster.cli import contexts

    known = contexts.load()
    if output is Output.JSON:
        emit_json(known.model_dump(mode="json", exclude_defaults=True))
        return
    rows = [
        ("*" if name == known.current else "", name, one.url, str(one.ca_file or ""), contexts.token_of(one))
        for name, one in known.contexts.items()
    ]
    table(("CURRENT", "NAME", "URL", "CA_FILE", "TOKEN"), rows)


@context_app.command("set")
def set_one(
    *,
    name: _Name,
    url: Annotated[str, typer.Option(help="Gateway URL.", callback=values.url("http", "https"))],
    ca_file: Annotated[
        Path | None,
        typer.Option(help="CA certificates to verify the gateway, in PEM. Default: the system's.", dir_okay=False),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the API token. Default: the login at the gateway.", dir_okay=False)
    ] = None,
    token_command: Annotated[str, typer.Option(help="Command that prints the API token.")] = "",
    use: Annotated[bool, typer.Option("--use", help="Make it the current context.")] = False,
) -> None:
    """Add a context, or replace the one of this name. The first one becomes the current context."""
    from muster.cli import contexts
    from muster.cli.api_access import ApiAccess
    from muster.cli.errors import usage

    if token_file is not None and token_command:
        raise usage("--token-file, --token-command: give one of the two")
    access = ApiAccess(
        url=url.rstrip("/"),
        token_file=None if token_file is None else token_file.resolve(),
        token_command=token_command,
        ca_file=None if ca_file is None else ca_file.resolve(),
    )
    contexts.put(name, access, use=use)
    print_line(f"context {name}: {url}")


@context_app.command("use")
def use_one(*, name: _Name) -> None:
    """Make a context the current one: commands without --url and --state-dir use its gateway."""
    from muster.cli import contexts

    print_line(f"context {name}: {contexts.use(name).url}")


@context_app.command()
def delete(*, name: _Name, yes: Yes = False) -> None:
    """Delete a context."""
    from muster.cli import contexts

    if not yes:
        confirm(f"Delete context {name}?")
    contexts.delete(name)
    print_line(f"context {name}: deleted")
