"""The gateway's hold on a real NATS, with exactly the rights that it declares."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from nats.aio.client import Client

from kit.servers import CLUSTER, DECLARATIONS, NatsServer, running_nats
from kit.waiting import until, until_async
from muster.bus.settings import BusSettings, Settings
from muster.bus.streams import bootstrap
from muster.core import Draft
from muster.gateway.accept import make_job
from muster.gateway.declaration import DECLARATION
from muster.gateway.ports import JobRequest, NotStoredError, UnreachableError
from muster.gateway.request_log import NatsRequestLog
from muster.gateway.tokens import NatsTokens
from muster.schemas.access import Role, TokenRecord, token_hash
from muster.schemas.devices import ComposabilitySpec
from muster.schemas.facts.composability import ComposeRequested, DecomposeRequested, DetachRequested
from muster.schemas.facts.job import JobCancelRequested
from muster.schemas.facts.job_requests import Ask, JobEditRequested, JobHoldRequested, JobPriorityRequested
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.facts.reservation import ReservationSpec, ReserveEndRequested, ReserveRequested
from muster.schemas.job import Job, JobSpec, TaskGroup
from muster.schemas.views import job_view

pytestmark = pytest.mark.connected

FED_BYTES = 256 * 1024
HEARTBEATS_S = 8.0
"""Sooner than the client library notices by itself that its consumer is gone: two heartbeats of 5 s."""


@dataclass
class Door:
    """A gateway's connections to a bootstrapped bus."""

    server: NatsServer
    client: Client
    log: NatsRequestLog


@pytest.fixture
def server() -> Iterator[NatsServer]:
    others = [declaration for declaration in DECLARATIONS if declaration.service != "gateway"]
    with running_nats(declarations=[DECLARATION, *others]) as server:
        yield server


@pytest.fixture
async def door(server: NatsServer, tmp_path: Path) -> AsyncIterator[Door]:
    maker = await server.connect("bootstrap")
    limits = BusSettings(fed_bytes_max=FED_BYTES)
    await bootstrap(maker, Settings(state_dir=tmp_path, credentials_dir=tmp_path, cluster=CLUSTER, bus=limits))
    await maker.close()
    client = await server.connect("gateway")
    yield Door(server, client, NatsRequestLog(client))
    await client.close()


def a_job(key: str = "k", *, name: str = "train", filler: str = "") -> Job:
    spec = JobSpec(name=name, team="blue", task_groups=(TaskGroup(gpus=1),), command=(filler,))
    return make_job(spec, principal="ann", key=key, traceparent="")


async def test_a_job_is_stored_once_and_given_back_as_it_was_stored(door: Door) -> None:
    job = a_job()
    first = await door.log.submit(job)
    again = await door.log.submit(job)
    other = await door.log.submit(a_job(name="other"))
    assert (first.is_new, again.is_new, other.is_new) == (True, False, False)
    assert first.seq == again.seq == other.seq
    assert other.job == job
    assert again.submitted_at > 0


async def test_two_gateways_with_the_same_request_store_it_once(door: Door) -> None:
    client = await door.server.connect("gateway")
    job = a_job()
    stored = await asyncio.gather(*(log.submit(job) for log in (door.log, NatsRequestLog(client)) for _ in range(5)))
    await client.close()
    assert sum(one.is_new for one in stored) <= 1
    assert len({one.seq for one in stored}) == 1


async def test_what_was_never_submitted_is_none(door: Door) -> None:
    assert await door.log.submitted(a_job().id) is None


async def test_requests_are_stored(door: Door) -> None:
    job = a_job()
    await door.log.submit(job)
    await door.log.request_cancel(job_view(job), JobCancelRequested(principal="ann"))
    await door.log.request_cancel(job_view(job), JobCancelRequested(principal="ann"))
    change = QueueChangeRequested(spec=QueueSpec(name="blue"), principal="olga")
    await door.log.request(Draft("queue", "blue", "change-requested", change), key="1")
    info = await door.client.jetstream().stream_info("FED")
    assert info.state.messages == 3, "a cancellation asked for twice is stored once"


async def test_what_is_asked_of_a_job_is_stored_once_for_each_key(door: Door) -> None:
    job = a_job()
    await door.log.submit(job)
    hold = JobHoldRequested(principal="ann")
    for key in ("1", "1", "2"):
        for asked in (JobRequest(Ask.HOLD, hold), JobRequest(Ask.RELEASE, hold)):
            await door.log.request_of_job(job_view(job), asked, key=key)
        wanted = JobPriorityRequested(principal="ann", priority=90)
        await door.log.request_of_job(job_view(job), JobRequest(Ask.PRIORITY, wanted), key=key)
        await door.log.request_of_job(job_view(job), JobRequest("requeue", hold), key=key)
        edit = JobEditRequested(principal="ann", min_slice_s=60.0)
        await door.log.request_of_job(job_view(job), JobRequest("edit", edit), key=key)
    info = await door.client.jetstream().stream_info("FED", subjects_filter=">")
    stored = {subject.rsplit(".", 1)[1]: n for subject, n in (info.state.subjects or {}).items()}
    asked = ("hold", "release", "priority", "requeue", "edit")
    assert stored == {"submitted": 1, **{f"{ask}-requested": 2 for ask in asked}}


async def test_a_key_that_is_used_again_for_another_priority_asks_for_that_one(door: Door) -> None:
    job = a_job()
    await door.log.submit(job)
    for priority in (90, 90, 10):
        wanted = JobPriorityRequested(principal="ann", priority=priority)
        await door.log.request_of_job(job_view(job), JobRequest(Ask.PRIORITY, wanted), key="nightly")
    info = await door.client.jetstream().stream_info("FED")
    assert info.state.messages == 3


async def test_reservations_and_their_ends_are_stored_once_for_each_key(door: Door) -> None:
    spec = ReservationSpec(name="night", gpus=8, starts_at=1, duration_s=60)
    for key in ("1", "1", "2"):
        asked = ReserveRequested(spec=spec, principal="olga")
        await door.log.request(Draft("reservation", "night", "reserve-requested", asked), key=key)
        ended = ReserveEndRequested(principal="olga")
        await door.log.request(Draft("reservation", "night", "end-requested", ended), key=key)
    info = await door.client.jetstream().stream_info("FED")
    assert info.state.messages == 4


async def test_what_is_asked_of_devices_is_stored_once_for_each_key(door: Door) -> None:
    trace = f"00-{'ab' * 16}-{'cd' * 8}-01"
    spec = ComposabilitySpec(model="H100", size=2)
    for key in ("1", "1", "2"):
        asked = ComposeRequested(spec=spec, principal="olga", may_force=True)
        for kind, name, verb, payload in (
            ("composability", "r1", "compose", asked),
            ("composability", "r1", "decompose", DecomposeRequested(principal="olga")),
            ("device", "GPU-6f1c", "detach", DetachRequested(principal="olga")),
        ):
            await door.log.request(Draft(kind, name, f"{verb}-requested", payload, trace=trace), key=key)
    info = await door.client.jetstream().stream_info("FED")
    assert info.state.messages == 6
    more = ComposeRequested(spec=ComposabilitySpec(model="H100", size=3), principal="olga", may_force=True)
    await door.log.request(Draft("composability", "r1", "compose-requested", more, trace=trace), key="1")
    info = await door.client.jetstream().stream_info("FED")
    assert info.state.messages == 7, "what is wanted now is never taken for what was wanted before"


async def test_a_full_log_takes_nothing_and_keeps_what_it_acknowledged(door: Door) -> None:
    accepted: list[Job] = []

    async def fill() -> None:
        for number in range(1_000):
            job = a_job(str(number), filler="x" * 1_000)
            await door.log.submit(job)
            accepted.append(job)

    with pytest.raises(NotStoredError, match="full"):
        await fill()
    assert len(accepted) > 50
    for job in (accepted[0], accepted[-1]):
        assert (await door.log.submit(job)).is_new is False


async def test_a_stopped_bus_is_told_and_a_retry_after_it_is_the_same_job(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("APPEND_TIMEOUT_S", "LOOKUP_TIMEOUT_S"):
        monkeypatch.setattr(f"muster.gateway.request_log.{name}", 0.2)
    job = a_job()
    stored = await door.log.submit(job)
    door.server.kill()
    with pytest.raises(NotStoredError):
        await door.log.submit(job)
    with pytest.raises(UnreachableError):
        await door.log.submitted(job.id)
    door.server.start()
    client = await door.server.connect("gateway")
    again = await NatsRequestLog(client).submit(job)
    await client.close()
    assert (again.is_new, again.seq) == (False, stored.seq)


async def test_a_token_made_by_one_gateway_is_known_to_the_other_until_it_is_revoked(door: Door) -> None:
    client = await door.server.connect("gateway")
    one, other = NatsTokens(door.client), NatsTokens(client)
    watching = asyncio.create_task(other.watch())
    made = await one.put("secret", TokenRecord(principal="new", role=Role.OPERATOR))
    await until(lambda: other.is_ready and other.principal(token_hash("secret")))
    assert await one.delete(made.id)
    await until(lambda: other.principal(token_hash("secret")) is None)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    await client.close()
    assert one.principal(token_hash("secret")) is None


async def test_a_token_is_revoked_although_the_broker_started_again_and_forgot_who_watches(door: Door) -> None:
    patient = {"allow_reconnect": True, "reconnect_time_wait": 0.05, "max_reconnect_attempts": -1}
    clients = [await door.server.connect("gateway", **patient) for _ in range(2)]
    one, other = NatsTokens(clients[0]), NatsTokens(clients[1], silent_s=0.2)
    watching = asyncio.create_task(other.watch())
    made = await one.put("secret", TokenRecord(principal="new", role=Role.OPERATOR))
    await until(lambda: other.is_ready and other.principal(token_hash("secret")))
    door.server.kill()
    door.server.start()
    await until(lambda: all(client.is_connected for client in clients))
    await until_async(lambda: _deleted(one, made.id))
    await until(lambda: other.principal(token_hash("secret")) is None, patience_s=HEARTBEATS_S)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    for client in clients:
        await client.close()


async def _deleted(tokens: NatsTokens, token_id: str) -> bool:
    """False while the broker that started again does not answer yet."""
    try:
        return await tokens.delete(token_id)
    except UnreachableError:
        return False
