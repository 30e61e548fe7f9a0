"""The cost of followers: the same few jobs come and go, first without followers, then with each kind of them."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from muster.bus.jwt import key_of_seed
from muster.schemas.live import LiveCredential
from muster_tools.bench.fresh_stack import FreshStack
from muster_tools.bench.kubernetes import bounds
from muster_tools.bench.kubernetes.counting import requests_of
from muster_tools.bench.kubernetes.plan import GPUS_PER_NODE
from muster_tools.bench.kubernetes.result import API_SERVER, Crowd
from muster_tools.bench.kubernetes.stage import Stage, calm
from muster_tools.bench.load import steady, submit
from muster_tools.bench.workload import LONG_RUN_S, RUN_LABEL, TEAM
from muster_tools.local_kubernetes.plane import ControlPlane

CREDENTIAL_PATH = "/v1/live/credential"
SNAPSHOT_PATH = "/v1/snapshot"
FOLLOWED = "/api/v1/pods"
"""The path that an informer of a dashboard follows at least."""
_GONE = 410


@dataclass
class Received:
    """Bytes received by all followers."""

    size_bytes: int = 0

    @property
    def mib(self) -> float:
        """Return the size in MiB."""
        return self.size_bytes / 2**20


@asynccontextmanager
async def subscribers(count: int, *, url: str, token: str) -> AsyncIterator[Received]:
    """Run this many dashboards: each gets a credential and the snapshot from the gateway, then subscribes to updates.

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
    """Run this many clients that list all pods and then watch them, each over its own connection, as informers do.

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
    """Let the clients list a few at a time: a storm of LISTs is not what this benchmark measures."""
    gate = asyncio.Semaphore(bounds.LISTS_AT_ONCE)

    async def one(client: aiohttp.ClientSession) -> str:
        async with gate:
            return await _list(client, received)

    return await asyncio.gather(*(one(client) for client in clients))


async def _list(client: aiohttp.ClientSession, received: Received) -> str:
    """Return the version of the list from its beginning: decoding 100 lists would measure this process."""
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


CROWDS = 3
"""Number of measurements (none, subscribers, informers); each uses an equal share of the free GPUs."""
JOBS_MAX = 100


@asynccontextmanager
async def nobody() -> AsyncIterator[Received]:
    """Run without followers."""
    yield Received()


async def crowds(stage: Stage, stack: FreshStack) -> tuple[Crowd, ...]:
    """Measure without followers, with subscribers of the live view, and with informers, one after the other."""
    count = stage.plan.subscribers
    if not count:
        return ()
    await calm(stage.client)
    free = stage.plan.nodes * GPUS_PER_NODE - sum(stage.plan.gpus)
    jobs = min(JOBS_MAX, free // CROWDS)
    following: tuple[tuple[str, int, AbstractAsyncContextManager[Received]], ...] = (
        ("followers", 0, nobody()),
        ("subscribers of Muster's live view", count, subscribers(count, url=stack.url, token=stack.token)),
        ("informers of pods", count, informers(count, stage.plane)),
    )
    found = []
    for number, (what, followers, crowd) in enumerate(following):
        found.append(await _cost(stage, stack, what, followers, crowd, jobs=jobs, prefix=f"churn-{number}"))
    return tuple(found)


async def _cost(
    stage: Stage,
    stack: FreshStack,
    what: str,
    count: int,
    crowd: AbstractAsyncContextManager[Received],
    *,
    jobs: int,
    prefix: str,
) -> Crowd:
    loop = asyncio.get_running_loop()
    requests, usage, began_s = await requests_of(stage.client), stage.plane.usage()[API_SERVER], loop.time()
    async with crowd as received:
        await submit(
            _bodies(jobs, prefix=prefix), url=stack.url, token=stack.token, connections=stage.plan.connections,
            pace_s=steady(jobs / bounds.CHURN_S), progress=lambda _count: None,
        )  # fmt: skip
        await asyncio.sleep(bounds.CHURN_REST_S)  # the last jobs are bound and published by then
        after, now = stage.plane.usage()[API_SERVER], loop.time()
        asked = (await requests_of(stage.client)).since(requests)
    return Crowd(
        what=what,
        count=count,
        took_s=now - began_s,
        rss_mib=after.rss_mib - usage.rss_mib,
        cpu_s=after.cpu_s - usage.cpu_s,
        requests=asked,
        received_mib=received.mib,
    )


def _bodies(count: int, *, prefix: str) -> list[tuple[str, bytes]]:
    """Return (idempotency key, HTTP body) of jobs of one GPU."""
    found = []
    for number in range(count):
        name = f"{prefix}-{number}"
        group = {"gpus": 1, "cpu_milli": 1000, "memory_mib": 1024}
        spec = {"name": name, "team": TEAM, "task_groups": [group], "labels": {RUN_LABEL: f"{LONG_RUN_S:g}"}}
        found.append((name, json.dumps(spec).encode()))
    return found
