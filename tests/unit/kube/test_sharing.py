"""Reflectors of one process that follow the same share a watch, and none depends on another."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from kit.kube.fake import FakeKube, binding, fake_kube, pod
from kit.waiting import until
from muster.kube import bounds
from muster.kube.connection import KubeConnection
from muster.kube.holdings import Change
from muster.kube.objects import JsonObject, text
from muster.kube.reflector import Reflector
from muster.kube.resources import PODS
from muster.kube.shapes import Selection
from muster.kube.sharing import SharedWatches


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "RELIST_S_MIN", 0.01)
    monkeypatch.setattr(bounds, "BACKOFF_S_MIN", 0.01)


def node(obj: JsonObject) -> str:
    return text(obj, "spec", "nodeName") or "-"


@dataclass
class Harness:
    """A fake API server, and reflectors that share a watch of it."""

    kube: FakeKube
    connection: KubeConnection
    shared: SharedWatches = field(default_factory=SharedWatches)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def started(self, *, select: Selection = Selection(), held: asyncio.Event | None = None) -> "One":  # noqa: B008 - frozen
        """One more, once it has the state. held: it takes no change until this is set."""
        one = One(self, select, held)
        one.task = asyncio.create_task(one.reflector.run())
        self.tasks.append(one.task)
        await one.reflector.wait_synced()
        return one

    @property
    def open_watches(self) -> int:
        return len(self.kube.watches)


class One:
    """A reflector and what it told."""

    task: asyncio.Task[None]

    def __init__(self, harness: Harness, select: Selection, held: asyncio.Event | None) -> None:
        self.told: list[tuple[str, str]] = []
        self.held = held
        self.reflector = Reflector(
            harness.connection, PODS, project=node, on_changes=self._take, select=select, compare_s=None,
            shared=harness.shared,
        )  # fmt: skip

    async def _take(self, changes: list[Change[str]]) -> None:
        if self.held is not None and self.reflector.synced:
            await self.held.wait()
        self.told += [(change.happened.value, change.key.name) for change in changes]

    async def ended(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    async with (
        fake_kube(bookmark_s=0.05) as kube,
        KubeConnection.plain(kube.url, user_agent="muster-test/1") as connection,
    ):
        harness = Harness(kube, connection)
        yield harness
        for task in harness.tasks:
            task.cancel()
        await asyncio.gather(*harness.tasks, return_exceptions=True)


async def test_one_watch_is_left_and_all_are_told(harness: Harness) -> None:
    harness.kube.add(PODS, pod("a"))
    first, second = await harness.started(), await harness.started()
    await until(lambda: harness.open_watches == 1)

    harness.kube.add(PODS, pod("b"))
    harness.kube.store.bind("a", "default", binding("a", "n1"))
    harness.kube.remove(PODS, "b", "default")

    told = [("added", "a"), ("added", "b"), ("modified", "a"), ("deleted", "b")]
    await until(lambda: first.told == second.told == told)
    assert (harness.open_watches, harness.kube.count("list"), harness.kube.count("watch")) == (1, 0, 2)


async def test_who_follows_goes_on_where_it_stood_when_the_leader_ends(harness: Harness) -> None:
    harness.kube.add(PODS, pod("a"))
    first, second = await harness.started(), await harness.started()
    await until(lambda: harness.open_watches == 1)

    await first.ended()
    harness.kube.add(PODS, pod("b"))

    await until(lambda: second.told == [("added", "a"), ("added", "b")])
    assert second.reflector.figures.relists == 1


async def test_a_leader_that_fails_leaves_the_others_to_themselves(harness: Harness) -> None:
    first, second = await harness.started(), await harness.started()
    await until(lambda: harness.open_watches == 1)

    harness.kube.compact()
    harness.kube.end_watches()
    harness.kube.add(PODS, pod("b"))

    await until(lambda: first.told == second.told == [("added", "b")])


async def test_who_takes_too_slowly_holds_nobody_back_and_misses_nothing(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "SHARED_EVENTS_MAX", 3)
    held = asyncio.Event()
    first, slow = await harness.started(), await harness.started(held=held)
    await until(lambda: harness.open_watches == 1)

    names = [f"p{number}" for number in range(10)]
    for name in names:
        harness.kube.add(PODS, pod(name))
        await until(lambda name=name: ("added", name) in first.told)
    assert slow.told == []
    held.set()

    await until(lambda: slow.told == [("added", name) for name in names])
    assert slow.reflector.figures.relists == 1
    await until(lambda: harness.open_watches == 1)


async def test_what_a_follower_raises_ends_that_one_alone(harness: Harness) -> None:
    first, second = await harness.started(), await harness.started()
    await until(lambda: harness.open_watches == 1)

    async def refuse(changes: list[Change[str]]) -> None:
        raise ValueError(f"{len(changes)} are too many")

    second.reflector._on_changes = refuse
    harness.kube.add(PODS, pod("a"))

    await until(second.task.done)
    harness.kube.add(PODS, pod("b"))
    await until(lambda: first.told == [("added", "a"), ("added", "b")])


async def test_another_selection_has_a_watch_of_its_own(harness: Harness) -> None:
    await harness.started()
    await harness.started(select=Selection(labels="mine=yes"))
    await asyncio.sleep(0.2)  # bookmarks came, with which they would have joined

    assert harness.open_watches == 2


async def test_nothing_is_kept_of_those_that_ended(harness: Harness) -> None:
    first = await harness.started()
    await first.ended()

    harness.kube.add(PODS, pod("a"))
    second = await harness.started()

    assert second.told == [("added", "a")]
    assert harness.open_watches == 1
