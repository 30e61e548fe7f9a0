"""Lists, trails and live facts as the gateway reads them, over what the projector's sink wrote in a real Redis."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nats.aio.client import Client
from redis.asyncio import Redis

from kit.projector import Story, a_job
from kit.servers import redis_admin
from muster.bus.service import LeaderHandle
from muster.core.fact import Fact
from muster.core.instant import Instant
from muster.gateway.feed import Feed, Position
from muster.gateway.ports import JobFilter, UnreachableError
from muster.gateway.redis_view import RedisView
from muster.projector.core import FedProjectorCore, Projection, ProjectorCore
from muster.projector.sink import RedisSink
from muster.schemas.facts.reservation import Booked, BookingEnded, ReservationSpec
from muster.schemas.job import Phase
from muster.schemas.readmodel import ReadModel, read_model
from muster.schemas.subjects import FED_LOG, cluster_log
from muster.schemas.views import FactView, JobView, ReservationView

pytestmark = pytest.mark.connected

ATLAS = cluster_log("atlas")


class Written:
    """A projection and its sink."""

    def __init__(self, url: str, core: Projection, model: ReadModel) -> None:
        async def identity(_: Client) -> str:
            return model.scope

        self.core = core
        self.sink = RedisSink(redis_url=url, model=model, identity=identity)

    async def fold(self, facts: list[Fact]) -> None:
        for fact in facts:
            self.core.apply(fact)
        await self.sink.after_fold(facts, last_seq=self.core.last_seq, now=Instant(0))
        await self.sink.stored()


class Side:
    """Both projections, and the gateway's view of them."""

    def __init__(self, url: str) -> None:
        self.redis = Redis.from_url(url)
        self.log = Written(url, ProjectorCore("atlas"), read_model(ATLAS))
        self.fed = Written(url, FedProjectorCore(), read_model(FED_LOG))
        self.view = RedisView(self.redis, clusters=(read_model(ATLAS),), fed=read_model(FED_LOG))
        self.feed = Feed(self.redis, {log: read_model(log) for log in (ATLAS, FED_LOG)})

    async def open(self) -> None:
        for written in (self.log, self.fed):
            await written.sink.open(written.core, Client(), LeaderHandle())
            await written.sink.stored()

    async def close(self) -> None:
        await self.log.sink.close()
        await self.fed.sink.close()
        await self.redis.aclose()


@pytest.fixture
async def side(redis_url: str) -> AsyncIterator[Side]:
    side = Side(redis_url)
    await side.open()
    yield side
    await side.close()


def names(rows: tuple[bytes, ...]) -> list[str]:
    return [JobView.model_validate_json(row).name for row in rows]


async def test_a_job_is_shown_from_its_cluster_before_the_federation(side: Side) -> None:
    job = a_job(1)
    fed, log = Story("gateway"), Story()
    fed.submitted(job)
    await side.fed.fold(fed.facts)
    assert JobView.model_validate_json((await side.view.job(job.id)).row or b"").phase is Phase.SUBMITTED
    log.routed(job)
    log.queued(job)
    await side.log.fold(log.facts)
    known = await side.view.job(job.id)
    assert JobView.model_validate_json(known.row or b"").phase is Phase.QUEUED
    assert known.fed_seq == 1
    assert names((await side.view.jobs(JobFilter(), limit=10, cursor="")).rows) == ["job-1"]


@pytest.mark.parametrize("limit", [1, 10])
async def test_a_job_is_listed_once_though_an_import_stamped_its_submission_anew(side: Side, limit: int) -> None:
    job = a_job(1)
    fed, log = Story("gateway"), Story()
    fed.submitted(job)  # stamped 1, and the cluster was told 77 when it was routed
    log.routed(job.model_copy(update={"submitted_at": 77}))
    await side.fed.fold(fed.facts)
    await side.log.fold(log.facts)
    found, cursor = list[str](), ""
    for _ in range(3):
        page = await side.view.jobs(JobFilter(), limit=limit, cursor=cursor)
        found += names(page.rows)
        cursor = page.next_cursor
        if not cursor:
            break
    assert found == ["job-1"]


async def test_a_trail_is_told_by_time_with_each_fact_once(side: Side) -> None:
    job = a_job(1)
    fed, log = Story("gateway"), Story()
    fed.submitted(job)
    fed.routed(job)
    log.routed(job)
    log.queued(job)
    await side.fed.fold(fed.facts)
    await side.log.fold(log.facts)
    trail = [FactView.model_validate_json(body).name for body in await side.view.trail(job.id)]
    assert trail == ["submitted", "routed", "queued"]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fates=st.lists(st.sampled_from(["submitted", "queued", "running", "ended"]), max_size=12),
    teams=st.integers(1, 3),
    limit=st.integers(1, 5),
    wanted=st.sampled_from(
        [
            JobFilter(),
            JobFilter(team="t0"),
            JobFilter(queue="t1"),
            JobFilter(phase=Phase.QUEUED),
            JobFilter(phase=Phase.SUBMITTED),
            JobFilter(live_only=True),
            JobFilter(team="t0", phase=Phase.RUNNING),
            JobFilter(user="ann"),
            JobFilter(user="bob"),
            JobFilter(ended_only=True),
            JobFilter(ended_only=True, team="t0", user="ann", phase=Phase.SUCCEEDED),
            JobFilter(ended_only=True, phase=Phase.FAILED),
            JobFilter(ended_only=True, ended_from=11, ended_before=31),
        ]
    ),
)
async def test_pages_hold_every_wanted_job_once_and_newest_first(
    redis_url: str, fates: list[str], teams: int, limit: int, wanted: JobFilter
) -> None:
    async with Redis.from_url(redis_admin(redis_url)) as redis:
        await redis.flushall()
    side = Side(redis_url)
    await side.open()
    fed, log, expected = Story("gateway"), Story(), list[str]()
    for number, fate in enumerate(fates):
        job = a_job(number + 1, team=f"t{number % teams}")
        fed.submitted(job)
        if fate != "submitted":
            fed.routed(job)
            log.routed(job)
            log.queued(job)
        if fate in ("running", "ended"):
            log.placed(job)
            log.running(job)
        if fate == "ended":
            log.ended(job)
        phase = Phase.SUCCEEDED if fate == "ended" else Phase(fate)
        ended_at = len(log.facts) if fate == "ended" else 0
        fits = (
            wanted.user in ("", job.principal)
            and not (wanted.ended_only and not wanted.ended_from <= ended_at < (wanted.ended_before or 10_000))
            and not (wanted.ended_only and not ended_at)
            and wanted.team in ("", job.spec.team)
            and wanted.queue in ("", job.spec.team)
            and wanted.phase in (None, phase)
            and not (wanted.live_only and phase.is_terminal)
        )
        if fits:
            expected.append(job.spec.name)
    await side.fed.fold(fed.facts)
    await side.log.fold(log.facts)
    found, cursor = list[str](), ""
    while True:
        page = await side.view.jobs(wanted, limit=limit, cursor=cursor)
        assert len(page.rows) <= limit
        found += names(page.rows)
        cursor = page.next_cursor
        if not cursor:
            break
    await side.close()
    assert found == expected[::-1]


async def test_nodes_queues_and_shapes(side: Side) -> None:
    assert await side.view.shapes() == []
    story = Story()
    story.node("n1")
    story.queue("blue")
    spec = ReservationSpec(name="night", gpus=8, starts_at=1, duration_s=60)
    story.add("reservation", "night", "booked", Booked(spec=spec))
    await side.log.fold(story.facts)
    assert [len(await side.view.nodes()), len(await side.view.queues())] == [1, 1]
    (row,) = await side.view.reservations()
    assert ReservationView.model_validate_json(row).spec == spec
    story.add("reservation", "night", "ended", BookingEnded())
    await side.log.fold(story.facts[-1:])
    assert await side.view.reservations() == ()
    assert await side.view.shapes() == [("H100", 8, 8000, 8000, ())]


async def test_a_listener_gets_each_fact_once_from_any_position(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Redis where it is behind the memory, from memory else, over a restart of the gateway's feed."""
    monkeypatch.setattr("muster.gateway.feed.MEMORY_FACTS", 5)
    story = Story()
    for number in range(20):
        story.routed(a_job(number))
    await side.log.fold(story.facts[:10])
    reading = asyncio.create_task(side.feed.run())
    position: Position = {ATLAS.stream: 4}
    got: list[int] = []
    for start in range(10, 20, 2):
        await side.log.fold(story.facts[start : start + 2])
        while position[ATLAS.stream] < start + 2:
            version = side.feed.version
            facts = await side.feed.after(position)
            got += [fact.seq for fact in facts]
            if not facts:
                await side.feed.changed(since=version, timeout_s=5)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert got == list(range(5, 21))


async def test_a_view_without_redis_says_so() -> None:
    async with Redis.from_url("redis://127.0.0.1:1/0") as nowhere:
        view = RedisView(nowhere, clusters=(read_model(ATLAS),), fed=read_model(FED_LOG))
        with pytest.raises(UnreachableError):
            await view.job("A" * 26)
