"""Whatever an API server does, in whatever order, a reflector ends with what is there, having told every step."""

import asyncio
import random
from collections.abc import Callable

import pytest

from kit.kube.fake import FakeKube, fake_kube, pod
from kit.waiting import until
from muster.kube import bounds
from muster.kube.connection import KubeConnection
from muster.kube.holdings import Change, Happened, Key
from muster.kube.objects import JsonObject, name_of, namespace_of, text
from muster.kube.reflector import Reflector
from muster.kube.resources import PODS
from muster.kube.shapes import Selection
from muster.kube.sharing import SharedWatches

STEPS = 40
SELECTED = Selection(labels="mine=yes")


class Insisting:
    """Adds changes up, and insists that each follows from the ones before."""

    def __init__(self) -> None:
        self.seen: dict[Key, str] = {}

    async def take(self, changes: list[Change[str]]) -> None:
        for change in changes:
            if change.happened is Happened.ADDED:
                assert change.key not in self.seen
            else:
                assert change.key in self.seen
            if change.now is None:
                del self.seen[change.key]
            else:
                assert self.seen.get(change.key) != change.now
                self.seen[change.key] = change.now
        await asyncio.sleep(0)


def step_of(obj: JsonObject) -> str:
    return text(obj, "metadata", "labels", "step")


def happen(kube: FakeKube, chance: random.Random, step: int) -> None:
    """One thing happens to a pod."""
    name = f"p{chance.randrange(6)}"
    if kube.store.find(PODS, name, "default") is None:
        kube.add(PODS, pod(name, labels={"mine": chance.choice(["yes", "no"]), "step": str(step)}))
    elif chance.random() < 0.4:
        kube.remove(PODS, name, "default")
    else:
        labels = {"step": str(step), "mine": chance.choice(["yes", "yes", "no"])}
        kube.change(PODS, name, {"metadata": {"labels": labels}}, "default")


def troubles(kube: FakeKube) -> list[Callable[[], object]]:
    return [
        kube.end_watches,
        kube.drop_connections,
        kube.bookmark,
        kube.compact,
        lambda: kube.faults.fail(500, verbs="watch list"),
        lambda: kube.faults.fail(429, verbs="watch list", reason="TooManyRequests"),
        lambda: kube.faults.fail(503, verbs="watch", hang_up=True),
        lambda: setattr(kube.faults, "lost_events", kube.faults.lost_events + 1),
        lambda: (kube.compact(), kube.end_watches()),
    ]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "RELIST_S_MIN", 0.01)
    monkeypatch.setattr(bounds, "RELIST_S_MAX", 0.05)
    monkeypatch.setattr(bounds, "SETTLE_S", 0.2)
    monkeypatch.setattr(bounds, "COMPARE_WHOLE_EVERY", 2)
    monkeypatch.setattr("muster.kube.comparing.POLL_S", 0.005)
    monkeypatch.setattr("muster.kube.reflector.backoff_s", lambda *_, **__: 0.01)


class Running:
    """A reflector at work."""

    def __init__(self, connection: KubeConnection, select: Selection, seed: int, shared: SharedWatches) -> None:
        self.insisting = Insisting()
        self.reflector = Reflector(
            connection, PODS, project=step_of, on_changes=self.insisting.take, select=select, seed=seed,
            compare_s=0.1, shared=shared,
        )  # fmt: skip
        self.task = asyncio.create_task(self.reflector.run())

    async def end(self) -> None:
        assert not self.task.done()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("seed", range(8))
async def test_each_always_ends_with_what_is_there(seed: int, count: int) -> None:
    """However many share a watch, and though they begin anew now and then."""
    chance = random.Random(seed)
    select = SELECTED if seed % 2 else Selection()
    async with (
        fake_kube(streaming_lists=seed % 3 != 0, bookmark_s=0.05) as kube,
        KubeConnection.plain(kube.url, user_agent="muster-test/1") as connection,
    ):
        shared = SharedWatches()
        running = [Running(connection, select, seed + number, shared) for number in range(count)]
        for step in range(STEPS):
            happen(kube, chance, step)
            if chance.random() < 0.3:
                chance.choice(troubles(kube))()
            if count > 1 and chance.random() < 0.1:
                which = chance.randrange(count)
                await running[which].end()
                running[which] = Running(connection, select, seed + step, shared)
            for _ in range(chance.randrange(20)):
                await asyncio.sleep(0.0005)

        def the_same() -> bool:
            there = {
                Key(namespace_of(one), name_of(one)): step_of(one)
                for one in kube.store.all(PODS)
                if not select.labels or text(one, "metadata", "labels", "mine") == "yes"
            }
            return all(one.insisting.seen == dict(one.reflector.items()) == there for one in running)

        await until(the_same, patience_s=20)
        for one in running:
            await one.end()
