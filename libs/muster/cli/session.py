"""Open the SDK for a command, and convert its errors into exit codes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from muster.cli.api_access import chosen_access, opened
from muster.cli.errors import CliError, refused, unreachable

if TYPE_CHECKING:
    from muster.client import Muster

Answer = TypeVar("Answer")


@asynccontextmanager
async def connected(state_dir: Path) -> AsyncIterator["Muster"]:
    """Open the SDK for the stack of `state_dir`. Raises CliError: 3 if refused, 4 if unreachable."""
    try:
        async with opened(state_dir, chosen_access()) as muster:
            yield muster
    except Exception as error:
        told = as_cli_error(error, state_dir)
        if told is None:
            raise
        raise told from error


def as_cli_error(error: Exception, state_dir: Path) -> CliError | None:
    """Return the CliError of an SDK error, also of one inside a group of tasks; None if it is a defect."""
    from muster.client import RefusedError, TokenError, UnavailableError, UnreachableError

    for leaf in _leaves(error):
        if isinstance(leaf, CliError):
            return leaf
        if isinstance(leaf, TokenError):
            return refused(str(leaf))
        if isinstance(leaf, RefusedError):
            return refused(str(leaf))
        if isinstance(leaf, UnavailableError):
            look = f"`muster status --state-dir {state_dir}` shows what does not run"
            return unreachable(f"{leaf}; the gateway answers: {look}")
        if isinstance(leaf, UnreachableError):
            return unreachable(f"{leaf}; is a stack running? `muster up --state-dir {state_dir}` starts one")
    return None


def call(state_dir: Path, ask: Callable[["Muster"], Awaitable[Answer]]) -> Answer:
    """Run one request with a new client, in a new event loop."""

    async def conversation() -> Answer:
        async with connected(state_dir) as muster:
            return await ask(muster)

    return asyncio.run(conversation())


def _leaves(error: Exception) -> list[Exception]:
    if isinstance(error, ExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
