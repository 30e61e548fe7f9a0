"""A member with a valid token neither keeps the gateway busy for all nor fills the log: its requests have limits."""

import asyncio
import json
from dataclasses import replace

import httpx
import pytest

from kit.clocks import FakeTime
from kit.http.bounded_gateway import serving
from kit.http.gateway import FakeHarness
from muster.bus.gateway_settings import AccessSettings, SubmitterSettings
from muster.gateway.http import make_app
from muster.gateway.limits import Limits
from muster.schemas.access import Role, TokenRecord, token_hash
from muster.schemas.views import QueueView

SPEC = {"name": "train", "team": "blue", "task_groups": [{"gpus": 1}]}
FEW = SubmitterSettings(
    requests_per_s=1, requests_burst=20, open_requests_max=3, writes_per_min=60, writes_burst=5,
    team_jobs_per_min=60, team_jobs_burst=8,
)  # fmt: skip


class Flooded:
    """A gateway with low limits, and time that stands still until a test moves it."""

    def __init__(self, limits: SubmitterSettings = FEW) -> None:
        self.harness = FakeHarness()
        self.harness.view.queue_rows.append(QueueView(name="red", cluster="atlas"))
        self.harness.tokens.set(token_hash("ann-2"), self._record("ann"))
        self.harness.tokens.set(token_hash("amy"), self._record("amy"))
        self.time = FakeTime()
        limited = Limits(AccessSettings(submitter=limits))
        self.app = make_app(replace(self.harness.harness, time=self.time, limits=limited))

    def client(self, token: str = "ann") -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://muster", headers=headers)

    @staticmethod
    def _record(principal: str) -> TokenRecord:
        return TokenRecord(principal=principal, role=Role.SUBMITTER, teams=("blue",))


async def test_requests_of_one_principal_have_a_rate_whatever_its_tokens() -> None:
    flooded = Flooded()
    async with flooded.client() as first, flooded.client("ann-2") as second, flooded.client("amy") as other:
        for client in (first, second) * 10:
            assert (await client.get("/v1/queues")).status_code == 200
        refused = await second.get("/v1/queues")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["field"] == "requests"
        assert (await other.get("/v1/queues")).status_code == 200
        flooded.time.advance(1)
        assert (await first.get("/v1/queues")).status_code == 200


async def test_a_member_cannot_fill_the_log_with_jobs() -> None:
    flooded = Flooded()
    async with flooded.client() as client:
        answers = [await client.post("/v1/jobs", json=SPEC) for _ in range(10)]
        assert [answer.status_code for answer in answers] == [201] * 5 + [429] * 5
        assert len(flooded.harness.log.jobs) == 5
        assert (await client.get("/v1/queues")).status_code == 200


async def test_every_job_of_a_batch_counts() -> None:
    flooded = Flooded()
    body = "\n".join(['{"name": "train", "team": "blue", "task_groups": [{"gpus": 1}]}'] * 4)
    async with flooded.client() as client:
        assert (await client.post("/v1/jobs/batch", content=body)).status_code == 200
        refused = await client.post("/v1/jobs/batch", content=body)
    assert (refused.status_code, refused.json()["field"], refused.headers["retry-after"]) == (429, "writes", "3")
    assert len(flooded.harness.log.jobs) == 4


async def test_a_large_job_counts_as_several() -> None:
    flooded = Flooded()
    large = f"{json.dumps(SPEC)}{' ' * 30_000}"
    async with flooded.client() as client:
        answers = [(await client.post("/v1/jobs", content=large)).status_code for _ in range(2)]
    assert answers == [201, 429]


async def test_changes_of_jobs_count_as_jobs_do() -> None:
    flooded = Flooded()
    async with flooded.client() as client:
        answers = [await client.request(method, "/v1/queues/blue") for method in ("PUT", "PATCH", "POST") * 2]
    assert [answer.status_code == 429 for answer in answers] == [False] * 5 + [True]


async def test_a_team_has_a_limit_that_its_members_share() -> None:
    flooded = Flooded()
    async with flooded.client() as ann, flooded.client("amy") as amy, flooded.client("bob") as bob:
        assert [(await ann.post("/v1/jobs", json=SPEC)).status_code for _ in range(5)] == [201] * 5
        answers = [await amy.post("/v1/jobs", json=SPEC) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [201] * 3 + [429]
        assert (answers[-1].json()["field"], answers[-1].headers["retry-after"]) == ("team-jobs", "1")
        assert (await bob.post("/v1/jobs", json=SPEC | {"team": "red"})).status_code == 201


async def test_a_job_that_is_sent_again_counts_once_for_its_team_and_is_found_above_the_limit() -> None:
    flooded = Flooded(FEW.model_copy(update={"writes_burst": 100, "requests_burst": 100}))
    async with flooded.client() as client:
        for _ in range(20):
            again = await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "one"})
            assert again.status_code in (200, 201)
        assert [(await client.post("/v1/jobs", json=SPEC)).status_code for _ in range(8)] == [201] * 7 + [429]
        found = await client.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "one"})
        assert (found.status_code, found.json()["id"]) == (200, again.json()["id"])


async def test_one_principal_cannot_hold_every_connection() -> None:
    flooded = Flooded()
    async with serving(flooded.app) as gateway:
        for _ in range(3):
            assert (await (await gateway.connect()).ask("/v1/events?follow=true", token="ann"))[0] == 200
        last = await gateway.connect()
        assert (await last.ask("/v1/events?follow=true", token="ann"))[0] == 429
        assert (await (await gateway.connect()).ask("/v1/me", token="amy"))[0] == 200


async def test_a_principal_is_told_its_limits_and_what_is_left() -> None:
    async with Flooded().client() as client:
        await client.post("/v1/jobs", json=SPEC)
        limits = {(row["what"], row["team"]): row for row in (await client.get("/v1/me")).json()["limits"]}
    assert limits["requests", ""] == {"what": "requests", "team": "", "per_min": 60, "burst": 20, "left": 18}
    assert limits["writes", ""]["left"] == 4
    assert limits["team-jobs", "blue"]["left"] == 7


@pytest.mark.parametrize("who", ["olga", "root"])
async def test_operators_and_admins_have_no_limits_unless_they_are_set(who: str) -> None:
    flooded = Flooded()
    async with flooded.client(who) as client:
        answers = await asyncio.gather(*(client.post("/v1/jobs", json=SPEC) for _ in range(300)))
        assert {answer.status_code for answer in answers} == {201}
        assert (await client.get("/v1/me")).json()["limits"] == []


TWICE = [
    ('{"name": "a", "team": "blue", "team": "red", "task_groups": [{"gpus": 1}]}', "team"),
    ('{"name": "a", "team": "blue", "task_groups": [{"gpus": 1, "gpus": 8}]}', "gpus"),
    ('{"name": "a", "te\\u0061m": "red", "team": "blue", "task_groups": [{"gpus": 1}]}', "team"),
]


@pytest.mark.parametrize(("body", "key"), TWICE)
async def test_a_key_that_is_given_twice_is_refused(body: str, key: str) -> None:
    harness = FakeHarness()
    async with harness.client() as client:
        refused = await client.post("/v1/jobs", content=body)
        assert (refused.status_code, refused.json()["field"]) == (422, key)
        in_a_batch = (await client.post("/v1/jobs/batch", content=body)).json()["answers"][0]
        assert (in_a_batch["status"], in_a_batch["problem"]["field"]) == (422, key)
    assert not harness.log.jobs
