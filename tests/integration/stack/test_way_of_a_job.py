"""A job's way through the whole harness, on the real servers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import Harness, job, open_harness, options
from kit.waiting import until_async
from muster.client import RefusedError
from muster.schemas.facts.job import JobRouted
from muster.schemas.job import Phase

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    async with open_harness(options(Path(tmp_path_factory.mktemp("harness")))) as running:
        yield running


async def test_a_job_runs_to_its_end_and_its_trace_crosses_every_service(harness: Harness) -> None:
    submitted = await harness.muster.submit(job("first"))
    (ended,) = await harness.ended([submitted.id])
    assert ended.phase is Phase.SUCCEEDED
    facts = [fact for fact in await harness.facts() if fact.subject_id == submitted.id]
    assert [fact.name for fact in facts] == [
        "routed", "queued", "placed", "pods-started", "running", "pods-exited", "succeeded",
    ]  # fmt: skip
    told = [fact for fact in await harness.federation_facts() if fact.subject_id == submitted.id]
    assert [fact.name for fact in told][:2] == ["submitted", "routed"]
    assert len({fact.trace.split("-")[1] for fact in (*facts, *told)}) == 1, "one trace from submission to the end"
    ids = {fact.id for fact in (*facts, *told)}
    assert all(set(fact.causes) & ids for fact in facts[1:]), "every fact names what led to it"
    assert {fact.writer for fact in (*facts, *told)} == {"gateway", "federation", "scheduler", "agent"}


async def test_the_federation_learns_how_a_job_ended(harness: Harness) -> None:
    submitted = await harness.muster.submit(job("reported"))
    await harness.ended([submitted.id])

    async def told() -> bool:
        facts = await harness.federation_facts()
        return any(fact.subject_id == submitted.id and fact.name == "job-ended" for fact in facts)

    await until_async(told)


async def test_everybody_tells_the_brokers_time_of_submission(harness: Harness) -> None:
    answered = await harness.muster.submit(job("timed"), idempotency_key="timed")
    told_again = await harness.muster.submit(job("timed"), idempotency_key="timed")
    (ended,) = await harness.ended([answered.id])
    facts = [fact for log in (harness.federation_facts, harness.facts) for fact in await log()]
    facts = [fact for fact in facts if fact.subject_id == answered.id]
    (stamp,) = [fact.time for fact in facts if fact.name == "submitted"]
    assert told_again.submitted_at == stamp == ended.submitted_at
    assert [fact.payload.job.submitted_at for fact in facts if isinstance(fact.payload, JobRouted)] == [stamp] * 2
    assert 0 <= stamp - answered.submitted_at < 1_000_000_000, "the first answer has the gateway's clock"


async def test_a_get_right_after_a_post_never_answers_404(harness: Harness) -> None:
    for index in range(20):
        submitted = await harness.muster.submit(job(f"quick-{index}"))
        assert (await harness.muster.get(submitted.id)).id == submitted.id


async def test_the_same_key_is_the_same_job_and_another_body_a_conflict(harness: Harness) -> None:
    first = await harness.muster.submit(job("same"), idempotency_key="key-1")
    again = await harness.muster.submit(job("same"), idempotency_key="key-1")
    assert again.id == first.id
    with pytest.raises(RefusedError) as refusal:
        await harness.muster.submit(job("other"), idempotency_key="key-1")
    assert refusal.value.problem.status == 409


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (job("too-large", gpus=9), "task_groups"),
        (job("nowhere", queue="no-such-queue"), "queue"),
    ],
)
async def test_a_job_that_can_never_run_is_refused_at_once(harness: Harness, spec: object, field: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        await harness.muster.submit(spec)
    assert 400 <= refusal.value.problem.status < 500
    assert field in refusal.value.problem.field


async def test_a_running_job_is_cancelled_and_its_devices_are_free_again(harness: Harness) -> None:
    submitted = await harness.muster.submit(job("endless", gpus=8, replicas=16, run_s=10_000))
    await harness.job_that(submitted.id, lambda view: view.phase is Phase.RUNNING)
    waiting = await harness.muster.submit(job("waits", gpus=8))
    why = await harness.muster.why(waiting.id)
    assert why.reason, "a waiting job is told why"
    await harness.muster.cancel(submitted.id)
    (ended,) = await harness.ended([submitted.id])
    assert ended.phase is Phase.CANCELLED
    assert [view.phase for view in await harness.ended([waiting.id])] == [Phase.SUCCEEDED]


async def test_a_gang_runs_whole_and_the_invariants_hold(harness: Harness) -> None:
    accepted = [
        (await harness.muster.submit(job(f"gang-{index}", gpus=4, replicas=1 + index % 7, run_s=0.2))).id
        for index in range(30)
    ]
    await harness.ended(accepted)
    assert await harness.violations(accepted) == []
