"""What the metrics tell of teams, queues, jobs and the fleet."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import cast

import pytest
import pytest_asyncio
from nats.aio.client import Client
from prometheus_client import REGISTRY

from kit.scheduler import VirtualScheduler
from muster.bus.gauges import OTHER, BoundedLabels
from muster.bus.service import LeaderHandle
from muster.scheduler.app import SchedulerSink
from muster.schemas.ids import trace_id


class Followed:
    """A world whose folds the sink follows."""

    def __init__(self) -> None:
        self.world = VirtualScheduler(nodes=2, gpus=4, queues=("lab", "other"))
        self.world.queue("bounded", gpu_milli_quota=2_000, gpu_milli_limit=3_000)
        self.sink = SchedulerSink(one_in=1)
        self.seen = 0

    async def open(self) -> None:
        self.seen = len(self.world.log)
        await self.sink.open(self.world.core, cast("Client", None), LeaderHandle())

    async def look(self) -> None:
        """Fold what was said, and let the gauges be set once more."""
        facts, self.seen = self.world.log[self.seen :], len(self.world.log)
        await self.sink.after_fold(facts, last_seq=self.seen, now=self.world.now)
        self.sink._standing.show(self.world.core.state, self.sink._tally, now=self.world.now)


@pytest_asyncio.fixture
async def it() -> AsyncIterator[Followed]:
    followed = Followed()
    await followed.open()
    yield followed
    await followed.sink.close()


def sample(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"muster_{name}", labels)


def counted(name: str, **labels: str) -> float:
    return sample(name, **labels) or 0.0


async def test_teams_queues_and_gpus_show_who_waits_and_who_holds(it: Followed) -> None:
    it.world.submit("runs", gpus=4)
    it.world.submit("runs-2", gpus=4, queue="other")
    it.world.submit("waits", gpus=1)
    it.world.advance(30.0)
    await it.look()
    assert sample("team_jobs", team="lab", state="placed") == 2
    assert sample("team_jobs", team="lab", state="waiting") == 1
    assert sample("team_gpus_held", team="lab") == 8
    assert sample("queue_jobs", queue="lab", state="waiting") == 1
    assert sample("queue_jobs", queue="other", state="waiting") == 0
    assert sample("queue_gpus_held", queue="lab") == 4
    assert sample("queue_oldest_wait_seconds", queue="lab") == 30
    assert sample("queue_oldest_wait_seconds", queue="other") == 0
    assert (sample("gpus", model="H100"), sample("gpus_held", model="H100")) == (8, 8)


async def test_quota_and_limits_are_shown_in_gpus(it: Followed) -> None:
    await it.look()
    assert sample("queue_gpus_nominal", queue="bounded") == 2
    assert sample("queue_gpus_limit", queue="bounded") == 3
    assert sample("queue_gpus_limit", queue="lab") == float("inf")


async def test_nodes_that_take_no_jobs_are_told_apart(it: Followed) -> None:
    it.world.lose("n0")
    await it.look()
    assert (sample("nodes", state="usable"), sample("nodes", state="lost")) == (1, 1)
    assert sample("gpus_unusable", model="H100") == 4


async def test_how_long_placing_took_leads_to_the_jobs_trace(it: Followed) -> None:
    at_once, told = (counted("submit_to_placed_seconds_count", waited=waited) for waited in ("no", "yes"))
    it.world.submit("quick", gpus=4)
    it.world.submit("quick-2", gpus=4)
    slow = it.world.submit("slow", gpus=4)
    it.world.advance(10.0)
    it.world.started(next(iter(it.world.core.state.jobs.records.values())).job)
    await it.look()
    assert counted("submit_to_placed_seconds_count", waited="no") == at_once + 2
    assert counted("submit_to_placed_seconds_count", waited="yes") == told
    it.world.exited(next(iter(it.world.core.state.jobs.records.values())).job)
    await it.look()
    assert it.world.names(slow)[-1] == "placed"
    assert counted("submit_to_placed_seconds_count", waited="yes") == told + 1
    samples = [one for family in REGISTRY.collect() for one in family.samples if one.exemplar]
    traces = {one.exemplar.labels["trace_id"] for one in samples if one.name.startswith("muster_submit_to_placed")}
    assert trace_id("slow") in traces


async def test_ends_are_counted_and_failures_told_with_the_jobs_trace(
    it: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    before = counted("jobs_ended_total", team="lab", outcome="failed")
    job = it.world.submit("breaks")
    it.world.started(job)
    it.world.exited(job, "failed", exit_code=3)
    with caplog.at_level(logging.INFO, logger="muster.scheduler"):
        await it.look()
    assert counted("jobs_ended_total", team="lab", outcome="failed") == before + 1
    (told,) = [record for record in caplog.records if job.id in record.getMessage()]
    assert "failed with exit code 3" in told.getMessage()
    assert told.trace_id == trace_id("breaks")  # type: ignore[attr-defined]


async def test_runs_for_nothing_are_counted_by_reason(it: Followed) -> None:
    before = counted("jobs_requeued_total", reason="node-lost")
    job = it.world.submit("unlucky", gpus=4)
    it.world.started(job)
    it.world.lose(it.world.slots(job)[0][0])
    it.world.exited(job, "node-lost")
    await it.look()
    assert counted("jobs_requeued_total", reason="node-lost") == before + 1


async def test_a_follower_shows_nothing(it: Followed) -> None:
    it.world.submit("runs")
    await it.look()
    await it.sink.close()
    assert sample("team_gpus_held", team="lab") is None
    assert sample("nodes", state="usable") is None


async def test_what_breaks_while_showing_stops_the_service(it: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    await it.sink.close()

    def breaks(*_: object, **__: object) -> None:
        raise RuntimeError("no gauge")

    monkeypatch.setattr(it.sink._standing, "show", breaks)
    await it.open()
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="no gauge"):
        await it.sink.after_fold((), last_seq=1, now=it.world.now)


def test_so_many_names_have_a_label_and_the_rest_share_one() -> None:
    labels = BoundedLabels(2)
    assert [labels.of(name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", OTHER, "a", OTHER]
