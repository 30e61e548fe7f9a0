"""A crowd that follows the cluster's state: subscribers of Muster's live view, or informers at the API server."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from muster.bus.jwt import key_of_seed
from muster.schemas.live import LiveCredential
from muster_tools.bench.kubernetes import bounds
from muster_tools.local_kubernetes.plane import ControlPlane

CREDENTIAL_PATH = "/v1/live/credential"
SNAPSHOT_PATH = "/v1/snapshot"
FOLLOWED = "/api/v1/pods"
"""What an informer of a dashboard follows at the least."""
_GONE = 410


@dataclass
class Received:
    """By the whole crowd."""

    size_bytes: int = 0

    @property
    def mib(self) -> float:
        """In MiB."""
        return self.size_bytes / 2**20


@asynccontextmanager
async def subscribers(count: int, *, url: str, token: str) -> AsyncIterator[Received]:
    """So many dashboards: each gets a credential and the snapshot from the gateway, then subscribes to the live view.

    url, token: of the gateway. Raises aiohttp.ClientError, nats.errors.Error.
    """
    received = Received()
    headers = {"Authorization": f"Bearer {token}"}
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(url, headers=headers))
        for _ in range(count):
            client = await _subscribed(session, received)
            stack.push_async_callback(client.close)
        yield received


async def _subscribed(session: aiohttp.ClientSession, received: Received) -> Client:
    async with session.post(CREDENTIAL_PATH, raise_for_status=True) as answer:
        credential = LiveCredential.model_validate_json(await answer.read())
    key = key_of_seed(credential.seed)
    client = await nats.connect(
        credential.url,
        inbox_prefix=credential.inbox_prefix,
        user_jwt_cb=lambda: bytearray(credential.jwt.encode()),
        signature_cb=lambda nonce: base64.b64encode(key.sign(nonce.encode())),
    )

    async def take(message: Msg) -> None:
        received.size_bytes += len(message.data)

    for cluster in credential.clusters:
        for audience in credential.audiences:
            await client.subscribe(f"view.{cluster}.{audience}.packed", cb=take)
    await client.flush()
    async with session.get(SNAPSHOT_PATH, raise_for_status=True) as answer:
        received.size_bytes += len(await answer.read())
    return client


@asynccontextmanager
async def informers(count: int, plane: ControlPlane) -> AsyncIterator[Received]:
    """So many clients that list all pods and then watch them, each over a connection of its own, as informers do.

    Raises aiohttp.ClientError.
    """
    received = Received()
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(plane.client(connections=2)) for _ in range(count)]
        versions = await _in_turns(clients, received)
        watching = [
            asyncio.create_task(_watch(client, version, received))
            for client, version in zip(clients, versions, strict=True)
        ]
        try:
            yield received
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)


async def _in_turns(clients: list[aiohttp.ClientSession], received: Received) -> list[str]:
    """Each lists, a few at a time: all at once is the storm that the guard is for, and not what is measured here."""
    gate = asyncio.Semaphore(bounds.LISTS_AT_ONCE)

    async def one(client: aiohttp.ClientSession) -> str:
        async with gate:
            return await _list(client, received)

    return await asyncio.gather(*(one(client) for client in clients))


async def _list(client: aiohttp.ClientSession, received: Received) -> str:
    """The version of the list, from its head: decoding 100 lists would measure this process."""
    head = b""
    async with client.get(FOLLOWED, params={"resourceVersion": "0"}, raise_for_status=True) as answer:
        async for chunk in answer.content.iter_any():
            received.size_bytes += len(chunk)
            if len(head) < bounds.LIST_HEAD_BYTES:
                head += chunk
    _, _, rest = head.partition(b'"resourceVersion":"')
    return rest.partition(b'"')[0].decode()


async def _watch(client: aiohttp.ClientSession, version: str, received: Received) -> None:
    at = version
    for _ in range(bounds.WATCH_RETRIES_MAX):
        query = {"watch": "1", "resourceVersion": at, "allowWatchBookmarks": "true"}
        try:
            async with client.get(FOLLOWED, params=query, timeout=aiohttp.ClientTimeout(total=None)) as stream:
                if stream.status == _GONE:
                    at = await _list(client, received)
                    continue
                async for chunk in stream.content.iter_any():
                    received.size_bytes += len(chunk)
        except aiohttp.ClientError:
            await asyncio.sleep(bounds.POLL_S)
