"""Close the broker connections of dashboards whose token is no longer valid.

A credential of the live view cannot be revoked: the broker accepts it until it expires. So every connection made
with it is closed from the moment its token becomes invalid until the credential expires. nats-server reports each
connection in `$SYS.ACCOUNT.<account>.CONNECT`, and closes one at `$SYS.REQ.SERVER.<server>.KICK`.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from pydantic import BaseModel, ValidationError

from muster.bus.access import view_connects
from muster.bus.clock import TimeSource
from muster.core.instant import NS_PER_S
from muster.gateway.background import end_if_cancelled
from muster.gateway.metrics import Metrics
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import unavailable

CHECK_S: Final = 2.0
"""Time between two checks whether the tokens of the credentials are still valid, in seconds."""
CREDENTIALS_MAX: Final = 16_384
"""Maximum number of unexpired credentials per gateway: up to two per dashboard; a broker serves 4,096 dashboards."""
CONNECTIONS_MAX: Final = 4
"""Maximum number of connections per credential: a page opens one, and one more after each network failure."""

_log = logging.getLogger(__name__)

CLOSE_S_MAX = 1.0


@dataclass(frozen=True, slots=True)
class Bearer:
    """The token of a request. is_valid: whether its principal still has access."""

    token_id: str
    is_valid: Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection of a client to the broker. server: id of the broker's server. client: its number on that server."""

    server: str
    client: int


Opened = Callable[[str, Connection], Awaitable[None]]
"""Callback for an opened connection, with the public key of its user."""


class Connections(Protocol):
    """The connections of account VIEW at the broker."""

    async def follow(self, opened: Opened) -> None:
        """Report each connection that opens, until cancelled. Raises UnreachableError if the broker cannot be asked."""
        ...

    async def close(self, connection: Connection) -> None:
        """Close a connection at the broker, if it is still open. Raises UnreachableError."""
        ...


class NoConnections:
    """The connections of a gateway that creates no credentials: there are none."""

    async def follow(self, opened: Opened) -> None:  # noqa: ARG002 - the signature of `Connections`
        """Wait until cancelled."""
        await asyncio.get_running_loop().create_future()

    async def close(self, connection: Connection) -> None:
        """Do nothing."""


@dataclass(slots=True)
class _Credential:
    bearer: Bearer
    expires_at_s: int
    has_ended: bool = False
    connections: list[Connection] = field(default_factory=list)


class LiveEnds:
    """The unexpired credentials that this gateway created, by the public key of their user."""

    def __init__(
        self, connections: Connections, *, time: TimeSource, metrics: Metrics, credentials_max: int = CREDENTIALS_MAX
    ) -> None:
        self._connections = connections
        self._time = time
        self._metrics = metrics
        self._credentials_max = credentials_max
        self._credentials: dict[str, _Credential] = {}

    def given(self, bearer: Bearer, *, user: str, expires_at_s: int) -> None:
        """Watch a credential until it expires. user: its public key. Raises ProblemError (503) beyond the bound."""
        if len(self._credentials) >= self._credentials_max:
            self._forget_expired()
        if len(self._credentials) >= self._credentials_max:
            raise unavailable(f"{self._credentials_max} credentials of the live view are in use")
        self._credentials[user] = _Credential(bearer, expires_at_s)

    async def run(self, *, check_s: float = CHECK_S) -> None:
        """Close connections of invalid tokens until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._connections.follow(self.opened), name="follow-live-connections")
            while True:
                end_if_cancelled()
                await self.check()
                await asyncio.sleep(check_s)

    async def opened(self, user: str, connection: Connection) -> None:
        """Record an opened connection; close it if its token is invalid or its credential has too many connections.
        Connections of other gateways' credentials are ignored."""
        credential = self._credentials.get(user)
        if credential is None:
            return
        if credential.has_ended or len(credential.connections) >= CONNECTIONS_MAX:
            await self._close(connection)
        else:
            credential.connections.append(connection)

    async def check(self) -> None:
        """Check each token once, and close the connections of tokens that are no longer valid."""
        self._forget_expired()
        bearers = {one.bearer.token_id: one.bearer for one in self._credentials.values() if not one.has_ended}
        answers = await asyncio.gather(*(bearer.is_valid() for bearer in bearers.values()))
        ended = {token_id for token_id, is_valid in zip(bearers, answers, strict=True) if not is_valid}
        for credential in tuple(self._credentials.values()):
            credential.has_ended = credential.has_ended or credential.bearer.token_id in ended
            while credential.has_ended and credential.connections:
                if not await self._close(credential.connections[-1]):
                    return  # the broker cannot be asked now; the next check tries again
                credential.connections.pop()

    async def _close(self, connection: Connection) -> bool:
        try:
            await self._connections.close(connection)
        except UnreachableError as error:
            _log.warning("a connection with an invalid token stays open until its credential expires: %s", error)
            return False
        self._metrics.live_connections_closed.inc()
        return True

    def _forget_expired(self) -> None:
        now_s = self._time.wall() // NS_PER_S
        expired = [user for user, credential in self._credentials.items() if credential.expires_at_s < now_s]
        for user in expired:
            del self._credentials[user]


class _Server(BaseModel):
    id: str


class _Client(BaseModel):
    id: int
    user: str  # public key


class _Connected(BaseModel):
    server: _Server
    client: _Client


class NatsLiveConnections:
    """Connections over NATS, as user `gateway-live` of the system account. account: public key of account VIEW."""

    def __init__(self, client: Client, *, account: str) -> None:
        self._client = client
        self._account = account

    async def follow(self, opened: Opened) -> None:
        """Report each connection that opens; the client subscribes again when it reconnects."""

        async def told(message: Msg) -> None:
            try:
                connected = _Connected.model_validate_json(message.data)
            except ValidationError as error:
                _log.warning("%s cannot be read: %s", message.subject, error)
                return
            await opened(connected.client.user, Connection(connected.server.id, connected.client.id))

        try:
            subscription = await self._client.subscribe(view_connects(self._account), cb=told)
        except (nats.errors.Error, OSError) as error:
            raise UnreachableError(f"the connections of the live view cannot be watched: {error}") from error
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await subscription.unsubscribe()

    async def close(self, connection: Connection) -> None:
        """Close a connection at the broker; an answer that it does not exist is accepted, too."""
        subject = f"$SYS.REQ.SERVER.{connection.server}.KICK"
        try:
            await self._client.request(subject, json.dumps({"cid": connection.client}).encode(), timeout=CLOSE_S_MAX)
        except (nats.errors.Error, OSError) as error:
            raise UnreachableError(f"connection {connection.client} was not closed: {error}") from error
