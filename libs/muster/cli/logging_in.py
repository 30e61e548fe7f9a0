"""The work of `muster login` and `muster whoami`."""

import asyncio
import os
from pathlib import Path

from pydantic import ValidationError

from muster.bus.clock import SystemTime
from muster.cli import output
from muster.cli.api_access import chosen_access
from muster.cli.errors import refused, usage
from muster.cli.login import Provider, Wanted, log_in, login_file, store
from muster.cli.options import Output
from muster.cli.session import call
from muster.client.tokens import TokenError
from muster.schemas.access import Endpoints


def login(
    state_dir: Path, *, issuer: str, client_id: str, scope: str, audience: str, id_token: bool, ca_file: Path | None
) -> None:
    """Log in and keep the token for the gateway. Raises CliError."""
    url = chosen_access().url.rstrip("/") or _url_of(state_dir)
    wanted = Wanted(url, issuer, client_id, scope, audience, "id_token" if id_token else "access_token", ca_file)
    file = login_file(os.environ, home=Path.home())

    async def logged_in() -> None:
        async with Provider(issuer, ca_file=ca_file) as provider:
            store(await log_in(provider, wanted, show=_show, time=SystemTime()), file)

    try:
        asyncio.run(logged_in())
    except TokenError as error:
        raise refused(str(error)) from error
    output.print_line(f"logged in for {url}; use it with --url {url}, or MUSTER_URL")


def whoami(state_dir: Path, form: Output) -> None:
    """Show who the token's bearer is. Raises CliError."""
    found = call(state_dir, lambda muster: muster.me())
    if form is Output.JSON:
        output.emit_model(found)
        return
    output.table(("PRINCIPAL", "ROLE", "TEAMS"), [(found.principal, found.role.value, ",".join(found.teams))])


def _show(line: str) -> None:
    output.print_note(line)


def _url_of(state_dir: Path) -> str:
    """Return where the stack of this directory listens. Raises CliError."""
    try:
        return Endpoints.model_validate_json((state_dir / "run" / "endpoints.json").read_bytes()).http
    except (OSError, ValidationError) as error:
        raise usage("--url: name the gateway that the login is for; no stack runs from the state directory") from error
