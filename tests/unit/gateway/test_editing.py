"""Editing a job over HTTP: who may, what is stored, what is refused."""

import pytest

from kit.http.gateway import FakeHarness
from muster.schemas.facts.job_requests import JobEditRequested, JobPriorityRequested
from muster.schemas.job import Phase
from muster.schemas.views import JobView

JOB = "A" * 26
WHERE = f"/v1/jobs/{JOB}"


def a_harness(phase: Phase = Phase.QUEUED) -> FakeHarness:
    harness = FakeHarness()
    harness.view.rows[JOB] = JobView(id=JOB, name="train", team="blue", principal="ann", queue="blue", phase=phase)
    return harness


@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("bob", 403), ("ann", 202), ("olga", 202), ("root", 202)])
async def test_who_may_edit_is_who_may_cancel(who: str, status: int) -> None:
    harness = a_harness()
    async with harness.client(who) as client:
        answer = await client.patch(WHERE, json={"min_slice_s": 60})
    assert answer.status_code == status
    stored = [asked.payload.principal for _, asked in harness.log.of_jobs.values()]
    assert stored == ([who] if status == 202 else [])


async def test_a_priority_and_run_times_are_two_requests() -> None:
    harness = a_harness()
    async with harness.client() as client:
        body = {"priority": 70, "total_run_time_s": 600, "reason": "shorter data"}
        assert (await client.patch(WHERE, json=body)).status_code == 202
    priority, edit = (asked.payload for _, asked in harness.log.of_jobs.values())
    assert priority == JobPriorityRequested(principal="ann", priority=70, reason="shorter data")
    assert edit == JobEditRequested(principal="ann", total_run_time_s=600.0, reason="shorter data")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"reason": "none"}, "body"),
        ({"priority": 1001}, "priority"),
        ({"total_run_time_s": 0}, "total_run_time_s"),
        ({"total_run_time_s": 1e9}, "total_run_time_s"),
        ({"min_slice_s": -1}, "min_slice_s"),
        ({"min_slice_s": "60"}, "min_slice_s"),
        ({"gpus": 16}, "gpus"),
    ],
)
async def test_a_wrong_change_names_its_field(body: dict[str, object], field: str) -> None:
    harness = a_harness()
    async with harness.client() as client:
        answer = await client.patch(WHERE, json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert harness.log.of_jobs == {}


@pytest.mark.parametrize("phase", [Phase.PLACED, Phase.RUNNING, Phase.STOPPING])
async def test_a_job_with_pods_gets_another_priority_but_no_other_run_times(phase: Phase) -> None:
    harness = a_harness(phase)
    async with harness.client() as client:
        answer = await client.patch(WHERE, json={"priority": 70, "min_slice_s": 60})
        assert (answer.status_code, answer.json()["field"]) == (409, "min_slice_s")
        assert harness.log.of_jobs == {}
        assert (await client.patch(WHERE, json={"priority": 70})).status_code == 202


async def test_a_job_that_ended_is_not_edited() -> None:
    async with a_harness(Phase.FAILED).client() as client:
        assert (await client.patch(WHERE, json={"min_slice_s": 60})).status_code == 409
