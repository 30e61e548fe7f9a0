"""Hold, release, priority and requeue over HTTP: who may ask, what is stored, what is refused."""

from typing import Literal

import pytest

from kit.http.gateway import FakeHarness
from muster.gateway.views import waits
from muster.schemas.facts.job_requests import Ask
from muster.schemas.job import Phase
from muster.schemas.queries import WhyAnswer
from muster.schemas.views import JobView

JOB = "A" * 26
REQUEUE: Literal["requeue"] = "requeue"
ASKS: tuple[Ask | Literal["requeue"], ...] = (*Ask, REQUEUE)
BODIES: dict[str, object] = {Ask.PRIORITY: {"priority": 90, "reason": "the paper is due"}}


def fitting(ask: Ask | Literal["requeue"]) -> Phase:
    """A phase in which this may be asked of a job."""
    return Phase.RUNNING if ask == REQUEUE else Phase.QUEUED


def a_harness(phase: Phase = Phase.QUEUED) -> FakeHarness:
    harness = FakeHarness()
    harness.view.rows[JOB] = JobView(id=JOB, name="train", team="blue", principal="ann", queue="blue", phase=phase)
    return harness


def where(ask: Ask | Literal["requeue"]) -> str:
    return f"/v1/jobs/{JOB}/{ask}"


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("bob", 403), ("ann", 202), ("olga", 202), ("root", 202)])
async def test_who_may_ask_is_who_may_cancel(ask: Ask | Literal["requeue"], who: str, status: int) -> None:
    harness = a_harness(fitting(ask))
    async with harness.client(who) as client:
        answer = await client.post(where(ask), json=BODIES.get(ask))
    assert answer.status_code == status
    stored = [(job, asked.ask, asked.payload.principal) for job, asked in harness.log.of_jobs.values()]
    assert stored == ([(JOB, ask, who)] if status == 202 else [])


@pytest.mark.parametrize("ask", [Ask.HOLD, Ask.RELEASE, REQUEUE])
async def test_the_answer_is_the_job_as_it_is_and_the_reason_is_kept(ask: Ask | Literal["requeue"]) -> None:
    harness = a_harness(fitting(ask))
    async with harness.client() as client:
        answer = await client.post(where(ask), params={"reason": "wrong data"})
    assert (answer.json()["id"], answer.json()["phase"]) == (JOB, fitting(ask).value)
    ((_, asked),) = harness.log.of_jobs.values()
    assert asked.payload.reason == "wrong data"


async def test_a_priority_is_stored_with_its_reason() -> None:
    harness = a_harness(Phase.RUNNING)
    async with harness.client() as client:
        assert (await client.post(where(Ask.PRIORITY), json=BODIES[Ask.PRIORITY])).status_code == 202
    ((_, asked),) = harness.log.of_jobs.values()
    assert (asked.payload.priority, asked.payload.reason) == (90, "the paper is due")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"priority": 1001}, "priority"),
        ({"priority": -1}, "priority"),
        ({"priority": "90"}, "priority"),
        ({}, "priority"),
        ({"priority": 90, "colour": "red"}, "colour"),
        ({"priority": 90, "reason": "x" * 1025}, "reason"),
    ],
)
async def test_a_priority_is_checked_as_it_is_at_submission(body: dict[str, object], field: str) -> None:
    harness = a_harness()
    async with harness.client() as client:
        answer = await client.post(where(Ask.PRIORITY), json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert harness.log.of_jobs == {}


@pytest.mark.parametrize("phase", [Phase.PLACED, Phase.RUNNING, Phase.STOPPING])
async def test_a_job_that_has_its_places_cannot_be_held(phase: Phase) -> None:
    harness = a_harness(phase)
    async with harness.client() as client:
        answer = await client.post(where(Ask.HOLD))
    assert answer.status_code == 409
    assert f"is {phase.value}: only a job that waits can be held" in answer.json()["detail"]
    assert answer.json()["cure"] == "Cancel it, or hold it when it waits again."
    assert harness.log.of_jobs == {}


@pytest.mark.parametrize("phase", [Phase.SUBMITTED, Phase.QUEUED, Phase.STOPPING])
async def test_only_a_job_with_pods_can_be_requeued(phase: Phase) -> None:
    harness = a_harness(phase)
    async with harness.client() as client:
        answer = await client.post(where(REQUEUE))
    assert answer.status_code == 409
    assert f"is {phase.value}: only a job that is placed or running can be requeued" in answer.json()["detail"]
    assert harness.log.of_jobs == {}


@pytest.mark.parametrize("ask", ASKS)
async def test_nothing_can_be_asked_of_a_job_that_has_ended(ask: Ask | Literal["requeue"]) -> None:
    harness = a_harness(Phase.SUCCEEDED)
    async with harness.client() as client:
        assert (await client.post(where(ask), json=BODIES.get(ask))).status_code == 409
    assert harness.log.of_jobs == {}


@pytest.mark.parametrize("ask", ASKS)
async def test_the_same_key_is_the_same_request_and_without_one_each_is_new(ask: Ask | Literal["requeue"]) -> None:
    harness = a_harness(fitting(ask))
    async with harness.client() as client:
        for headers in ({"Idempotency-Key": "k"}, {"Idempotency-Key": "k"}, {}, {}):
            await client.post(where(ask), json=BODIES.get(ask), headers=headers)
    assert len(harness.log.of_jobs) == 3


async def test_a_job_is_held_with_redis_down() -> None:
    harness = a_harness()
    harness.scheduler.known = dict(harness.view.rows)
    harness.view.is_down = True
    async with harness.client() as client:
        assert (await client.post(where(Ask.HOLD))).status_code == 202


@pytest.mark.parametrize(("path", "status"), [("B" * 26, 404), ("nonsense", 422)])
async def test_a_job_that_nobody_knows_cannot_be_held(path: str, status: int) -> None:
    async with a_harness().client() as client:
        assert (await client.post(f"/v1/jobs/{path}/hold")).status_code == status


def test_scaling_is_not_asked_about_a_job_that_is_held() -> None:
    (row,) = a_harness().view.rows.values()
    assert waits(WhyAnswer(job=row))
    assert not waits(WhyAnswer(job=row.model_copy(update={"held": True})))
