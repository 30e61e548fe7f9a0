"""Attacks of a cell on how jobs of another cluster are shown: it writes what it likes about them into its own log.

The broker, the read model's Redis and the projector are real; the gateway's read side is the gateway's own. The cell is
CELL; VICTIM has the jobs. At a centre the cell's log is a copy of what the cell's own broker holds, whatever that is:
here it is written with a credential that may write anything.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace

import pytest
import pytest_asyncio
from nats.aio.msg import Msg
from redis.asyncio import Redis

from kit.http.gateway import FakeHarness
from kit.servers import CLUSTER as CELL
from kit.servers import DECLARATIONS, NatsServer, RedisServer, running_nats, running_redis
from kit.stack.hosted import HostedServices
from kit.waiting import until_async
from muster.bus.clock import SystemTime
from muster.bus.declaration import Declaration
from muster.bus.federation_settings import FederationSettings
from muster.bus.jsapi import last_on_subject
from muster.bus.requests import append_single
from muster.bus.streams import bootstrap
from muster.core import Draft
from muster.federation import app as federation
from muster.gateway.api.events import JobFacts
from muster.gateway.cells import Cell, nats_schedulers
from muster.gateway.feed import Feed
from muster.gateway.http import make_app
from muster.gateway.ports import JobFilter, UnreachableError
from muster.gateway.problems import ProblemError
from muster.gateway.redis_view import RedisView
from muster.gateway.snapshot import Snapshots
from muster.gateway.views import Views
from muster.projector import app as projector
from muster.schemas.base import Payload, Wire
from muster.schemas.facts.job import JobEnded, JobFinished, JobPlaced, JobQueued, JobRouted, JobRunning, JobSubmitted
from muster.schemas.ids import job_id, request_fact_id, trace_id, traceparent
from muster.schemas.job import Job, JobSpec, Phase, Slot, TaskGroup
from muster.schemas.live import Snapshot
from muster.schemas.members import AssignmentView
from muster.schemas.queries import JobAnswer, WhyAnswer
from muster.schemas.readmodel import read_model
from muster.schemas.subjects import FED_LOG, LogName, cluster_log, fact_subject, query_subject
from muster.schemas.views import FactView, JobView, job_view

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

VICTIM = "bravo"
RED, BLUE = "red", "blue"
"""The attacker's team, and the team whose jobs these are."""
_NUMBERS = itertools.count(1)
_DECLARED = {
    **{one.service: one for one in DECLARATIONS},
    "projector": projector.DECLARATION,
    "federation": federation.DECLARATION,
}
DECLARED: tuple[Declaration, ...] = tuple(_DECLARED.values())
LOGS = (cluster_log(CELL), cluster_log(VICTIM), FED_LOG)
MODELS = {name: read_model(cluster_log(name)) for name in (CELL, VICTIM)}
FED = read_model(FED_LOG)


def a_job(name: str) -> Job:
    ident = job_id(team=BLUE, principal="ann", idempotency_key=name)
    spec = JobSpec(name=name, team=BLUE, task_groups=(TaskGroup(gpus=1),))
    trace = traceparent(trace_id(ident), "1" * 16)
    return Job(id=ident, spec=spec, principal="ann", idempotency_key=name, body_hash="", trace=trace, submitted_at=5)


@dataclass
class Centre(HostedServices):
    """The logs of two clusters and of the federation, and who shows them."""

    redis_url: str = ""
    newest: dict[str, int] = field(default_factory=dict)

    async def start(self) -> None:
        connection = await self.server.connect("bootstrap")
        for cluster in (CELL, VICTIM):
            await bootstrap(connection, self.settings.model_copy(update={"cluster": cluster}))
        await connection.close()
        members = FederationSettings.model_validate({"clusters": [{"name": CELL}, {"name": VICTIM}]})
        centre = self.settings.model_copy(update={"role": "centre", "federation": members})
        await self.host(*projector.services(centre.model_copy(update={"redis_url": self.redis_url})))
        self.redis = Redis.from_url(self.redis_url)
        self.view = self.view_of(*MODELS)
        self.snapshots = Snapshots(self.redis, clusters=MODELS, fed=FED, time=SystemTime())

    def view_of(self, *clusters: str) -> RedisView:
        """The read side of these clusters, as the gateway makes it."""
        models = tuple(MODELS[name] for name in clusters)
        return RedisView(self.redis, clusters=models, fed=FED, has_others=len(models) < len(MODELS))

    async def say(self, log: LogName, writer: str, job: Job, name: str, payload: Payload, *, cluster: str = "") -> None:
        fact_id = request_fact_id("display", str(next(_NUMBERS)))
        draft = Draft("job", job.id, name, payload, trace=job.trace, cluster=cluster)
        stored = await append_single(
            await self.client("admin-tools"), log, service=writer, draft=draft, fact_id=fact_id
        )
        assert stored.seq, stored
        self.newest[log.stream] = stored.seq

    async def submit(self, job: Job) -> None:
        await self.say(FED_LOG, "gateway", job, "submitted", JobSubmitted(job=job))

    async def route(self, job: Job, *, to: str = VICTIM) -> None:
        """The federation gives it to a cluster, whose log takes the fact from FED."""
        await self.say(FED_LOG, "federation", job, "routed", JobRouted(job=job, cluster=to), cluster=to)
        reader, log = await self.client("reader"), cluster_log(to)
        subject = fact_subject(log, writer="federation", kind="job", subject_id=job.id, name="routed")
        await until_async(lambda: last_on_subject(reader, log.stream, subject))

    async def run(self, job: Job, log: LogName, *, node: str) -> None:
        """A cluster tells that it runs the job."""
        slots = (Slot(group=0, replica=0, node=node, devices=(0,)),)
        await self.say(log, "scheduler", job, "queued", JobQueued(queue=job.spec.queue_name, attempt=1))
        await self.say(log, "scheduler", job, "placed", JobPlaced(attempt=1, slots=slots))
        await self.say(log, "scheduler", job, "running", JobRunning(attempt=1))

    async def end_job(self, job: Job) -> None:
        """The job's own cluster and the federation tell its end."""
        await self.say(cluster_log(VICTIM), "scheduler", job, "succeeded", JobFinished(attempt=1))
        ended = JobEnded(cluster=VICTIM, phase=Phase.SUCCEEDED, ended_at=9)
        await self.say(FED_LOG, "federation", job, "job-ended", ended)

    async def attack(self, job: Job, *, ends_as: str = "") -> None:
        """The cell tells the job's whole life as that of a job of its own: another name, team and owner."""
        spec = job.spec.model_copy(update={"name": "stolen", "team": RED})
        forged = job.model_copy(update={"spec": spec, "principal": "bob"})
        log = cluster_log(CELL)
        await self.say(log, "federation", forged, "routed", JobRouted(job=forged, cluster=CELL))
        await self.run(forged, log, node="cell-node")
        if ends_as:
            await self.say(log, "scheduler", forged, ends_as, JobFinished(attempt=1))

    async def shown(self) -> None:
        """Until the read model holds all that was said."""

        async def holds() -> bool:
            for log in LOGS:
                seq = await self.redis.execute_command("HGET", read_model(log).key("marker"), "seq")  # type: ignore[no-untyped-call]
                if int(seq or -1) < self.newest.get(log.stream, 0):
                    return False
            return True

        await until_async(holds)

    async def row(self, job: Job) -> JobView:
        found = (await self.view.job(job.id)).row
        assert found is not None
        return JobView.model_validate_json(found)

    async def listed(self, wanted: JobFilter) -> list[tuple[str, str]]:
        """Id and name of every job of a list, page by page."""
        found, cursor = list[tuple[str, str]](), ""
        while True:
            page = await self.view.jobs(wanted, limit=3, cursor=cursor)
            found += [(row.id, row.name) for row in map(JobView.model_validate_json, page.rows)]
            cursor = page.next_cursor
            if not cursor:
                return found

    async def snapshot(self) -> Snapshot:
        return Snapshot.model_validate_json((await self.snapshots.image()).whole(("*",)))

    async def answer(self, user: str, cluster: str, name: str, said: Wire) -> None:
        """Whoever has this credential answers a question so, whatever it is asked about."""
        client = await self.client(user)

        async def respond(message: Msg) -> None:
            await message.respond(said.model_dump_json().encode())

        await client.subscribe(query_subject(cluster, user, name), cb=respond)
        await client.flush()


@pytest.fixture(scope="module")
def broker() -> Iterator[NatsServer]:
    with running_nats(declarations=DECLARED, clusters=(CELL, VICTIM)) as server:
        yield server


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def centre(broker: NatsServer, redis: RedisServer) -> AsyncIterator[Centre]:
    made = Centre(broker, redis_url=redis.url)
    await made.start()
    yield made
    await made.end()
    await made.redis.aclose()


def is_own(view: JobView, job: Job) -> bool:
    """Whether the row is the job's, as its own cluster and the federation tell it."""
    return (view.name, view.team, view.principal) == (job.spec.name, BLUE, "ann") and view.cluster in ("", VICTIM)


@pytest.mark.parametrize("ends_as", ["", "failed"])
async def test_it_changes_no_row_of_a_job_that_has_ended_in_another_cluster(centre: Centre, ends_as: str) -> None:
    job = a_job(f"ended{ends_as}")
    await centre.submit(job)
    await centre.route(job)
    await centre.run(job, cluster_log(VICTIM), node="victim-node")
    await centre.end_job(job)
    await centre.attack(job, ends_as=ends_as)
    await centre.shown()
    row = await centre.row(job)
    assert is_own(row, job)
    assert (row.phase, row.nodes) == (Phase.SUCCEEDED, ("victim-node",))


async def test_it_takes_no_job_that_no_cluster_was_given_yet(centre: Centre) -> None:
    job = a_job("waits")
    await centre.submit(job)
    await centre.attack(job)
    await centre.shown()
    row = await centre.row(job)
    assert is_own(row, job)
    assert (row.phase, row.nodes) == (Phase.SUBMITTED, ())


async def test_lists_have_each_job_once_and_as_its_own_cluster_tells_it(centre: Centre) -> None:
    jobs = [a_job(f"listed-{number}") for number in range(3)]
    for job in jobs:
        await centre.submit(job)
        await centre.route(job)
        await centre.run(job, cluster_log(VICTIM), node="victim-node")
    await centre.end_job(jobs[0])
    for job in jobs:
        await centre.attack(job.model_copy(update={"submitted_at": 77}))  # it stands elsewhere in the cell's lists
    await centre.shown()
    listed = await centre.listed(JobFilter(team=BLUE))
    assert [listed.count((job.id, job.spec.name)) for job in jobs] == [1, 1, 1]
    assert not {job.id for job in jobs} & {ident for ident, _ in await centre.listed(JobFilter(team=RED))}
    running = [ident for ident, _ in await centre.listed(JobFilter(phase=Phase.RUNNING))]
    assert [running.count(job.id) for job in jobs] == [0, 1, 1]


async def test_a_snapshot_of_the_live_view_shows_no_row_that_it_makes_up(centre: Centre) -> None:
    ended, live, waiting = a_job("snapshot-ended"), a_job("snapshot-live"), a_job("snapshot-waiting")
    for job in (ended, live, waiting):
        await centre.submit(job)
    for job in (ended, live):
        await centre.route(job)
        await centre.run(job, cluster_log(VICTIM), node="victim-node")
    await centre.end_job(ended)
    for job in (ended, live, waiting):
        await centre.attack(job)
    await centre.shown()
    snapshot = await centre.snapshot()
    rows = {row.id: row for row in snapshot.jobs}
    assert ended.id not in rows
    assert [is_own(rows[job.id], job) for job in (live, waiting)] == [True, True]
    assert [row.id for row in snapshot.jobs] == [*rows], "each once"
    forged = {row.id for row in snapshot.unconfirmed_jobs if row.cluster == CELL}
    assert {live.id, waiting.id} <= forged, "kept apart, for when the federation gives the job to the cell"


async def test_a_snapshot_still_shows_the_jobs_that_it_was_given_and_those_that_are_ending(centre: Centre) -> None:
    """The federation may know of an end before the cluster's log tells it."""
    own, ends = a_job("own-of-the-cell"), a_job("ends-first-in-fed")
    await centre.submit(own)
    await centre.route(own, to=CELL)
    await centre.run(own, cluster_log(CELL), node="cell-node")
    await centre.submit(ends)
    await centre.route(ends)
    await centre.run(ends, cluster_log(VICTIM), node="victim-node")
    await centre.say(FED_LOG, "federation", ends, "job-ended", JobEnded(cluster=VICTIM, phase=Phase.FAILED, ended_at=9))
    await centre.shown()
    rows = {row.id: row for row in (await centre.snapshot()).jobs}
    assert (rows[own.id].cluster, rows[own.id].phase) == (CELL, Phase.RUNNING)
    assert (rows[ends.id].cluster, rows[ends.id].phase) == (VICTIM, Phase.RUNNING)


async def test_its_facts_about_a_job_of_another_cluster_are_not_among_the_jobs_facts(centre: Centre) -> None:
    job = a_job("trail")
    await centre.submit(job)
    await centre.route(job)
    await centre.run(job, cluster_log(VICTIM), node="victim-node")
    feed = Feed(centre.redis, {log: read_model(log) for log in LOGS})
    following = asyncio.create_task(feed.run())
    await until_async(lambda: _has_begun(feed))
    facts = JobFacts(feed, centre.view, job.id, time=SystemTime(), told={})
    position = feed.position()
    await centre.attack(job, ends_as="failed")
    await centre.end_job(job)
    await centre.shown()
    trail = [FactView.model_validate_json(body) for body in await centre.view.trail(job.id)]
    assert {fact.stream for fact in trail} == {FED_LOG.stream, cluster_log(VICTIM).stream}
    assert [fact.name for fact in trail if fact.name in ("succeeded", "failed")] == ["succeeded"]
    told = list[FactView]()
    async with asyncio.timeout(20):
        while not any(fact.name == "succeeded" for fact in told):
            version = feed.version
            told += [fact.view for fact in await facts.after(position)]
            await facts.changed(since=version, timeout_s=1)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert cluster_log(CELL).stream not in {fact.stream for fact in told}


async def _has_begun(feed: Feed) -> bool:
    try:
        feed.position()
    except ProblemError:
        return False
    return True


async def test_whoever_names_it_in_a_request_cancels_no_job_of_another_cluster(centre: Centre) -> None:
    """`bob` submits for the team that the cell says the job is of."""
    job = a_job("cancelled-by-bob")
    await centre.submit(job)
    await centre.route(job)
    await centre.run(job, cluster_log(VICTIM), node="victim-node")
    await centre.attack(job)
    await centre.shown()
    fake = FakeHarness()
    harness = fake.harness
    each, _ = nats_schedulers((CELL, VICTIM), await centre.client("gateway-query"), asked_as=CELL)
    cell = Cell(
        CELL, centre.view_of(CELL), each[CELL], harness.composer, harness.scaler, harness.guard, harness.leaders
    )
    views = Views(centre.view, harness.scheduler, harness.log, harness.time)
    fake.app = make_app(replace(harness, view=centre.view, views=views, cells={CELL: cell}, cluster=CELL))
    for path in (f"/v1/jobs/{job.id}", f"/v1/jobs/{job.id}?cluster={CELL}"):
        async with fake.client("bob") as client:
            assert (await client.delete(path)).status_code == 403
            assert (await client.get(path)).json()["team"] == BLUE
    assert fake.log.cancels == []


async def test_its_scheduler_answers_for_no_job_of_another_cluster(centre: Centre) -> None:
    """These answers count while the read model is away, also for who may cancel the job."""
    job = a_job("asked")
    forged = job_view(job).model_copy(update={"team": RED, "cluster": CELL, "phase": Phase.RUNNING})
    await centre.answer("scheduler", CELL, "job", JobAnswer(job=forged))
    await centre.answer("scheduler", CELL, "why", WhyAnswer(job=forged, reason="made up"))
    await centre.answer("federation", CELL, "assignment", AssignmentView(known=True, cluster=VICTIM, assignment=1))
    each, whole = nats_schedulers((CELL, VICTIM), await centre.client("gateway-query"), asked_as=CELL)
    assert await each[CELL].job(job.id) is None
    assert (await each[CELL].why(job.id)).job is None
    with pytest.raises(UnreachableError):  # the victim's own scheduler is not there to be asked
        await whole.job(job.id)
