"""Held, released, requeued, edited and moved in line through a whole stack, from the gateway to the command line."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import Harness, command, job, open_harness, options
from muster.client import ConflictError
from muster.schemas.facts.job_requests import Ask
from muster.schemas.job import JobChange, Phase

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    async with open_harness(options(Path(tmp_path_factory.mktemp("harness")), nodes=1)) as running:
        yield running


async def test_a_held_job_is_passed_over_until_it_is_released(harness: Harness) -> None:
    muster = harness.muster
    full, first, second = [
        (await muster.submit(job(name, gpus=8, run_s=run_s))).id
        for name, run_s in (("full", 10_000), ("first", 0.2), ("second", 0.2))
    ]
    await harness.job_that(full, lambda view: view.phase is Phase.RUNNING)
    assert "hold requested" in await command(harness.settings.state_dir, "hold", first, "--reason", "wrong data")
    held = await harness.job_that(first, lambda view: view.held)
    assert (held.phase, held.reason, held.detail.endswith("wrong data")) == (Phase.QUEUED, "held", True)
    assert (await muster.why(first)).reason == "held"
    with pytest.raises(ConflictError, match="only a job that waits can be held"):
        await muster.hold(full)

    await muster.cancel(full)
    await harness.ended([full, second])
    view = await muster.get(first)
    assert (view.held, view.placed_at) == (True, 0), "the one behind it ran, and it did not"
    await muster.release(first)
    await harness.ended([first])
    assert await harness.violations([full, first, second]) == []
    told = [fact for fact in await harness.facts() if fact.subject_id == first]
    assert [fact.name for fact in told if fact.name in ("held", "unheld", "placed")] == ["held", "unheld", "placed"]
    asked = {fact.id: fact.name for fact in await harness.federation_facts()}
    for ask in (Ask.HOLD, Ask.RELEASE):
        (forwarded,) = [fact for fact in told if fact.name == f"{ask.value}-forwarded"]
        assert [asked[cause] for cause in forwarded.causes] == [f"{ask.value}-requested"]
        assert forwarded.trace.split("-")[1] == view.trace.split("-")[1], "all of it is one trace"


async def test_another_priority_moves_a_waiting_job_in_line(harness: Harness) -> None:
    muster = harness.muster
    full, first, second = [
        (await muster.submit(job(name, gpus=8, run_s=run_s))).id
        for name, run_s in (("full", 10_000), ("first", 0.2), ("second", 0.2))
    ]
    await harness.job_that(full, lambda view: view.phase is Phase.RUNNING)
    await harness.job_that(second, lambda view: view.phase is Phase.QUEUED)
    assert "priority 90 requested, had 50" in await command(harness.settings.state_dir, "priority", second, "90")
    await harness.job_that(second, lambda view: view.priority == 90)
    assert (await muster.why(second)).position == 1
    await muster.cancel(full)
    await harness.ended([full, first, second])
    placed = [fact.subject_id for fact in await harness.facts() if fact.name == "placed"]
    assert placed[-3:] == [full, second, first]


async def test_a_requeued_job_runs_again_as_its_next_attempt(harness: Harness) -> None:
    muster = harness.muster
    one = (await muster.submit(job("again", gpus=1, run_s=10_000))).id
    await harness.job_that(one, lambda view: view.phase is Phase.RUNNING)
    assert "requeue requested" in await command(harness.settings.state_dir, "requeue", one, "--reason", "new data")
    again = await harness.job_that(one, lambda view: view.phase is Phase.RUNNING and view.attempt == 2)
    assert (again.preemptions, again.retries_used, again.node_losses) == (0, 0, 0)
    told = [fact for fact in await harness.facts() if fact.subject_id == one]
    (queued,) = [fact.payload for fact in told if fact.name == "queued" and fact.payload.attempt == 2]
    assert (queued.shown_reason, queued.detail.endswith(": new data")) == ("requeued", True)
    await muster.cancel(one)
    await harness.ended([one])
    assert await harness.violations([one]) == []


async def test_an_edited_job_waits_with_other_run_times(harness: Harness) -> None:
    muster = harness.muster
    full, waits = [(await muster.submit(job(name, gpus=8, run_s=10_000))).id for name in ("full", "waits")]
    await harness.job_that(full, lambda view: view.phase is Phase.RUNNING)
    words = ["--set", "total_run_time_s=0.5", "--set", "priority=70"]
    assert "total_run_time_s 0.5 requested" in await command(harness.settings.state_dir, "edit", waits, *words)
    await harness.job_that(waits, lambda view: (view.total_run_time_s, view.priority) == (0.5, 70))
    with pytest.raises(ConflictError, match="only a job that waits can get other run times"):
        await muster.edit(full, JobChange(min_slice_s=1.0))
    await muster.cancel(full)
    await harness.ended([full, waits])
    assert (await muster.get(waits)).phase is Phase.TIMED_OUT
    assert await harness.violations([full, waits]) == []
