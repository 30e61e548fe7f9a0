"""What is written to objects at an API server: what changed, once, and again where it was not taken."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from kit.agent_workloads import POLICY, UNFIT, WatchingAgent, seen
from kit.kube.fake import FakeKube, fake_kube
from kit.kube.objects import SPACE, muster_job, phase
from kit.waiting import until
from muster.agent.core.workload_values import WorkloadKind
from muster.agent.core.workloads.objects import WorkloadProjection
from muster.agent.kubernetes import workloads
from muster.agent.kubernetes.workloads import WorkloadWriter
from muster.kube.connection import KubeConnection
from muster.kube.objects import JsonObject, uid_of
from muster.kube.resources import EVENTS, MUSTER_JOBS, NAMESPACES
from muster.schemas.facts.job import JobUnschedulable


class World:
    """One MusterJob at a fake API server, an agent that sees it, and a writer."""

    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube
        self.agent = WatchingAgent()
        self.writer = WorkloadWriter(self.agent.workloads, now=lambda: self.agent.now)
        kube.add(NAMESPACES, {"metadata": {"name": SPACE}})
        self.uid = uid_of(kube.add(MUSTER_JOBS, muster_job("train")))
        self.look()

    @property
    def object(self) -> JsonObject:
        return self.kube.store.get(MUSTER_JOBS, "train", SPACE)

    def look(self) -> None:
        """The agent sees the object as it is now."""
        view = WorkloadProjection(WorkloadKind.MUSTER_JOB, MUSTER_JOBS.api_version, POLICY)(self.object)
        assert view is not None
        self.agent.see(view)
        self.writer.look()

    async def shows(self, wanted: str) -> None:
        await until(lambda: phase(self.object) == wanted)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with fake_kube() as kube:
        kube.register(MUSTER_JOBS)
        made = World(kube)
        async with KubeConnection.plain(kube.url, user_agent="muster-test/1") as connection:
            task = asyncio.create_task(made.writer.run(connection))
            try:
                yield made
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def test_each_step_is_written_once() -> None:
    async with world() as here:
        await here.shows("submitted")
        for _ in range(3):
            here.look()
        here.agent.accept(here.uid)
        here.writer.look()
        await here.shows("queued")
        for _ in range(3):
            here.look()
        await asyncio.sleep(0)
        assert here.writer.writes == 2


async def test_words_that_change_are_written_seldom_and_a_new_reason_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "WORDS_S", 0.3)
    async with world() as here:
        job = here.agent.accept(here.uid)
        for number in range(20):
            here.agent.write(
                "scheduler", "job", job.id, "unschedulable", JobUnschedulable(reason="full", detail=f"{number} of 20")
            )
            here.writer.look()
            await until(lambda: not here.agent.workloads.changed)
        assert here.writer.writes <= 3
        await until(lambda: "19 of 20" in str(here.object))
        assert here.writer.writes <= 4


async def test_what_the_server_does_not_take_now_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "AGAIN_S", 0.05)
    async with fake_kube() as kube:
        kube.register(MUSTER_JOBS)
        rule = kube.faults.fail(503, verbs="patch", times=9)
        here = World(kube)
        async with KubeConnection.plain(kube.url, user_agent="muster-test/1") as connection:
            task = asyncio.create_task(here.writer.run(connection))
            await here.shows("submitted")
            assert not rule.times, "every refusal was met before"
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_an_object_that_is_gone_is_not_written() -> None:
    async with world() as here:
        await here.shows("submitted")
        here.kube.remove(MUSTER_JOBS, "train", SPACE)
        here.agent.accept(here.uid)
        here.writer.look()
        await until(lambda: not here.agent.workloads.changed)
        other = seen("u-2", asks=UNFIT, namespace=SPACE, name="train")
        here.agent.see(other)
        here.writer.look()
        await until(lambda: not here.agent.workloads.changed)
        assert [event for event in here.kube.store.all(EVENTS) if "u-2" in str(event)] == []


async def test_of_an_object_that_is_gone_nothing_is_remembered() -> None:
    async with world() as here:
        await here.shows("submitted")
        here.agent.accept(here.uid)
        here.writer.look()
        await here.shows("queued")
        await until(lambda: here.uid in here.writer._written)
        here.agent.lose(here.uid)
        here.writer.look()
        await until(lambda: not here.agent.workloads.changed)
        assert here.writer._written == here.writer._later == {}


async def test_what_the_server_refuses_is_written_again_when_that_may_be_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workloads, "REFUSED_AGAIN_S", 0.05)
    for code in (403, 422):
        async with world() as here:
            await here.shows("submitted")
            rule = here.kube.faults.fail(code, verbs="patch", times=3)
            here.agent.accept(here.uid)
            here.writer.look()
            await here.shows("queued")
            assert not rule.times, "every refusal was met before"


async def test_an_object_that_was_refused_waits_no_longer_for_what_is_due_before() -> None:
    async with world() as here:
        await here.shows("submitted")
        here.kube.faults.fail(403, verbs="patch")
        here.agent.accept(here.uid)
        here.writer.look()
        await until(lambda: here.uid in here.writer._later)
        refused_until = here.writer._later[here.uid].when()
        rule = here.kube.faults.fail(503, verbs="patch")
        here.look()
        await until(lambda: not rule.times)
        await until(lambda: here.uid in here.writer._later)
        assert here.writer._later[here.uid].when() < refused_until
        await here.shows("queued")
