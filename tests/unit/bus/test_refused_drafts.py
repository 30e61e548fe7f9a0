"""A shell whose core decides drafts that the log refuses: the others are stored, and it heals without a restart."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from kit.toys import JOINED, LOG, SCHEDULER, MemoryHarness, Releasing, put_joined, scheduler
from kit.waiting import until
from muster.bus.batches import BATCH_MESSAGES_MAX
from muster.bus.service import CoreService
from muster.bus.shell import Shell
from muster.core.fact import Draft
from muster.core.instant import Instant
from muster.schemas.facts.node import Released
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import fact_subject


def released_subject(node: str) -> str:
    return fact_subject(LOG, writer="scheduler", kind="node", subject_id=node, name="released")


def released(harness: MemoryHarness) -> list[str]:
    return [fact.subject_id for fact in harness.facts("released")]


def metric(metric_name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(metric_name, {"service": "scheduler", "log": LOG.stream, **labels}) or 0.0


async def leading(harness: MemoryHarness, service: CoreService | None = None) -> Shell:
    shell = harness.shell(service or scheduler())
    harness.start(shell)
    await until(lambda: shell.leading)
    return shell


async def pass_time(harness: MemoryHarness, seconds: float) -> None:
    for _ in range(round(seconds / 0.1)):
        harness.time.advance(0.1)
        await asyncio.sleep(0.001)


async def test_a_draft_that_nobody_may_publish_stops_no_other(harness: MemoryHarness) -> None:
    harness.log.forbidden = {released_subject("bad")}
    quarantined = {"kind": "node", "name": "released", "reason": "permission"}
    before = metric("muster_drafts_quarantined_total", **quarantined)
    shell = await leading(harness)
    put_joined(harness.log, "n1", "bad", "n2")
    await until(lambda: released(harness) == ["n1", "n2"])
    put_joined(harness.log, "n3")
    await pass_time(harness, 1)
    await until(lambda: released(harness) == ["n1", "n2", "n3"])
    assert shell.leading
    assert list(harness.log.refused) == [released_subject("bad")]
    assert metric("muster_drafts_quarantined_total", **quarantined) == before + 1
    assert metric("muster_drafts_in_quarantine") == 1


async def test_a_repaired_permission_heals_without_a_restart(harness: MemoryHarness) -> None:
    harness.log.forbidden = {released_subject("bad"), released_subject("worse")}
    shell = await leading(harness)
    put_joined(harness.log, "bad", "worse", "n1")
    await until(lambda: released(harness) == ["n1"])
    core = shell.core
    harness.log.forbidden.clear()
    await pass_time(harness, 15)
    await until(lambda: sorted(released(harness)) == ["bad", "n1", "worse"])
    assert shell.core is core
    await until(lambda: metric("muster_drafts_in_quarantine") == 0)


async def test_while_nothing_else_happens_refused_drafts_are_decided_seldom(harness: MemoryHarness) -> None:
    decided = 0

    class Counting(Releasing):
        def decide(self, now: Instant) -> list[Draft]:
            nonlocal decided
            decided += 1
            return super().decide(now)

    harness.log.forbidden = {released_subject("bad")}
    await leading(harness, scheduler(Counting))
    put_joined(harness.log, "bad")
    await until(lambda: harness.log.refused)
    await pass_time(harness, 2)
    before = decided
    await pass_time(harness, 8)
    assert decided - before <= 2


async def test_a_draft_that_is_refused_without_a_word_is_found_and_stops_no_other(harness: MemoryHarness) -> None:
    harness.log.broken = {released_subject("bad")}
    await leading(harness)
    put_joined(harness.log, *(f"n{number}" for number in range(9)), "bad", "n9")
    for _ in range(600):
        await pass_time(harness, 0.5)
        if len(released(harness)) == 10 and harness.log.refused:
            break
    assert released(harness) == [f"n{number}" for number in range(10)]
    assert list(harness.log.refused) == [released_subject("bad")]


class Wrong(Releasing):
    """Decides a fact that the scheduler may not write, and a group that fits in no batch."""

    def decide(self, now: Instant) -> list[Draft]:
        huge = [
            Draft("node", f"huge-{number}", "released", Released(), together="huge")
            for number in range(BATCH_MESSAGES_MAX)
        ]
        return [Draft("node", "n0", "joined", JOINED), *huge, *super().decide(now)]


async def test_defects_of_a_core_stop_neither_its_service_nor_its_other_drafts(harness: MemoryHarness) -> None:
    shell = await leading(harness, CoreService(SCHEDULER, StreamRole.LOG, Wrong))
    put_joined(harness.log, "n1", "n2")
    await pass_time(harness, 1)
    await until(lambda: released(harness) == ["n1", "n2"])
    assert shell.leading
    assert set(harness.log.refused) == {
        fact_subject(LOG, writer="scheduler", kind="node", subject_id="n0", name="joined"),
        released_subject("huge-0"),
    }


@pytest.mark.parametrize("cluster", ["a.b", "*", "a b", ">"])
async def test_a_cluster_that_is_no_subject_token_is_refused_before_it_is_sent(
    harness: MemoryHarness, cluster: str
) -> None:
    class Addressing(Releasing):
        def decide(self, now: Instant) -> list[Draft]:
            return [Draft("node", "bad", "released", Released(), cluster=cluster), *super().decide(now)]

    await leading(harness, scheduler(Addressing))
    put_joined(harness.log, "n1")
    await pass_time(harness, 1)
    await until(lambda: "n1" in released(harness))
    assert "bad" not in released(harness)
