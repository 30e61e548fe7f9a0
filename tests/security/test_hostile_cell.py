"""Attacks of a cell: who holds its agent's credential writes what it likes into its log, and the gateway answers.

The broker, the agent's credential, the consumer and the federation's log are real; the cell is CELL, VICTIM another.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from nats.aio.client import Client

from kit.http.gateway import FakeHarness
from kit.servers import CLUSTER as CELL
from kit.servers import DECLARATIONS, NatsServer, running_nats
from kit.waiting import until
from muster.bus.decode import Decoder
from muster.bus.requests import Outcome, append_single
from muster.bus.settings import Settings
from muster.bus.streams import bootstrap
from muster.core import Draft, Fact
from muster.core.instant import Instant
from muster.core.virtual import VirtualCluster, recover
from muster.federation.core import FederationCore, MemberPlan
from muster.gateway.accept import make_job
from muster.gateway.app import DECLARATION
from muster.gateway.request_log import NatsRequestLog
from muster.gateway.workloads import Answer, Authority, Workloads
from muster.schemas import ids
from muster.schemas.base import Payload
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job import JobSubmitted
from muster.schemas.facts.workload import JobRefused, WorkloadCancelRequested, WorkloadSubmitRequested
from muster.schemas.job import Job, JobSpec, PodOptions, TaskGroup, WorkloadRef
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import FED_LOG, cluster_log
from muster.schemas.views import QueueView

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

VICTIM = "bravo"
LAB = "lab"
"""The one namespace of the cell that acts for a team, RED."""
RED, BLUE = "red", "blue"
_UIDS = itertools.count(1)


class Cell:
    """The attacker: the bus credential of the cell's agent, and no other."""

    def __init__(self, agent: Client, reader: Client, gateway: Client, harness: FakeHarness) -> None:
        self._agent = agent
        self._reader = reader
        self._gateway = gateway
        self._metric = harness.harness.metrics.workloads
        self._asked = 0

    async def say(self, uid: str, name: str, payload: Payload) -> None:
        """Write a wish into the cell's log, and wait until the gateway has answered it."""
        draft = Draft("workload", uid, name, payload)
        stored = await append_single(
            self._agent, cluster_log(CELL), service="agent", draft=draft, fact_id=f"wish-{next(_UIDS)}"
        )
        assert stored.outcome is Outcome.STORED, "the agent may write wishes"
        self._asked += 1
        await until(lambda: self._count() == self._asked)

    async def submit(self, request: WorkloadSubmitRequested, *, uid: str = "") -> list[Fact]:
        """The facts that the federation's log has for this wish. uid: of the subject, if not the origin's."""
        before = await self.fed()
        await self.say(uid or request.origin.uid, "submit-requested", request)
        return (await self.fed())[len(before) :]

    async def cancel(self, uid: str, job_id: str, *, principal: str = f"kubernetes:{LAB}") -> list[Fact]:
        """The same of a cancellation."""
        before = await self.fed()
        await self.say(uid, "cancel-requested", WorkloadCancelRequested(job_id=job_id, principal=principal))
        return (await self.fed())[len(before) :]

    async def fed(self) -> list[Fact]:
        """Every fact of FED."""
        js, decoder = self._reader.jetstream(), Decoder(FED_LOG)
        last = (await js.stream_info(FED_LOG.stream)).state.last_seq
        messages = [await js.get_msg(FED_LOG.stream, seq) for seq in range(1, last + 1)]
        found = [
            decoder.decode(m.subject or "", m.headers, m.data or b"", seq=m.seq or 0, time=Instant(1)) for m in messages
        ]
        return [one for one in found if isinstance(one, Fact)]

    async def plant(self, job: Job) -> Job:
        """A job of somebody else, which FED has."""
        await NatsRequestLog(self._gateway).submit(job)
        return job

    def count(self, answer: Answer) -> float:
        """As the gateway's metric tells."""
        return float(self._metric.labels(answer.value)._value.get())

    def _count(self) -> int:
        return int(sum(self.count(answer) for answer in Answer))


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    others = tuple(one for one in DECLARATIONS if one.service != "gateway")
    with running_nats(declarations=(DECLARATION, *others)) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cell(server: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cell]:
    directory: Path = tmp_path_factory.mktemp("cell")
    settings = Settings(state_dir=directory, credentials_dir=server.credentials_dir, cluster=CELL)
    admin, agent, gateway, reader = [await server.connect(user) for user in ("bootstrap", "agent", "gateway", "reader")]
    await bootstrap(admin, settings)
    harness = FakeHarness()
    harness.view.queue_rows.append(QueueView(name=RED, cluster=CELL))
    whole = replace(harness.harness, log=NatsRequestLog(gateway))
    requests = Workloads(gateway, cluster_log(CELL), whole, Authority(CELL, {LAB: RED}))
    answering = asyncio.create_task(requests.run())
    yield Cell(agent, reader, gateway, harness)
    answering.cancel()
    await asyncio.gather(answering, return_exceptions=True)
    for client in (admin, agent, gateway, reader):
        await client.close()


def origin(*, cluster: str = CELL, namespace: str = LAB, uid: str = "") -> WorkloadRef:
    """An object, by default one of the cell that nobody else has named."""
    return WorkloadRef(
        cluster=cluster,
        api_version="muster.dev/v1alpha1",
        kind="MusterJob",
        namespace=namespace,
        name="train",
        uid=uid or f"uid-{next(_UIDS)}",
    )


def request_of(one: WorkloadRef, *, team: str = RED, principal: str = "", job_id: str = "") -> WorkloadSubmitRequested:
    """As an honest agent of the origin's cluster would write it, but for what is given."""
    service_account = PodOptions(service_account="admin")
    spec = JobSpec(name="train", team=team, task_groups=(TaskGroup(gpus=1),), pod=service_account)
    own = ids.origin_job_id(team=team, cluster=one.cluster, namespace=one.namespace, uid=one.uid)
    return WorkloadSubmitRequested(
        job_id=job_id or own, spec=spec, principal=principal or f"kubernetes:{one.namespace}", origin=one
    )


def job_of(request: WorkloadSubmitRequested, *, cluster: str) -> Job:
    """What the gateway makes of an honest wish in that cluster's log."""
    key = ids.origin_key(cluster, request.origin.uid)
    job = make_job(request.spec, principal=request.principal, key=key, traceparent="")
    return job.model_copy(update={"origin": request.origin})


async def test_its_own_objects_become_jobs_and_are_cancelled(cell: Cell) -> None:
    """What the attacks are compared with: the same wishes are answered where they are honest."""
    request = request_of(origin())
    [submitted] = await cell.submit(request)
    assert isinstance(submitted.payload, JobSubmitted)
    assert submitted.payload.job == job_of(request, cluster=CELL)
    [cancelled] = await cell.cancel(request.origin.uid, request.job_id)
    assert (cancelled.subject_id, cancelled.name) == (request.job_id, "cancel-requested")


async def test_it_cancels_no_job_of_another_cluster(cell: Cell) -> None:
    planted = request_of(origin(cluster=VICTIM))
    theirs = await cell.plant(job_of(planted, cluster=VICTIM))
    before = cell.count(Answer.FOREIGN)
    for uid, principal in ((planted.origin.uid, planted.principal), ("uid-own", planted.principal), ("u", "ada")):
        assert not await cell.cancel(uid, theirs.id, principal=principal)
    assert cell.count(Answer.FOREIGN) == before + 3


async def test_it_cancels_no_job_of_a_person(cell: Cell) -> None:
    spec = JobSpec(name="train", team=RED, task_groups=(TaskGroup(gpus=1),))
    theirs = await cell.plant(make_job(spec, principal="ann", key="k", traceparent=""))
    assert not await cell.cancel("uid-own", theirs.id, principal="ann")


async def test_it_cancels_no_job_of_another_object_of_its_own(cell: Cell) -> None:
    """The subject says which object is gone; else one object's facts would end the job of another."""
    request = request_of(origin())
    await cell.submit(request)
    assert not await cell.cancel("uid-another", request.job_id)


async def test_it_cancels_nothing_that_was_never_submitted(cell: Cell) -> None:
    assert not await cell.cancel("uid-own", "A" * 26)


async def test_it_plants_no_job_in_the_namespace_of_another_cluster(cell: Cell) -> None:
    """The other cluster's agent would make pods there, with that namespace's Secrets, claims and service accounts."""
    before = cell.count(Answer.FOREIGN)
    one = origin(cluster=VICTIM)
    assert not await cell.submit(request_of(one))
    own_id = ids.origin_job_id(team=RED, cluster=CELL, namespace=LAB, uid=one.uid)
    assert not await cell.submit(request_of(one, job_id=own_id))
    assert cell.count(Answer.FOREIGN) == before + 2


async def test_it_asks_for_no_other_object_than_the_subject_says(cell: Cell) -> None:
    assert not await cell.submit(request_of(origin()), uid="uid-other")


@pytest.mark.parametrize("namespace", [LAB, BLUE, "unnamed"])
async def test_it_submits_for_no_team_that_the_centre_does_not_name_for_the_namespace(
    cell: Cell, namespace: str
) -> None:
    """Nor for the team that the namespace is called like. Its agent is told why, about a job of its own alone."""
    request = request_of(origin(namespace=namespace), team=BLUE)
    [refused] = await cell.submit(request)
    assert isinstance(refused.payload, JobRefused)
    assert (refused.payload.cluster, refused.payload.workload) == (CELL, request.origin.uid)
    assert refused.payload.field == "metadata.namespace"
    assert "kubernetes.teams" in refused.payload.reason + refused.payload.cure


async def test_it_submits_in_nobody_elses_name(cell: Cell) -> None:
    """The principal is the namespace, whatever the wish says."""
    request = request_of(origin(), principal="olga")
    [submitted] = await cell.submit(request)
    assert isinstance(submitted.payload, JobSubmitted)
    assert submitted.payload.job.principal == f"kubernetes:{LAB}"
    as_olga = ids.job_id(team=RED, principal="olga", idempotency_key=ids.origin_key(CELL, request.origin.uid))
    [refused] = await cell.submit(request_of(origin(), principal="olga", job_id=as_olga))
    assert refused.name == "refused"


async def test_a_refusal_says_nothing_of_the_job_that_the_wish_names(cell: Cell) -> None:
    """A `refused` about another's job would stand where its own answer stands, and take that one's place."""
    theirs = await cell.plant(job_of(request_of(origin(cluster=VICTIM)), cluster=VICTIM))
    facts = await cell.submit(request_of(origin(), job_id=theirs.id))
    assert [fact.name for fact in facts] == ["refused"]
    assert theirs.id not in {fact.subject_id for fact in facts}


async def test_it_takes_no_job_id_of_another_cluster_by_knowing_an_objects_uid(cell: Cell) -> None:
    """Where both clusters have a namespace of that name which acts for that team, the uid was all that differed."""
    theirs = request_of(origin(cluster=VICTIM))
    mine = request_of(origin(uid=theirs.origin.uid))
    assert mine.job_id != theirs.job_id
    [submitted] = await cell.submit(mine)
    assert submitted.subject_id == mine.job_id


async def test_its_wishes_join_no_trace_of_others(cell: Cell) -> None:
    theirs = ids.traceparent(ids.trace_id("theirs"), ids.span_id("theirs"))
    request = request_of(origin()).model_copy(update={"trace": theirs})
    [submitted] = await cell.submit(request)
    assert isinstance(submitted.payload, JobSubmitted)
    assert submitted.payload.job.trace == ids.traceparent(ids.trace_id(request.job_id), ids.span_id(request.job_id))


async def test_a_job_that_it_gives_back_goes_to_no_other_cluster(cell: Cell) -> None:
    """Else its own object would be one that another cluster makes pods for, in a namespace that it chose."""
    request = request_of(origin())
    [submitted] = await cell.submit(request)
    core = recover(FederationCore(members=(MemberPlan(VICTIM), MemberPlan(CELL))), (), [submitted])
    fed = VirtualCluster("", start=Instant(2), cores={"federation": core}, role=StreamRole.FED)
    for number in (1, 2):
        [routed] = fed.decide_once("federation")
        assert routed.cluster == CELL
        assert not fed.decide("federation")
        back = JobReturned(assignment=number, cluster=CELL)
        fed.write("federation", "job", request.job_id, "job-returned", back)
