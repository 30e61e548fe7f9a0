"""A cell that names a cluster which is none cannot stop routing, and a draft that the broker refuses stops no other.

The broker is real and in operator mode; the federation runs over it as `muster serve federation` does.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import pytest
from nats.aio.client import Client

from kit.servers import CLUSTER, DECLARATIONS, NatsServer, running_nats
from kit.stack.hosted import HostedServices, until_leading
from kit.waiting import until_async
from muster.bus import jsapi
from muster.bus.dead import HEADER_SUBJECT
from muster.bus.declaration import Declaration
from muster.bus.nats_log import NatsLog
from muster.bus.requests import append_single
from muster.bus.service import CoreService
from muster.cli.log_files import newest_dead_letters
from muster.core import Draft, Fact, Instant
from muster.federation import app
from muster.federation.copier import GROUP_MAX
from muster.schemas import envelope, ids
from muster.schemas.facts.composability import DetachRequested
from muster.schemas.facts.health import HealthMoved
from muster.schemas.facts.job import JobCancelRequested, JobFinished, JobRouted, JobSubmitted
from muster.schemas.facts.node import NodeJoined, WithholdRequested
from muster.schemas.facts.workload import JobRefused
from muster.schemas.job import Job, JobSpec, TaskGroup, WorkloadRef
from muster.schemas.registry import StreamRole, fact_type
from muster.schemas.subjects import FED_LOG

pytestmark = pytest.mark.connected

NOWHERE = "nowhere"
_DECLARED = {
    **{one.service: one for one in DECLARATIONS},
    "federation": app.DECLARATION,
    "health": Declaration("health", folds=(StreamRole.LOG,)),
}
"""What the broker knows the services by. It has one cluster: nobody may publish what is addressed to another."""


@pytest.fixture(scope="module")
def broker() -> Iterator[NatsServer]:
    with running_nats(declarations=tuple(_DECLARED.values())) as server:
        yield server


@dataclass
class Federated(HostedServices):
    """The federation of one cluster over a real broker."""

    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    async def say(self, draft: Draft, *, user: str = "gateway", writer: str = "") -> str:
        """Store one fact in FED with the credential of a user; its id."""
        fact_id = ids.request_fact_id("attack", draft.subject_id, draft.name, str(next(self.numbers)))
        client: Client = await self.client(user)
        stored = await append_single(client, FED_LOG, service=writer or user, draft=draft, fact_id=fact_id)
        assert stored.seq, stored
        return fact_id

    async def submit(self, one: Job) -> None:
        await self.say(Draft("job", one.id, "submitted", JobSubmitted(job=one)))

    async def cancel(self, one: Job) -> None:
        asked = JobCancelRequested(principal=one.principal, reason="enough")
        await self.say(Draft("job", one.id, "cancel-requested", asked))

    async def host_federation(self) -> None:
        hosting = await self.host(*app.services(self.settings))
        await until_leading(hosting.shells)

    async def said(self, one: Job) -> list[Fact]:
        """What the federation says of a job."""
        reader = await NatsLog(await self.client("reader"), FED_LOG).reader(after_seq=0)
        head, seen, found = await reader.head(), 0, list[Fact]()
        while seen < head:
            batch = await reader.read(limit=1000, timeout_s=1)
            found += batch.facts
            seen = batch.last_seq
        await reader.close()
        return [fact for fact in found if fact.subject_id == one.id and fact.writer == "federation"]

    async def until_said(self, one: Job, name: str) -> Fact:
        async def has_it() -> bool:
            return any(fact.name == name for fact in await self.said(one))

        await until_async(has_it, patience_s=15)
        return next(fact for fact in await self.said(one) if fact.name == name)


@pytest.fixture
async def federated(broker: NatsServer) -> AsyncIterator[Federated]:
    harness = Federated(broker)
    await harness.prepare()
    yield harness
    await harness.end()


def job(name: str, *, origin: str = "") -> Job:
    return Job(
        id=ids.job_id(team="lab", principal="ada", idempotency_key=name),
        spec=JobSpec(name=name, team="lab", task_groups=(TaskGroup(gpus=1),)),
        principal="ada",
        idempotency_key=name,
        body_hash="",
        origin=_object_of(origin, name) if origin else None,
    )


def _object_of(cluster: str, name: str) -> WorkloadRef:
    return WorkloadRef(
        cluster=cluster, api_version="muster.dev/v1alpha1", kind="MusterJob", namespace="lab", name=name, uid=name
    )


async def test_an_object_of_a_cluster_that_is_none_keeps_no_job_waiting(federated: Federated) -> None:
    await federated.host_federation()
    planted, ordinary = job("planted", origin=NOWHERE), job("ordinary")
    await federated.submit(planted)
    await federated.submit(ordinary)
    routed = await federated.until_said(ordinary, "routed")
    assert routed.cluster == CLUSTER
    assert await federated.said(planted) == []
    await federated.cancel(planted)
    await federated.until_said(planted, "cancelled")


async def test_what_is_asked_of_a_cluster_that_is_none_keeps_no_job_waiting(federated: Federated) -> None:
    await federated.host_federation()
    refused = JobRefused(workload="u-1", cluster=NOWHERE, reason="no such queue")
    await federated.say(Draft("job", job("refused").id, "refused", refused))
    detach = DetachRequested(principal="ada", cluster=f"{NOWHERE}.job.x")
    await federated.say(Draft("device", "GPU-1", "detach-requested", detach))
    after = job("after-refusals")
    await federated.submit(after)
    assert (await federated.until_said(after, "routed")).cluster == CLUSTER


async def test_jobs_of_a_cluster_that_was_taken_off_the_list_keep_no_job_waiting(federated: Federated) -> None:
    """What FED holds from when that cluster was a member is written as an import writes it."""
    gone = job("sent-there-before")
    await federated.submit(gone)
    routed = Draft("job", gone.id, "routed", JobRouted(job=gone, cluster=NOWHERE), cluster=NOWHERE)
    await federated.say(routed, user="admin-tools", writer="federation")
    await federated.host_federation()
    await federated.cancel(gone)
    after = job("after-the-removal")
    await federated.submit(after)
    assert (await federated.until_said(after, "routed")).cluster == CLUSTER
    assert [fact.name for fact in await federated.said(gone)] == ["routed"]


async def report(federated: Federated, job_id: str, fact_id: str) -> None:
    """A terminal fact in the cluster's own log, as whoever holds the cluster can write it."""
    row = fact_type(StreamRole.LOG, "scheduler", "job", "succeeded")
    assert row is not None
    headers = envelope.headers(row, id=fact_id, scope=CLUSTER, writer="scheduler", causes=(), trace="")
    headers[envelope.HEADER_MSG_ID] = ids.request_fact_id("report", fact_id)
    subject = f"muster.{CLUSTER}.scheduler.job.{job_id}.succeeded"
    body = JobFinished(attempt=1).model_dump_json().encode()
    jsapi.check((await jsapi.ask(await federated.client("scheduler"), subject, body, headers=headers)).data)


async def test_a_report_that_cannot_be_copied_keeps_no_other_from_the_federation(federated: Federated) -> None:
    """Its job's name is as long as a subject may be, or its id is longer than the headers of a message."""
    await federated.host_federation()
    one = job("reported")
    await federated.submit(one)
    await federated.until_said(one, "routed")
    for number in range(GROUP_MAX):  # a whole group of the copier's
        await report(federated, f"{number:02}" + "X" * 3_940, f"long-subject-{number}")
        await report(federated, job(f"other-{number}").id, f"{number:02}" + "X" * 40_000)
    await report(federated, one.id, "honest")
    await federated.until_said(one, "job-ended")


HEALTH = Declaration("health", folds=(StreamRole.LOG,), withholds=True)
"""A health that withholds nodes, over a broker that knows one which does not."""


@dataclass
class Withholding:
    """Health of a fleet of nodes: every node that joined is to be withheld, and every second one is suspect."""

    joined: list[str] = field(default_factory=list)
    said: set[tuple[str, str]] = field(default_factory=set)

    def apply(self, fact: Fact) -> None:
        if isinstance(fact.payload, NodeJoined):
            self.joined.append(fact.subject_id)
        elif fact.writer == "health":
            self.said.add((fact.subject_id, fact.name))

    def decide(self, now: Instant) -> list[Draft]:
        wanted = [
            draft
            for node in self.joined
            for draft in (
                Draft("node", f"{node}-rack", "withhold-requested", WithholdRequested(request_id=node)),
                Draft("node", node, "suspect", HealthMoved(node=node)),
            )
        ]
        return [draft for draft in wanted if (draft.subject_id, draft.name) not in self.said]

    def next_wakeup(self) -> Instant | None:
        return None

    def snapshot(self) -> Iterator[Draft]:
        yield from ()


async def test_drafts_that_the_broker_takes_from_nobody_stop_no_other(federated: Federated) -> None:
    """Whatever the core: the first and the last of a batch are refused, and every second one between them."""
    hosting = await federated.host(CoreService(HEALTH, StreamRole.LOG, Withholding))
    await until_leading(hosting.shells)
    await federated.join("n1", "n2", "n3")

    async def suspects() -> list[str]:
        return [fact.subject_id for fact in await federated.facts("suspect")]

    async def has(count: int) -> bool:
        return len(await suspects()) == count

    await until_async(lambda: has(3), patience_s=15)
    await federated.join("n4")
    await until_async(lambda: has(4), patience_s=15)
    assert await suspects() == ["n1", "n2", "n3", "n4"]
    assert hosting.shells[0].leading
    told = {
        message.headers[HEADER_SUBJECT]
        for message in await newest_dead_letters(await federated.client("admin-tools"), limit=9)
    }
    assert {f"muster.{CLUSTER}.health.node.n{number}-rack.withhold-requested" for number in range(1, 4)} <= told
