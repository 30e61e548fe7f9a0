"""Many jobs in one request: each is answered as if it had come alone."""

import json
from typing import Any

import pytest

from kit.http.gateway import FakeHarness, lost_log
from muster.gateway.submit import AT_ONCE_MAX
from muster.schemas.base import JOBS_PER_BATCH_MAX
from muster.schemas.job import JobSpec

SPEC = {"name": "train", "team": "blue", "task_groups": [{"gpus": 1}]}
KEY = {"Idempotency-Key": "k"}


def lines(*specs: object) -> bytes:
    return b"\n".join(json.dumps(one).encode() for one in specs)


def named(*names: str) -> bytes:
    return lines(*({**SPEC, "name": name} for name in names))


async def answers(harness: FakeHarness, body: bytes, *, who: str = "ann", **params: str) -> list[dict[str, Any]]:
    async with harness.client(who) as client:
        answer = await client.post("/v1/jobs/batch", content=body, headers=KEY, params=params)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["answers"]
    return found


async def test_every_job_is_stored_and_answered_in_its_place() -> None:
    harness = FakeHarness()
    told = await answers(harness, named("a", "b", "c"))
    assert [(one["status"], one["job"]["name"]) for one in told] == [(201, "a"), (201, "b"), (201, "c")]
    assert {one["job"]["id"] for one in told} == set(harness.log.jobs)


async def test_the_same_batch_again_is_the_same_jobs() -> None:
    harness = FakeHarness()
    first, again = await answers(harness, named("a", "b")), await answers(harness, named("a", "b"))
    assert [one["status"] for one in again] == [200, 200]
    assert [one["job"]["id"] for one in first] == [one["job"]["id"] for one in again]


async def test_the_nth_job_is_that_of_its_own_key_alone() -> None:
    harness = FakeHarness()
    second = (await answers(harness, named("a", "b")))[1]
    async with harness.client() as client:
        alone = await client.post("/v1/jobs", json={**SPEC, "name": "b"}, headers={"Idempotency-Key": "k-2"})
    assert (alone.status_code, alone.json()["id"]) == (200, second["job"]["id"])


async def test_a_list_in_parts_goes_on_counting() -> None:
    harness = FakeHarness()
    whole = await answers(harness, named("a", "b", "c"))
    rest = await answers(harness, named("c"), first="3")
    assert (rest[0]["status"], rest[0]["job"]["id"]) == (200, whole[2]["job"]["id"])


async def test_a_refused_job_keeps_no_other_from_being_accepted() -> None:
    harness = FakeHarness()
    bad = ({**SPEC, "team": "nobody"}, {**SPEC, "task_groups": []}, {**SPEC, "queue": "unknown"})
    told = await answers(harness, lines(SPEC, *bad, SPEC) + b"\n{not json\n")
    assert [one["status"] for one in told] == [201, 403, 422, 422, 201, 400]
    assert [one["problem"]["field"] for one in told if "problem" in one] == ["team", "task_groups", "queue", "body"]
    assert len(harness.log.jobs) == 2


async def test_another_job_under_the_key_is_a_conflict_of_that_job_alone() -> None:
    harness = FakeHarness()
    await answers(harness, named("a", "b"))
    assert [one["status"] for one in await answers(harness, named("a", "other"))] == [200, 409]


async def test_what_cannot_be_stored_now_is_said_of_each() -> None:
    harness = FakeHarness()
    harness.log.fails = lost_log()
    assert [one["status"] for one in await answers(harness, named("a", "b"))] == [503, 503]


async def test_where_one_cannot_be_stored_now_later_ones_are_not_tried() -> None:
    harness, count = FakeHarness(), 3 * AT_ONCE_MAX
    harness.log.fails = lost_log()
    told = await answers(harness, named(*(f"j{number}" for number in range(count))))
    assert [one["status"] for one in told] == [503] * count
    assert harness.log.submits == AT_ONCE_MAX


async def test_a_traceparent_holds_for_all() -> None:
    harness = FakeHarness()
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    async with harness.client() as client:
        answer = await client.post("/v1/jobs/batch", content=named("a", "b"), headers={**KEY, "traceparent": trace})
    assert {one["job"]["trace"] for one in answer.json()["answers"]} == {trace}


@pytest.mark.parametrize("between", [b"\n", b"\r\n", b"\n\n"])
async def test_lines_end_as_editors_end_them(between: bytes) -> None:
    body = between.join([named("a"), named("b"), b""])
    assert [one["job"]["name"] for one in await answers(FakeHarness(), body)] == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [(b"", 422, "body"), (b"\n \n", 422, "body"), (b"{}\n" * (JOBS_PER_BATCH_MAX + 1), 413, "body")],
)
async def test_an_empty_batch_and_one_too_long_are_refused_whole(body: bytes, status: int, field: str) -> None:
    harness = FakeHarness()
    async with harness.client() as client:
        answer = await client.post("/v1/jobs/batch", content=body)
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert not harness.log.jobs


async def test_nobody_unknown_may_ask() -> None:
    async with FakeHarness().client("stranger") as client:
        assert (await client.post("/v1/jobs/batch", content=named("a"))).status_code == 401


async def test_a_batch_that_is_as_long_as_may_be_is_taken() -> None:
    harness = FakeHarness()
    told = await answers(harness, named(*(f"job-{number}" for number in range(JOBS_PER_BATCH_MAX))))
    assert [one["job"]["name"] for one in told] == [f"job-{number}" for number in range(JOBS_PER_BATCH_MAX)]
    assert all(JobSpec.model_validate(SPEC).team == one["job"]["team"] for one in told)
