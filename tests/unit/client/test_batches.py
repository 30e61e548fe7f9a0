"""Many jobs with few requests, against the real application with a harness in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from kit.http.gateway import FakeHarness, lost_log
from kit.loopback import served
from muster.bus.gateway_settings import AccessSettings, SubmitterSettings
from muster.client import JobSpec, Muster, RefusedError, Retry, TaskGroup, UnavailableError
from muster.client.batches import JOBS_PER_REQUEST
from muster.client.http import RETRY_AFTER_S_MAX
from muster.gateway.http import make_app
from muster.gateway.limits import Limits
from muster.gateway.ports import StoredJob
from muster.schemas.base import BODY_BYTES_MAX
from muster.schemas.job import Job
from muster.schemas.views import JobView

QUICK = Retry(attempts=3, first_s=0.0, most_s=0.0)


def job(name: str, **changes: object) -> JobSpec:
    spec = JobSpec(name=name, team="blue", task_groups=(TaskGroup(gpus=1),))
    return JobSpec.model_validate(spec.model_dump(exclude_unset=True) | changes)


@asynccontextmanager
async def sdk(harness: FakeHarness) -> AsyncIterator[Muster]:
    async with served(harness.app) as url, Muster(url, "ann", retry=QUICK) as muster:
        yield muster


async def test_a_long_list_takes_several_requests_and_keeps_its_order() -> None:
    names = [f"job-{number}" for number in range(2 * JOBS_PER_REQUEST + 1)]
    harness = FakeHarness()
    async with sdk(harness) as muster:
        told = await muster.submit_many([job(name) for name in names], idempotency_key="k")
        again = await muster.submit_many([job(name) for name in names], idempotency_key="k")
    assert [one.name for one in told if isinstance(one, JobView)] == names
    assert [one.id for one in again if isinstance(one, JobView)] == list(harness.log.jobs)


async def test_large_jobs_are_parted_by_their_bytes() -> None:
    large = [job(f"job-{number}", command=["x" * 1_000] * 60) for number in range(40)]
    assert sum(len(one.model_dump_json()) for one in large) > 2 * BODY_BYTES_MAX
    async with sdk(FakeHarness()) as muster:
        told = await muster.submit_many(large)
    assert [one.name for one in told if isinstance(one, JobView)] == [one.name for one in large]


async def test_a_refusal_stands_in_its_place() -> None:
    async with sdk(FakeHarness()) as muster:
        told = await muster.submit_many([job("a"), job("b", team="red"), job("c")])
    assert [type(one).__name__ for one in told] == ["JobView", "NotAllowedError", "JobView"]


async def test_what_cannot_be_stored_is_sent_again() -> None:
    harness = FakeHarness()
    stored, asked = harness.log.submit, []

    async def at_the_third_time(one: Job) -> StoredJob:
        asked.append(one.spec.name)
        if asked.count(one.spec.name) < 3 and one.spec.name == "b":
            raise lost_log()
        return await stored(one)

    harness.log.submit = at_the_third_time  # type: ignore[method-assign]
    async with sdk(harness) as muster:
        told = await muster.submit_many([job("a"), job("b")])
    assert [one.name for one in told if isinstance(one, JobView)] == ["a", "b"]
    assert (asked, len(harness.log.jobs)) == (["a", "b"] * 3, 2)


async def test_and_in_the_end_it_is_unavailable() -> None:
    harness = FakeHarness()
    harness.log.fails = lost_log()
    async with sdk(harness) as muster:
        with pytest.raises(UnavailableError, match="nobody answers"):
            await muster.submit_many([job("a")])


async def test_no_jobs_are_no_request() -> None:
    async with Muster("http://127.0.0.1:9", "nobody", retry=QUICK) as muster:
        assert await muster.submit_many([]) == []


async def test_what_is_above_the_limits_is_sent_again_and_refused_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.client.http.RETRY_AFTER_S_MAX", 0.0)
    limits = SubmitterSettings(writes_per_min=60_000, writes_burst=10, team_jobs_per_min=0.001, team_jobs_burst=2)
    harness = FakeHarness()
    harness.app = make_app(replace(harness.harness, limits=Limits(AccessSettings(submitter=limits))))
    async with sdk(harness) as muster:
        assert isinstance(await muster.submit(job("a")), JobView)
        told = await muster.submit_many([job("b"), job("c")])
    assert [type(one).__name__ for one in told] == ["JobView", "RefusedError"]
    assert isinstance(told[1], RefusedError)
    assert (told[1].problem.status, told[1].problem.field) == (429, "team-jobs")


def test_the_wait_that_the_gateway_asks_for_is_kept_within_a_bound() -> None:
    retry = Retry(attempts=3, first_s=0.1, most_s=2.0)
    assert [retry.wait_s(1), retry.wait_s(9), retry.wait_s(1, asked_s=5), retry.wait_s(1, asked_s=9_999)] == [
        0.1,
        2.0,
        5,
        RETRY_AFTER_S_MAX,
    ]
