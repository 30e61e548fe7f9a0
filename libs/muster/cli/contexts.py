"""Contexts: named gateways of this user, one of which is the current one, as kubeconfig has them.

A context has the URL of a gateway, the CA that verifies it, and where its token comes from, never the token itself. It
is used by a command that names no gateway: neither by --url or MUSTER_URL, nor by a state directory. So no token of a
context is ever sent to another gateway.
"""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.cli.api_access import ApiAccess
from muster.cli.errors import usage
from muster.cli.files import config_dir, write_private

CONTEXTS_MAX = 200
FILE_BYTES_MAX = 256 * 1024


class Contexts(BaseModel):
    """All contexts of the user."""

    model_config = ConfigDict(frozen=True)

    current: str = ""
    contexts: dict[str, ApiAccess] = Field(default_factory=dict)
    """By name. Without a token file or command, the token is that of `muster login` at the gateway."""


def file_of_user() -> Path:
    """Return the file of this user's contexts, which need not exist."""
    return config_dir(os.environ, home=Path.home()) / "contexts.json"


def load() -> Contexts:
    """Return the contexts of the user. Raises CliError for a file that cannot be read."""
    file = file_of_user()
    try:
        with file.open("rb") as opened:
            return Contexts.model_validate_json(opened.read(FILE_BYTES_MAX + 1))
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValidationError) as error:
        raise usage(f"{file}: cannot be read as contexts; correct or remove it") from error


def current() -> ApiAccess | None:
    """Return the current context. Raises CliError."""
    known = load()
    if not known.current:
        return None
    found = known.contexts.get(known.current)
    if found is None:
        raise usage(f"{file_of_user()}: has no context {known.current}; choose one with `muster context use NAME`")
    return found


def put(name: str, access: ApiAccess, *, use: bool) -> None:
    """Add a context, or replace the one of its name. use: make it the current one. Raises CliError."""
    known = load()
    if name not in known.contexts and len(known.contexts) >= CONTEXTS_MAX:
        raise usage(f"NAME: there are {CONTEXTS_MAX} contexts; delete some with `muster context delete`")
    current = name if use or not known.current else known.current
    _store(Contexts(current=current, contexts={**known.contexts, name: access}))


def use(name: str) -> ApiAccess:
    """Make a context the current one. Raises CliError if there is none of this name."""
    known = load()
    found = _named(name, known)
    _store(known.model_copy(update={"current": name}))
    return found


def delete(name: str) -> None:
    """Delete a context; if it was the current one, there is none afterwards. Raises CliError."""
    known = load()
    _named(name, known)
    left = {other: access for other, access in known.contexts.items() if other != name}
    _store(Contexts(current="" if known.current == name else known.current, contexts=left))


def token_of(context: ApiAccess) -> str:
    """Return where the token of a context comes from."""
    if context.token_file is not None:
        return f"file {context.token_file}"
    return f"command {context.token_command}" if context.token_command else "login"


def _named(name: str, known: Contexts) -> ApiAccess:
    found = known.contexts.get(name)
    if found is None:
        names = ", ".join(known.contexts) or "none; `muster context set` adds one"
        raise usage(f"NAME: there is no context {name}; the contexts are: {names}")
    return found


def _store(contexts: Contexts) -> None:
    file = file_of_user()
    try:
        write_private(file, contexts.model_dump_json(indent=2, exclude_defaults=True))
    except OSError as error:
        raise usage(f"{file}: cannot be written ({error.strerror}); no change was applied") from error
