"""Which gateway a command speaks to and with which token: of options, the environment, a login, the state directory."""

import os
import shlex
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli.errors import usage

if TYPE_CHECKING:
    from muster.client import Muster, TokenSource

TOKEN_VARIABLE = "MUSTER_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """Values of the options before the command; empty or None if not given."""

    url: str = ""
    token_file: Path | None = None
    token_command: str = ""
    ca_file: Path | None = None


_chosen: ContextVar[ApiAccess | None] = ContextVar("chosen_access", default=None)


def choose_access(access: ApiAccess) -> None:
    """Note what the options before the command say, for the command that follows."""
    _chosen.set(access)


def chosen_access() -> ApiAccess:
    """Return what the options before the command say."""
    return _chosen.get() or ApiAccess()


def opened(state_dir: Path, access: ApiAccess) -> "Muster":
    """Return a client of the gateway. Raises CliError, StateDirError."""
    from muster.client import Muster

    token = _named_token(access)
    if not access.url:
        return Muster.from_state_dir(state_dir, token=token, ca_file=access.ca_file)
    if token is None:
        from muster.cli.login import LoginToken, login_file

        token = LoginToken(access.url, login_file(os.environ, home=Path.home()))
    return Muster(access.url, token, ca_file=access.ca_file)


def _named_token(access: ApiAccess) -> "str | TokenSource | None":
    """Return the source of the token that options or environment name; None if they name none."""
    from muster.client import CommandToken, FileToken

    if access.token_file is not None and access.token_command:
        raise usage("--token-file, --token-command: give one of the two")
    if access.token_command:
        try:
            return CommandToken(shlex.split(access.token_command))
        except ValueError as error:
            raise usage(f"--token-command: {error}") from error
    if access.token_file is not None:
        return FileToken(access.token_file)
    return os.environ.get(TOKEN_VARIABLE, "").strip() or None
