"""A reflector follows its kind through everything that an API server does to it, without asking for lists again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from kit.kube.fake import FakeKube, binding, fake_kube, pod
from kit.waiting import until
from muster.kube import bounds
from muster.kube.connection import KubeConnection
from muster.kube.holdings import Change, Key
from muster.kube.objects import JsonObject, text
from muster.kube.reflector import Reflector
from muster.kube.resources import PODS
from muster.kube.shapes import Selection


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of tests, not of production."""
    monkeypatch.setattr(bounds, "RELIST_S_MIN", 0.01)
    monkeypatch.setattr(bounds, "REFUSED_S", 0.02)
    monkeypatch.setattr("muster.kube.comparing.POLL_S", 0.005)


@pytest.fixture
async def kube() -> AsyncIterator[FakeKube]:
    async with fake_kube() as kube:
        yield kube


@dataclass
class Followed:
    """A reflector that runs, and what it delivered."""

    reflector: Reflector[str]
    changes: list[Change[str]] = field(default_factory=list)
    seen: dict[Key, str] = field(default_factory=dict)
    slowly: Callable[[], object] | None = None
    deliveries: int = 0

    async def take(self, changes: list[Change[str]]) -> None:
        self.changes += changes
        self.deliveries += 1
        for change in changes:
            if change.now is None:
                del self.seen[change.key]
            else:
                self.seen[change.key] = change.now

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(change.happened.value, change.key.name) for change in self.changes]


@asynccontextmanager
async def following(
    kube: FakeKube,
    *,
    project: Callable[[JsonObject], str | None] = lambda obj: text(obj, "spec", "nodeName") or "-",
    select: Selection = Selection(),  # noqa: B008 - frozen
    metadata_only: bool = False,
    silence_s: float = 30.0,
    compare_s: float | None = None,
    wait: bool = True,
) -> AsyncIterator[Followed]:
    async with KubeConnection.plain(kube.url, user_agent="muster-test/1") as connection:
        followed: Followed

        async def take(changes: list[Change[str]]) -> None:
            await followed.take(changes)

        reflector = Reflector(
            connection, PODS, project=project, on_changes=take, select=select, metadata_only=metadata_only,
            silence_s=silence_s, compare_s=compare_s, watch_s=60,
        )  # fmt: skip
        followed = Followed(reflector)
        task = asyncio.create_task(reflector.run())
        try:
            if wait:
                async with asyncio.timeout(10):
                    await reflector.wait_synced()
            yield followed
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def names(followed: Followed) -> list[str]:
    return sorted(key.name for key in followed.seen)


def there(kube: FakeKube) -> list[str]:
    return sorted(text(one, "metadata", "name") for one in kube.store.all(PODS))


async def caught_up(followed: Followed, kube: FakeKube) -> None:
    """What was delivered, what is held and what is there are the same."""

    def same() -> bool:
        expected = {
            Key(text(one, "metadata", "namespace"), text(one, "metadata", "name")): text(one, "spec", "nodeName") or "-"
            for one in kube.store.all(PODS)
        }
        return followed.seen == dict(followed.reflector.items()) == expected

    await until(same, patience_s=10)


async def test_the_state_comes_in_one_watch_and_what_happens_follows(kube: FakeKube) -> None:
    kube.add(PODS, pod("a"))
    async with following(kube) as followed:
        assert followed.told == [("added", "a")]
        kube.add(PODS, pod("b"))
        kube.store.bind("a", "default", binding("a", "n1"))
        kube.remove(PODS, "b", "default")
        await caught_up(followed, kube)
        assert followed.told[1:] == [("added", "b"), ("modified", "a"), ("deleted", "b")]
        assert followed.reflector.get("a", namespace="default") == "n1"
    assert (kube.count("list"), kube.count("watch")) == (0, 1)


async def test_events_that_trickle_in_are_told_together(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "GATHER_S", 1.0)
    async with following(kube) as followed:
        kube.add(PODS, pod("first"))
        await until(lambda: names(followed) == ["first"])
        for number in range(bounds.GATHER_AFTER + 30):
            kube.add(PODS, pod(f"p{number}"))
            await asyncio.sleep(0.002)
        await caught_up(followed, kube)
        assert followed.deliveries <= bounds.GATHER_AFTER + 6


async def test_a_server_without_streaming_lists_is_asked_for_pages_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_kube(streaming_lists=False) as kube:
        for number in range(bounds.PAGE_ITEMS + 1):
            kube.add(PODS, pod(f"p{number:04}"))
        async with following(kube) as followed:
            assert len(followed.seen) == bounds.PAGE_ITEMS + 1
            kube.add(PODS, pod("later"))
            await caught_up(followed, kube)
            assert not followed.reflector.figures.streaming
            kube.end_watches()
            kube.add(PODS, pod("later-still"))
            await caught_up(followed, kube)
        assert kube.count("list") == 2
        assert [one.code for one in kube.asked("watch")] == [422, 200, 200]


@pytest.mark.parametrize("how", ["end_watches", "drop_connections"])
async def test_an_ended_or_broken_watch_is_resumed(kube: FakeKube, how: str) -> None:
    kube.add(PODS, pod("a"))
    async with following(kube) as followed:
        for number in range(3):
            getattr(kube, how)()
            kube.add(PODS, pod(f"b{number}"))
            kube.remove(PODS, f"b{number}", "default")
            kube.add(PODS, pod(f"c{number}"))
            await caught_up(followed, kube)
        assert followed.reflector.figures.relists == 1
        assert ("added", "b2") in followed.told, "what came and went meanwhile is told too"
    assert kube.count("list") == 0
    assert all("resourceVersion" in one.query for one in kube.asked("watch")[1:])


async def test_an_outage_costs_no_list(kube: FakeKube) -> None:
    kube.add(PODS, pod("a"))
    async with following(kube) as followed:
        async with kube.outage():
            kube.add(PODS, pod("b"))
            await until(lambda: followed.reflector.figures.failures >= 3)
        await caught_up(followed, kube)
        assert followed.reflector.figures.relists == 1


async def test_a_version_that_is_gone_is_had_anew_with_what_was_deleted(kube: FakeKube) -> None:
    for name in ("stays", "goes", "changes"):
        kube.add(PODS, pod(name))
    async with following(kube) as followed:
        del followed.changes[:]
        async with kube.outage():
            kube.remove(PODS, "goes", "default")
            kube.store.bind("changes", "default", binding("changes", "n1"))
            kube.add(PODS, pod("comes"))
            kube.compact()
        await caught_up(followed, kube)
        assert sorted(followed.told) == [("added", "comes"), ("deleted", "goes"), ("modified", "changes")]
        assert (followed.reflector.figures.gone, followed.reflector.figures.relists) == (1, 2)


async def test_bookmarks_keep_a_quiet_watch_from_being_forgotten(kube: FakeKube) -> None:
    async with following(kube, select=Selection(labels="mine")) as followed:
        for number in range(5):
            kube.add(PODS, pod(f"foreign{number}"))
        kube.bookmark()
        await until(lambda: followed.reflector.figures.bookmarks == 2)
        kube.compact()
        kube.end_watches()
        kube.add(PODS, pod("own", labels={"mine": "yes"}))
        await until(lambda: names(followed) == ["own"])
        assert (followed.reflector.figures.gone, followed.reflector.figures.relists) == (0, 1)


async def test_what_came_before_a_broken_event_is_delivered(kube: FakeKube) -> None:
    async with following(kube) as followed:
        kube.store.create(PODS, pod("whole"), "default")
        for watch in kube.watches:
            watch.put(b'{"type":"MODIFIED","obj\n')
        await caught_up(followed, kube)
        kube.store.create(PODS, pod("after"), "default")
        await caught_up(followed, kube)
        assert followed.told == [("added", "whole"), ("added", "after")]


async def test_a_half_open_watch_is_left_by_its_silence(kube: FakeKube) -> None:
    async with following(kube, silence_s=0.2) as followed:
        kube.faults.frozen = True
        kube.add(PODS, pod("a"))
        await until(lambda: followed.reflector.figures.failures >= 1)
        kube.faults.frozen = False
        await caught_up(followed, kube)
        assert "half open" in followed.reflector.figures.last_error
        assert followed.reflector.figures.relists == 1


@pytest.mark.parametrize("selected", [Selection(), Selection(labels="!none")])
async def test_an_update_that_the_watch_lost_is_noticed_and_had(kube: FakeKube, selected: Selection) -> None:
    kube.add(PODS, pod("a"))
    kube.add(PODS, pod("b"))
    async with following(kube, compare_s=0.02, select=selected) as followed:
        kube.faults.lost_events = 2
        kube.remove(PODS, "b", "default")
        kube.add(PODS, pod("c"))
        kube.add(PODS, pod("d"))
        if not selected.labels:  # one gone and one come: the counts agree, and only a whole comparison tells
            kube.faults.lost_events = 1
            kube.add(PODS, pod("e"))
        kube.bookmark()
        await caught_up(followed, kube)
        assert followed.reflector.figures.missed >= 2


async def test_a_lost_modification_is_noticed_by_a_whole_comparison(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "COMPARE_WHOLE_EVERY", 2)
    kube.add(PODS, pod("a"))
    async with following(kube, compare_s=0.02) as followed:
        kube.faults.lost_events = 1
        kube.store.bind("a", "default", binding("a", "n1"))
        kube.bookmark()
        await caught_up(followed, kube)
        assert followed.reflector.figures.missed == 1


async def test_comparing_by_count_asks_for_one_object(kube: FakeKube) -> None:
    for number in range(20):
        kube.add(PODS, pod(f"p{number}"))
    async with following(kube, compare_s=0.02) as followed:
        await until(lambda: followed.reflector.figures.compares >= 3)
        assert followed.reflector.figures.missed == 0
        assert followed.reflector.figures.relists == 1
    assert {one.query["limit"] for one in kube.asked("list")} == {"1"}


async def test_a_watch_that_no_longer_goes_on_is_begun_again(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SETTLE_S", 0.05)
    async with following(kube, compare_s=0.02) as followed:
        kube.faults.lost_events = 1
        kube.add(PODS, pod("a"))  # no bookmark tells the watch that it is behind
        await caught_up(followed, kube)
        assert followed.reflector.figures.stuck >= 1
        assert followed.reflector.figures.relists == 1


async def test_a_slow_consumer_slows_the_reading_and_loses_nothing(kube: FakeKube) -> None:
    async with following(kube) as followed:
        free = asyncio.Event()
        taking = followed.take

        async def slowly(changes: list[Change[str]]) -> None:
            await free.wait()
            await taking(changes)

        followed.take = slowly  # type: ignore[method-assign]
        kube.add(PODS, pod("first"))
        await until(lambda: len(followed.reflector) == 1)
        for number in range(2_000):
            kube.add(PODS, pod(f"p{number}"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(followed.reflector) < 2_000
        free.set()
        await caught_up(followed, kube)


async def test_without_the_permission_it_waits_for_it(kube: FakeKube) -> None:
    kube.faults.forbidden.add(("watch", "pods"))
    async with following(kube, wait=False) as followed:
        await until(lambda: followed.reflector.figures.failures >= 2)
        assert "grant verb 'watch' on 'pods' in a ClusterRole" in followed.reflector.figures.last_error
        assert not followed.reflector.synced
        kube.faults.forbidden.clear()
        await followed.reflector.wait_synced()


async def test_flow_control_is_obeyed(kube: FakeKube) -> None:
    kube.faults.fail(429, verbs="watch", times=2, retry_after_s=1, reason="TooManyRequests")
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with following(kube) as followed:
        assert loop.time() - started >= 2.0
        assert followed.reflector.figures.failures == 2
    assert kube.count("watch") == 3


async def test_a_restored_server_that_knows_less_is_believed_in_the_end(kube: FakeKube) -> None:
    kube.add(PODS, pod("kept"))
    kube.add(PODS, pod("lost"))
    async with following(kube) as followed:
        async with kube.outage():
            kube.remove(PODS, "lost", "default")
            kube.store.version = 2  # as from yesterday's backup
        await until(lambda: names(followed) == ["kept"], patience_s=20)


async def test_metadata_is_enough_where_it_is_asked_for(kube: FakeKube) -> None:
    kube.add(PODS, pod("a", node_name="n1", labels={"team": "x"}))
    async with following(
        kube, metadata_only=True, project=lambda obj: text(obj, "metadata", "labels", "team")
    ) as followed:
        assert followed.seen == {Key("default", "a"): "x"}
    async with following(kube, metadata_only=True) as followed:
        assert followed.seen == {Key("default", "a"): "-"}, "no spec comes"


async def test_a_pod_without_interest_is_not_delivered(kube: FakeKube) -> None:
    kube.add(PODS, pod("a"))
    async with following(kube, project=lambda obj: text(obj, "spec", "nodeName") or None, compare_s=0.02) as followed:
        assert followed.told == []
        kube.store.bind("a", "default", binding("a", "n1"))
        await until(lambda: followed.told == [("added", "a")])
        await until(lambda: followed.reflector.figures.compares >= 2)
        assert followed.reflector.figures.missed == 0


async def test_what_a_consumer_raises_ends_the_reflector(kube: FakeKube) -> None:
    async def refuse(changes: list[Change[str]]) -> None:
        raise ValueError(f"{len(changes)} changes are too many")

    kube.add(PODS, pod("a"))
    async with KubeConnection.plain(kube.url, user_agent="muster-test/1") as connection:
        reflector = Reflector(connection, PODS, project=lambda _: "x", on_changes=refuse)
        with pytest.raises(ExceptionGroup) as raised:
            await reflector.run()
    assert [str(one) for one in raised.value.exceptions] == ["1 changes are too many"]


async def test_many_reflectors_come_back_from_an_outage_apart(kube: FakeKube) -> None:
    kube.add(PODS, pod("a"))
    async with KubeConnection.plain(kube.url, user_agent="muster-test/1") as connection:

        async def ignore(changes: list[Change[str]]) -> None:
            pass

        fleet = [
            Reflector(connection, PODS, project=lambda _: "x", on_changes=ignore, seed=seed, compare_s=None)
            for seed in range(20)
        ]
        tasks = [asyncio.create_task(one.run()) for one in fleet]
        for one in fleet:
            await one.wait_synced()
        async with kube.outage():
            await until(lambda: all(one.figures.failures >= 2 for one in fleet))
        asked = len(kube.log)
        kube.add(PODS, pod("b"))
        await until(lambda: all(len(one) == 2 for one in fleet))
        assert len(kube.log) - asked == len(fleet)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert kube.count("list") == 0
