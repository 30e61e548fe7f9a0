"""Advance reservations over HTTP: who may make and end them, what is stored, what is shown."""

import asyncio

import pytest

from kit.http.gateway import FakeHarness, lost_log
from muster.gateway.api import changes
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.queries import QueueCheckAnswer
from muster.schemas.views import ReservationView

BODY = {"name": "night", "gpus": 64, "gpu_model": "H100", "queue": "blue", "starts_at": 5, "duration_s": 3600}
SPEC = ReservationSpec.model_validate(BODY)
ROW = ReservationView(name="night", cluster="atlas", spec=SPEC)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.0)


@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("ann", 403), ("olga", 202), ("root", 202)])
async def test_who_may_reserve(who: str, status: int) -> None:
    harness = FakeHarness()
    async with harness.client(who) as client:
        assert (await client.post("/v1/reservations", json=BODY)).status_code == status
    stored = [(one.spec, one.principal) for one in harness.log.reservations.values()]
    assert stored == ([(SPEC, who)] if status == 202 else [])


@pytest.mark.parametrize(("who", "status"), [("ann", 403), ("olga", 202)])
async def test_who_may_end_a_reservation(who: str, status: int) -> None:
    harness = FakeHarness()
    harness.view.reservation_rows = [ROW]
    async with harness.client(who) as client:
        answer = await client.delete("/v1/reservations/night", params={"reason": "firmware is done"})
    assert answer.status_code == status
    ends = [(name, one.principal, one.reason) for name, one in harness.log.reservation_ends]
    assert ends == ([("night", "olga", "firmware is done")] if status == 202 else [])


async def test_a_booked_reservation_is_answered_as_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 5.0)
    harness = FakeHarness()
    async with harness.client("olga") as client, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(client.post("/v1/reservations", json=BODY))
        while not harness.log.reservations:  # noqa: ASYNC110 - turns of the loop, no time passes
            await asyncio.sleep(0)
        harness.view.reservation_rows = [ROW]
    assert (asked.result().status_code, asked.result().json()["active"]) == (200, True)


async def test_a_reservation_is_over_when_nobody_shows_it_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 5.0)
    harness = FakeHarness()
    harness.view.reservation_rows = [ROW]
    async with harness.client("olga") as client, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(client.delete("/v1/reservations/night"))
        while not harness.log.reservation_ends:  # noqa: ASYNC110 - turns of the loop, no time passes
            await asyncio.sleep(0)
        harness.view.reservation_rows = []
    assert (asked.result().status_code, asked.result().json()["name"]) == (200, "night")


async def test_what_is_not_booked_cannot_be_ended() -> None:
    async with FakeHarness().client("olga") as client:
        answer = await client.delete("/v1/reservations/night")
    assert (answer.status_code, answer.json()["field"]) == (404, "reservation")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"gpus": 0}, "nodes"),
        ({"job_id": "A" * 26}, "queue"),
        ({"duration_s": 0}, "duration_s"),
        ({"repeat": "daily"}, "repeat"),
        ({"repeat": "weekly", "duration_s": 700_000}, "duration_s"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_reservation_that_makes_no_sense_names_its_field(change: dict[str, object], field: str) -> None:
    harness = FakeHarness()
    async with harness.client("olga") as client:
        answer = await client.post("/v1/reservations", json={**BODY, **change})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert harness.log.reservations == {}


async def test_what_the_scheduler_would_refuse_is_refused_with_its_field() -> None:
    harness = FakeHarness()
    harness.scheduler.check = QueueCheckAnswer(field="nodes", reason="there is no node gpu-9")
    async with harness.client("olga") as client:
        answer = await client.post("/v1/reservations", json=BODY)
    assert (answer.status_code, answer.json()["field"]) == (422, "nodes")
    assert harness.log.reservations == {}


async def test_with_the_scheduler_away_a_request_is_stored_and_the_read_model_shows_what_is_booked() -> None:
    harness = FakeHarness()
    harness.scheduler.is_down = True
    harness.view.reservation_rows = [ROW]
    async with harness.client("olga") as client:
        assert (await client.post("/v1/reservations", json={**BODY, "gpus": 8})).status_code == 202
        (shown,) = (await client.get("/v1/reservations")).json()["reservations"]
    assert (shown["name"], shown["active"]) == ("night", False)


async def test_a_request_that_was_not_stored_is_503() -> None:
    harness = FakeHarness()
    harness.log.fails = lost_log()
    async with harness.client("olga") as client:
        assert (await client.post("/v1/reservations", json=BODY)).status_code == 503


async def test_the_same_key_is_the_same_request_and_without_one_each_is_new() -> None:
    harness = FakeHarness()
    async with harness.client("olga") as client:
        for _ in range(2):
            await client.post("/v1/reservations", json=BODY, headers={"Idempotency-Key": "k"})
        assert len(harness.log.reservations) == 1
        for _ in range(2):
            await client.post("/v1/reservations", json=BODY)
        bad = await client.post("/v1/reservations", json=BODY, headers={"Idempotency-Key": "two words"})
    assert len(harness.log.reservations) == 3
    assert (bad.status_code, bad.json()["field"]) == (422, "Idempotency-Key")
