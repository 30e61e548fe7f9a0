"""A reflector follows a real API server through restarts, cut and half-open connections, and asks for no list again."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from kit.kube.fake.samples import binding, pod
from kit.kube.fake.wire import Wire, wire_to
from kit.kube.planes import AnyPlane, open_plane
from kit.waiting import until, until_async
from muster.kube.connection import KubeConnection
from muster.kube.credentials import AnotherReplica
from muster.kube.errors import AlreadyExistsError
from muster.kube.holdings import Change, Key
from muster.kube.objects import JsonObject, name_of, namespace_of, text, version_of
from muster.kube.official import from_kubeconfig
from muster.kube.reflector import Reflector
from muster.kube.resources import NAMESPACES, PODS
from muster.kube.shapes import Patch, Selection
from muster_tools.local_kubernetes.options import PlaneOptions

_NUMBERS = itertools.count()
LIST_OF_PODS = (b'verb="LIST"', b'resource="pods"', b'scope="namespace"')
ALONE = PlaneOptions(kwok=False)


def seen_of(obj: JsonObject) -> tuple[str, str, str]:
    return text(obj, "spec", "nodeName"), text(obj, "metadata", "labels", "step"), text(obj, "metadata", "uid")


class Follower:
    """A reflector of the pods of one namespace, and what its changes add up to."""

    def __init__(self, connection: KubeConnection, space: str, *, seed: int = 0, silence_s: float = 100.0) -> None:
        self.seen: dict[Key, tuple[str, str, str]] = {}
        self.reflector = Reflector(
            connection, PODS, project=seen_of, on_changes=self._take, select=Selection(space), seed=seed,
            silence_s=silence_s, compare_s=None,
        )  # fmt: skip

    async def _take(self, changes: list[Change[tuple[str, str, str]]]) -> None:
        for change in changes:
            if change.now is None:
                del self.seen[change.key]
            else:
                self.seen[change.key] = change.now

    async def same_as(self, kube: KubeConnection, space: str) -> None:
        """Wait until it holds what the server has."""
        page = await kube.list_page(PODS, select=Selection(space))
        there = {Key(namespace_of(item), name_of(item)): seen_of(item) for item in page.items}
        await until(lambda: self.seen == dict(self.reflector.items()) == there, patience_s=30)


@asynccontextmanager
async def running(*followers: Follower) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(follower.reflector.run()) for follower in followers]
    try:
        async with asyncio.timeout(30):
            for follower in followers:
                await follower.reflector.wait_synced()
        yield
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def a_namespace(kube: KubeConnection) -> str:
    while True:
        name = f"reflector-{next(_NUMBERS)}"
        try:
            await kube.create(NAMESPACES, {"metadata": {"name": name}})
        except AlreadyExistsError:
            continue
        return name


async def churn(kube: KubeConnection, space: str, prefix: str) -> None:
    """Pods come, change, are bound, and half of them go."""
    for number in range(10):
        name = f"{prefix}-{number}"
        await kube.create(PODS, pod(name, namespace=space), namespace=space)
        patch: JsonObject = {"metadata": {"labels": {"step": str(number)}}}
        await kube.patch(PODS, name, patch, kind=Patch.MERGE, namespace=space)
        await kube.create_subresource(PODS, name, "binding", binding(name, "n1"), namespace=space)
        if number % 2:
            await kube.delete(PODS, name, namespace=space, grace_s=0)


@asynccontextmanager
async def connected(plane: AnyPlane, *, url: str = "", server: int = 0) -> AsyncIterator[KubeConnection]:
    """As admin; url: of a wire to the server instead."""
    credentials = await from_kubeconfig(plane.kubeconfig(server=server))
    where = AnotherReplica(credentials, url) if url else credentials
    async with KubeConnection(where, user_agent="muster-test/1") as connection:
        yield connection


async def lists_of_pods(kube: KubeConnection) -> int:
    """LISTs of the pods of a namespace since the API server started, in its own words; its own are of the cluster."""
    found = 0
    async with kube.lines("/metrics") as lines:
        async for batch in lines.batches():
            for line in batch:
                if line.startswith(b"apiserver_request_total{") and all(part in line for part in LIST_OF_PODS):
                    found += int(float(line.rsplit(b" ", 1)[1]))
    return found


@pytest.fixture
async def wired(plane: AnyPlane) -> AsyncIterator[tuple[KubeConnection, KubeConnection, Wire, str]]:
    """A connection, another one over a wire, the wire, and a namespace."""
    async with AsyncExitStack() as stack:
        kube = await stack.enter_async_context(connected(plane))
        wire = await stack.enter_async_context(wire_to(kube.url))
        over_wire = await stack.enter_async_context(connected(plane, url=wire.url))
        space = await a_namespace(kube)
        yield kube, over_wire, wire, space
        await kube.delete(NAMESPACES, space)


Wired = tuple[KubeConnection, KubeConnection, Wire, str]


async def test_it_sees_what_there_is_and_what_happens(wired: Wired) -> None:
    kube, over_wire, _, space = wired
    await churn(kube, space, "before")
    follower = Follower(over_wire, space)
    async with running(follower):
        assert len(follower.seen) == 5
        await churn(kube, space, "after")
        await follower.same_as(kube, space)
        assert len(follower.seen) == 10
        figures = follower.reflector.figures
        assert (figures.relists, figures.reconnects, figures.failures, figures.streaming) == (1, 0, 0, True)


async def test_cut_connections_cost_no_list(wired: Wired) -> None:
    kube, over_wire, wire, space = wired
    follower = Follower(over_wire, space)
    async with running(follower):
        for number in range(3):
            wire.cut()
            await churn(kube, space, f"cut{number}")
        await follower.same_as(kube, space)
        assert follower.reflector.figures.failures >= 1
        assert follower.reflector.figures.relists == 1


async def test_a_half_open_connection_is_left(wired: Wired) -> None:
    kube, over_wire, wire, space = wired
    follower = Follower(over_wire, space, silence_s=1.0)
    async with running(follower):
        wire.freeze()
        await churn(kube, space, "frozen")
        await until(lambda: follower.reflector.figures.failures >= 1)
        assert follower.seen == {}
        wire.thaw()
        await follower.same_as(kube, space)
        assert follower.reflector.figures.relists == 1


async def test_a_restarted_api_server_is_followed_without_a_storm() -> None:
    """What is asked for after it is back is counted by the API server itself, from zero."""
    async with open_plane(ALONE) as plane, connected(plane) as kube:
        space = await a_namespace(kube)
        await churn(kube, space, "before")
        followers = [Follower(kube, space, seed=seed) for seed in range(10)]
        async with running(*followers):
            await plane.stop("kube-apiserver-0")
            await until(lambda: all(one.reflector.figures.failures >= 3 for one in followers))
            await plane.start("kube-apiserver-0")
            await churn(kube, space, "after")
            for follower in followers:
                await follower.same_as(kube, space)
            lists = await lists_of_pods(kube)
            relists = [one.reflector.figures.relists for one in followers]
        assert max(relists) <= 2, "at most once each, for a version that the new process does not have"
        assert lists == len(followers), "the test's own, one for each follower"


async def test_what_a_new_process_never_kept_is_had_anew_once() -> None:
    """Another API server went on meanwhile: the one that is back knows no version as old as ours, and says 410."""
    async with open_plane(PlaneOptions(kwok=False, apiservers=2)) as plane, AsyncExitStack() as stack:
        kube = await stack.enter_async_context(connected(plane))
        other = await stack.enter_async_context(connected(plane, server=1))
        space = await a_namespace(kube)
        await churn(kube, space, "before")
        followers = [Follower(kube, space, seed=seed) for seed in range(5)]
        async with running(*followers):
            await plane.stop("kube-apiserver-0")
            await churn(other, space, "meanwhile")
            await until(lambda: all(one.reflector.figures.failures >= 3 for one in followers))
            await plane.start("kube-apiserver-0")
            for follower in followers:
                await follower.same_as(other, space)
            figures = [one.reflector.figures for one in followers]
            assert [(one.gone, one.relists) for one in figures] == [(1, 2)] * len(followers)
            assert await lists_of_pods(kube) == 0, "the state came as a streaming list"


async def test_without_streaming_lists_it_pages_once() -> None:
    gate_off = PlaneOptions(kwok=False, feature_gates={"WatchList": False})
    async with open_plane(gate_off) as plane, connected(plane) as kube:
        space = await a_namespace(kube)
        await churn(kube, space, "before")
        follower = Follower(kube, space)
        async with running(follower):
            assert len(follower.seen) == 5
            assert not follower.reflector.figures.streaming
            await churn(kube, space, "after")
            await follower.same_as(kube, space)
            assert follower.reflector.figures.relists == 1


async def test_a_comparison_by_count_agrees_with_a_real_server(wired: Wired) -> None:
    """The server's `remainingItemCount` and versions are what a comparison takes them for."""
    kube, _, _, space = wired
    await churn(kube, space, "counted")
    page = await kube.list_page(PODS, select=Selection(space), limit=1, metadata_only=True)

    async def agrees() -> bool:
        """No pod came or went between the two: those of a node that is not there are collected after a while."""
        nonlocal page
        page = await kube.list_page(PODS, select=Selection(space), limit=1, metadata_only=True)
        whole = await kube.list_page(PODS, select=Selection(space), limit=500, metadata_only=True)
        return len(page.items) + page.remaining == len(whole.items) > 1

    await until_async(agrees)
    assert int(version_of(page.items[0])) <= int(page.version)

    async def later() -> bool:
        return int((await kube.list_page(PODS, select=Selection(space), limit=1)).version) >= int(page.version)

    await until_async(later)
