"""The broker's connections of account VIEW: its system account tells which open, and closes them.

nats-server tells each in `$SYS.ACCOUNT.<account>.CONNECT` and closes one at `$SYS.REQ.SERVER.<server>.KICK`.
"""

import asyncio
import json
import logging

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from pydantic import BaseModel, ValidationError

from muster.bus.access import view_connects
from muster.gateway.live_ends import Connection, Opened
from muster.gateway.ports import UnreachableError

CLOSE_S_MAX = 1.0

_log = logging.getLogger(__name__)


class _Server(BaseModel):
    id: str


class _Client(BaseModel):
    id: int
    user: str  # public key


class _Connected(BaseModel):
    server: _Server
    client: _Client


class NatsLiveConnections:
    """As user `gateway-live` of the system account. account: public key of account VIEW."""

    def __init__(self, client: Client, *, account: str) -> None:
        self._client = client
        self._account = account

    async def follow(self, opened: Opened) -> None:
        """See `Connections.follow`; the client subscribes again by itself when it reconnects."""

        async def told(message: Msg) -> None:
            try:
                connected = _Connected.model_validate_json(message.data)
            except ValidationError as error:
                _log.warning("%s is not readable: %s", message.subject, error)
                return
            await opened(connected.client.user, Connection(connected.server.id, connected.client.id))

        try:
            subscription = await self._client.subscribe(view_connects(self._account), cb=told)
        except (nats.errors.Error, OSError) as error:
            raise UnreachableError(f"connections of the live view cannot be followed: {error}") from error
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await subscription.unsubscribe()

    async def close(self, connection: Connection) -> None:
        """See `Connections.close`. The answer says whether there was such a connection: both are fine."""
        subject = f"$SYS.REQ.SERVER.{connection.server}.KICK"
        try:
            await self._client.request(subject, json.dumps({"cid": connection.client}).encode(), timeout=CLOSE_S_MAX)
        except (nats.errors.Error, OSError) as error:
            raise UnreachableError(f"connection {connection.client} was not closed: {error}") from error
