"""Choose the gateway of a command, and its token: by options, environment, state directory, context or login."""

import os
import shlex
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli.errors import usage
from muster.cli.options import chosen_state_dir

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
    is_local: bool = False
    """Use the gateway of the state directory, whatever options and contexts name: for a command that starts it."""


_chosen: ContextVar[ApiAccess | None] = ContextVar("chosen_access", default=None)


def choose_access(access: ApiAccess) -> None:
    """Note what the options before the command say, for the command that follows."""
    _chosen.set(access)


def chosen_access() -> ApiAccess:
    """Return what the options before the command say."""
    return _chosen.get() or ApiAccess()


def opened(state_dir: Path, access: ApiAccess) -> "Muster":
    """Return a client of the gateway. Raises CliError, StateDirError.

    The gateway is that of --url or MUSTER_URL, else of a state directory that was given, else of the current context,
    else of the default state directory.
    """
    from muster.client import Muster

    if access.is_local:
        return Muster.from_state_dir(state_dir)
    if not access.url:
        access = _of_context(state_dir, access)
    token = _named_token(access)
    if not access.url:
        return Muster.from_state_dir(state_dir, token=token, ca_file=access.ca_file)
    if token is None:
        from muster.cli.login import LoginToken, login_file

        token = LoginToken(access.url, login_file(os.environ, home=Path.home()))
    return Muster(access.url, token, ca_file=access.ca_file)


def _of_context(state_dir: Path, access: ApiAccess) -> ApiAccess:
    """Return the values with those of the current context, unless a state directory was given. Raises CliError."""
    if "MUSTER_STATE_DIR" in os.environ or state_dir.resolve() != chosen_state_dir().resolve():
        return access
    from muster.cli import contexts

    context = contexts.current()
    if context is None:
        return access
    has_token = access.token_file is not None or bool(access.token_command) or TOKEN_VARIABLE in os.environ
    return ApiAccess(
        url=context.url,
        token_file=access.token_file if has_token else context.token_file,
        token_command=access.token_command if has_token else context.token_command,
        ca_file=access.ca_file or context.ca_file,
    )


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
