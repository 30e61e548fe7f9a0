"""Queues as a tree, reservations and run times: from the HTTP API through every service and back, on real servers."""

from collections.abc import AsyncIterator
from pathlib import Path
from time import time_ns

import pytest
import pytest_asyncio

from kit.stack.living import TEAM, Harness, job, open_harness, options
from kit.waiting import until_async
from muster.client import QueueSpec, RefusedError, Repeat, ReservationSpec
from muster.core.instant import NS_PER_S
from muster.schemas.facts.job import JobQueued
from muster.schemas.job import JobSpec, TaskGroup

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    async with open_harness(options(Path(tmp_path_factory.mktemp("harness")))) as running:
        yield running


async def test_a_tree_is_made_whole_and_shows_what_is_held_up_to_its_top(harness: Harness) -> None:
    quota = {"gpu_milli": 8000}
    tree = [QueueSpec(name="org"), QueueSpec(name="lab", parent="org", quota=quota, min_slice_default_s=60)]
    assert {queue.name for queue in await harness.muster.set_queues(tree)} == {"org", "lab"}
    spec = JobSpec(name="held", team="lab", task_groups=(TaskGroup(gpus=4),), labels={"sim.muster.dev/run-s": "20"})
    submitted = await harness.muster.submit(spec)

    async def held() -> bool:
        queues = {queue.name: queue for queue in await harness.muster.queues(shares=True)}
        return queues["org"].held.get("gpu_milli:H100") == queues["lab"].held.get("gpu_milli") == 4000

    await until_async(held)
    (queued,) = [
        fact.payload for fact in await harness.facts() if fact.subject_id == submitted.id and fact.name == "queued"
    ]
    assert isinstance(queued, JobQueued)
    assert queued.min_slice_s == 60, "the job left its slice to the queue"
    view = await harness.muster.get(submitted.id)
    assert view.slice_ends_at in (0, view.running_at + 60 * NS_PER_S)


async def test_a_tree_in_which_one_queue_may_not_be_changes_nothing(harness: Harness) -> None:
    with pytest.raises(RefusedError, match=r"queues\.1\.parent"):
        await harness.muster.set_queues([QueueSpec(name="good"), QueueSpec(name="bad", parent="nowhere")])
    assert "good" not in [queue.name for queue in await harness.muster.queues()]


async def test_a_reservation_is_booked_shown_and_ended(harness: Harness) -> None:
    start = time_ns() + 3600 * NS_PER_S
    spec = ReservationSpec(name="night", gpus=8, queue=TEAM, starts_at=start, duration_s=3600, repeat=Repeat.WEEKLY)
    booked = await harness.muster.reserve(spec)
    assert booked is not None
    assert (booked.spec, booked.active, booked.next_starts_at) == (spec, False, start)
    assert [one.name for one in await harness.muster.reservations()] == ["night"]
    await harness.muster.end_reservation("night", reason="a test")
    assert await harness.muster.reservations() == []
    told = [fact for fact in await harness.federation_facts() if fact.kind == "reservation"]
    assert [fact.name for fact in told] == ["reserve-requested", "reserve-forwarded", "end-requested", "end-forwarded"]
    answered = [
        fact.name for fact in await harness.facts() if fact.kind == "reservation" and fact.writer == "scheduler"
    ]
    assert answered == ["booked", "ended"]


async def test_a_reservation_of_nodes_that_are_not_there_names_its_field(harness: Harness) -> None:
    spec = ReservationSpec(name="ghost", nodes=("no-such-node",), starts_at=time_ns(), duration_s=60)
    with pytest.raises(RefusedError, match="nodes"):
        await harness.muster.reserve(spec)


async def test_a_reservation_for_maintenance_is_kept_at_once_and_keeps_others_away(harness: Harness) -> None:
    (node, *_) = [view.name for view in await harness.muster.nodes() if view.usable and not view.jobs]
    spec = ReservationSpec(name="firmware", nodes=(node,), starts_at=time_ns(), duration_s=600)
    await harness.muster.reserve(spec)

    async def kept() -> bool:
        (view,) = await harness.muster.reservations()
        return view.active and view.held_gpu_milli == 8000

    await until_async(kept)
    ids = [(await harness.muster.submit(job(f"beside-{number}"))).id for number in range(4)]
    assert all(node not in view.nodes for view in await harness.ended(ids))
    await harness.muster.end_reservation("firmware")
