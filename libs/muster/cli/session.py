"""A conversation with a running stack: opens the SDK from the state directory, and turns its errors into exit codes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from muster.cli.errors import refused, unreachable

if TYPE_CHECKING:
    from muster.client import Muster

Answer = TypeVar("Answer")


@asynccontextmanager
async def connected(state_dir: Path) -> AsyncIterator["Muster"]:
    """The SDK speaking to the stack of `state_dir`. Raises CliError: 3 if refused, 4 if nobody answers."""
    from muster.client import Muster, RefusedError, UnreachableError

    try:
        async with Muster.from_state_dir(state_dir) as muster:
            yield muster
    except RefusedError as error:
        raise refused(str(error)) from error
    except UnreachableError as error:
        raise unreachable(f"{error}; is a stack running? `muster up --state-dir {state_dir}` starts one") from error


def call(state_dir: Path, ask: Callable[["Muster"], Awaitable[Answer]]) -> Answer:
    """One conversation, from opening to closing, in an event loop of its own."""

    async def conversation() -> Answer:
        async with connected(state_dir) as muster:
            return await ask(muster)

    return asyncio.run(conversation())
