"""Connections to the bus: they reconnect for ever, notice a dead peer soon, and say when they are closed for good.

Left to itself, nats-py gives up after 60 attempts and leaves what reads from it spinning, its buffer holds 2 MiB, and a
dead peer is noticed after four minutes.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import nats
from nats.aio.client import Client

from muster.bus.access import inbox_prefix
from muster.bus.limits import CONNECT_TIMEOUT_S, PENDING_BYTES, PING_INTERVAL_S, PINGS_OUTSTANDING, RECONNECT_WAIT_S
from muster.bus.settings import Settings

_logger = logging.getLogger(__name__)

REFUSED_MAX = 1024
"""Subjects that are remembered, more than one batch has; the oldest are forgotten."""
_VIOLATION = re.compile(r'permissions violation for publish to "([^"]*)"', re.IGNORECASE)


class RefusedSubjects:
    """Subjects that a broker refused since the last `forget`. The client reports them in lower case."""

    def __init__(self) -> None:
        self._subjects: deque[str] = deque(maxlen=REFUSED_MAX)
        self._watched = ""
        self._watcher: asyncio.Future[None] | None = None

    def saw(self, error: Exception) -> None:
        """Take note of an error that the broker reports for the connection."""
        found = _VIOLATION.search(str(error))
        if found is None:
            return
        subject = found[1].lower()
        self._subjects.append(subject)
        if subject == self._watched and self._watcher is not None and not self._watcher.done():
            self._watcher.set_result(None)

    def forget(self) -> None:
        """Forget what was refused so far."""
        self._subjects.clear()

    def among(self, subjects: Iterable[str]) -> list[int]:
        """Return the positions of those subjects that were refused."""
        refused = frozenset(self._subjects)
        return [index for index, subject in enumerate(subjects) if subject.lower() in refused] if refused else []

    def watch(self, subject: str) -> "asyncio.Future[None]":
        """Return a future that is done once this subject is refused. One subject is watched at a time."""
        self._watched, self._watcher = subject.lower(), asyncio.get_running_loop().create_future()
        return self._watcher


class WatchingClient(Client):
    """A connection that remembers the subjects that the broker refused; pass its errors to `refused.saw`."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = RefusedSubjects()


OnClosed = Callable[[str], None]
"""Called with the user's name when its connection is closed for good."""


class CredentialsError(Exception):
    """The process has no credentials for a user that it connects as."""


def credentials(settings: Settings, user: str) -> Path:
    """Return the credentials file of a user. Raises CredentialsError."""
    path = settings.credentials_dir / f"{user}.creds"
    if not path.is_file():
        raise CredentialsError(f"{path}: there are no credentials for user {user!r}; `muster up` makes them")
    return path


async def connect(settings: Settings, user: str, *, on_closed: OnClosed) -> Client:
    """Return a connected client of `user`; waits without limit while the broker is away. Raises CredentialsError."""
    client, tell = WatchingClient(), teller(user)

    async def told(error: Exception) -> None:
        client.refused.saw(error)
        await tell(error)

    await client.connect(
        settings.nats_url,
        name=f"muster {user}",
        user_credentials=str(credentials(settings, user)),
        inbox_prefix=inbox_prefix(user),
        connect_timeout=CONNECT_TIMEOUT_S,
        max_reconnect_attempts=-1,
        reconnect_time_wait=RECONNECT_WAIT_S,  # type: ignore[arg-type]  # annotated as whole seconds; it takes any
        ping_interval=PING_INTERVAL_S,
        max_outstanding_pings=PINGS_OUTSTANDING,
        pending_size=PENDING_BYTES,
        error_cb=told,
        disconnected_cb=_disconnected(user),
        closed_cb=closer(user, on_closed),
    )
    return client


async def connect_once(settings: Settings, user: str) -> Client:
    """Return a connection for one operation, without reconnecting; errors are raised to the caller.

    Raises CredentialsError, and OSError or nats.errors.Error if no broker answers.
    """
    return await nats.connect(
        settings.nats_url,
        name=f"muster {user}",
        user_credentials=str(credentials(settings, user)),
        inbox_prefix=inbox_prefix(user),
        connect_timeout=CONNECT_TIMEOUT_S,
        allow_reconnect=False,
        error_cb=_raised_anyway,
    )


async def _raised_anyway(_: Exception) -> None:
    """Ignore an error that is raised to the caller too; the client's own log line would only repeat it."""


def teller(user: str) -> Callable[[Exception], Awaitable[None]]:
    """Return the handler of errors that no caller sees: permission violations, slow consumers, lost connections."""

    async def tell(error: Exception) -> None:
        _logger.warning("connection of %s: %s: %s", user, type(error).__name__, error)

    return tell


def closer(user: str, on_closed: OnClosed) -> Callable[[], Awaitable[None]]:
    """Return the handler of a closed connection."""

    async def closed() -> None:
        on_closed(user)

    return closed


def _disconnected(user: str) -> Callable[[], Awaitable[None]]:
    async def tell() -> None:
        _logger.info("connection of %s: disconnected", user)

    return tell
