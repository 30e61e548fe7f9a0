"""Connect to the bus directly with NATS users of the command line, and convert errors into exit codes."""

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import nats
from nats.aio.client import Client

from muster.bus.connection import CredentialsError, connect_once
from muster.bus.ports import ApiError, ArchiveError, LogError, TrimRefusedError
from muster.bus.settings import Settings, load_settings
from muster.cli.errors import refused, unreachable, usage
from muster.schemas.subjects import FED_LOG, LogName, cluster_log

Result = TypeVar("Result")


async def on_bus(settings: Settings, user: str, work: Callable[[Client], Awaitable[Result]]) -> Result:
    """Run an action with a connection as `user`. Raises CliError."""
    async with _connection(settings, user) as client:
        return await work(client)


@asynccontextmanager
async def _connection(settings: Settings, user: str) -> AsyncIterator[Client]:
    """Open a connection as `user`. Raises CliError for its errors."""
    try:
        client = await connect_once(settings, user)
    except CredentialsError as error:
        raise refused(str(error)) from error
    except (OSError, nats.errors.Error) as error:
        raise unreachable(f"NATS at {settings.nats_url} does not answer ({error}); is the stack running?") from error
    try:
        yield client
    except (ArchiveError, TrimRefusedError, ApiError) as error:
        raise refused(str(error)) from error
    except (LogError, nats.errors.Error) as error:
        raise unreachable(f"NATS at {settings.nats_url}: {error}") from error
    finally:
        with contextlib.suppress(nats.errors.Error):  # it is gone already: then it is closed
            await client.close()


def settings_of(state_dir: Path) -> Settings:
    """Return the settings of the stack of a directory. Raises CliError (unreachable) if there is none."""
    try:
        return load_settings(state_dir, os.environ)
    except FileNotFoundError:
        raise unreachable(
            f"--state-dir: {state_dir} has no stack; `muster up --state-dir {state_dir}` creates one"
        ) from None


def log_of(settings: Settings, name: str) -> LogName:
    """Return the named log; in the center of a federation the copy of a cluster's log. Raises CliError."""
    if name == FED_LOG.scope:
        return FED_LOG
    if name and name not in settings.clusters:
        raise usage(f"--log: {name!r} is not a log; use `fed` or {' or '.join(map(repr, settings.clusters))}")
    return cluster_log(name or settings.cluster)
