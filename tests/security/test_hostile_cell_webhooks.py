"""Attacks of a cell on webhooks: what it writes into its own log about jobs of other clusters.

The broker, the notifier with its own rights and the receiver are real. The cell is CLUSTER; VICTIM is another.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from kit.loopback import served
from kit.servers import CLUSTER, NatsServer, running_nats
from kit.stack.webhooks import ALL_DECLARATIONS, TRACE, Receiver, WebhookHarness, a_job, webhook
from muster.notifier.delivery import DELIVERIES
from muster.schemas.base import Payload
from muster.schemas.facts.job import JobFinished, JobPlaced, JobRouted, JobRunning
from muster.schemas.facts.operations import JobFault
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.job import Job, Slot
from muster.schemas.subjects import cluster_log

pytestmark = pytest.mark.connected

VICTIM = "bravo"
FORGED_TRACE = "cd" * 16


@pytest.fixture(scope="module")
def _broker() -> Iterator[NatsServer]:
    with running_nats(declarations=ALL_DECLARATIONS, clusters=(CLUSTER, VICTIM)) as server:
        yield server


@pytest.fixture
async def centre(_broker: NatsServer, redis_url: str) -> AsyncIterator[WebhookHarness]:
    harness = WebhookHarness(_broker, redis_url=redis_url, others=(VICTIM,))
    await harness.prepare()
    yield harness
    await harness.end()


async def say(centre: WebhookHarness, job: Job, name: str, payload: Payload, *, cluster: str = CLUSTER) -> None:
    """Whoever holds the cluster writes this about the job, under a trace of its choice."""
    writer = "federation" if name == "routed" else "health" if name == "fault-told" else "scheduler"
    trace = f"00-{FORGED_TRACE}-{'1' * 16}-01"
    await centre.say(writer, "job", job.id, name, payload, log=cluster_log(cluster), trace=trace)


def forged(job: Job) -> JobRouted:
    """The same job, as somebody else's."""
    spec = job.spec.model_copy(update={"name": "forged", "team": "thieves"})
    return JobRouted(job=job.model_copy(update={"spec": spec, "principal": "mallory"}), cluster=CLUSTER)


def done(name: str, outcome: str) -> float:
    return float(DELIVERIES.labels(name, outcome)._value.get())


async def test_what_a_job_is_the_federation_says_and_not_the_clusters_log(centre: WebhookHarness) -> None:
    receiver, job = Receiver(), a_job("honest")
    async with served(receiver) as url:
        await centre.notify(webhook("identity", url))
        await centre.route(job, CLUSTER)
        await say(centre, job, "routed", forged(job))
        slots = (Slot(group=0, replica=0, node="n1", devices=(0,)),)
        await say(centre, job, "placed", JobPlaced(attempt=1, slots=slots))
        await say(centre, job, "running", JobRunning(attempt=1))
        await say(centre, job, "failed", JobFinished(attempt=1, exit_code=3))
        request = (await receiver.until(1))[0]
    assert [request.data[key] for key in ("name", "team", "queue", "principal")] == [
        "honest",
        "physics",
        "physics",
        "ada",
    ]
    assert (request.data["nodes"], request.data["cluster"], request.data["exit_code"]) == (["n1"], CLUSTER, 3)
    assert request.data["trace_id"] == request.headers["traceparent"].split("-")[1] == TRACE


@pytest.mark.parametrize("routed_to", [(VICTIM,), (CLUSTER, VICTIM), ()])
async def test_the_end_of_a_job_that_is_elsewhere_is_not_sent_and_counted(
    centre: WebhookHarness, routed_to: tuple[str, ...]
) -> None:
    """Also of one that was there before, and of one that no cluster was given."""
    receiver, name = Receiver(), f"elsewhere-{len(routed_to)}"
    job, own = a_job(f"theirs-{len(routed_to)}"), a_job(f"own-{len(routed_to)}")
    async with served(receiver) as url:
        await centre.notify(webhook(name, url))
        await centre.route(job, *routed_to)
        await centre.route(own, CLUSTER)
        before = done(name, "foreign")
        await say(centre, job, "routed", forged(job))
        await say(centre, job, "succeeded", JobFinished(attempt=1))
        await say(centre, own, "succeeded", JobFinished(attempt=1))
        await receiver.until(1)
        if routed_to:
            await say(centre, job, "failed", JobFinished(attempt=1), cluster=VICTIM)
            await receiver.until(2)
    ends = [(request.job_name, request.data["phase"]) for request in receiver.received]
    honest = [(own.spec.name, "succeeded"), *([(job.spec.name, "failed")] if routed_to else [])]
    assert ends == honest
    assert done(name, "foreign") == before + 1


async def test_a_fault_is_told_to_the_team_that_the_federation_names(centre: WebhookHarness) -> None:
    receiver, job, theirs = Receiver(), a_job("faulty"), a_job("theirs-too")
    async with served(receiver) as url:
        await centre.notify(webhook("fault", url, events=["job-fault"]))
        await centre.route(job, CLUSTER)
        await centre.route(theirs, VICTIM)
        for one in (theirs, job):
            await say(centre, one, "fault-told", JobFault(team="thieves", code="XID 31", node="n1"))
        request = (await receiver.until(1))[0]
    assert [request.data[key] for key in ("name", "team", "trace_id")] == ["faulty", "physics", TRACE]
    assert len(receiver.received) == 1


async def test_a_choice_of_scaling_names_no_job_of_another_cluster(centre: WebhookHarness) -> None:
    receiver, job, theirs = Receiver(), a_job("waits"), a_job("waits-elsewhere")
    chosen = ScaleChosen(case=1, node="flex-1", device_model="H100", count=2, jobs=(theirs.id, job.id), reason="short")
    async with served(receiver) as url:
        await centre.notify(webhook("scale", url, events=["scale-chosen"]))
        await centre.route(job, CLUSTER)
        await centre.route(theirs, VICTIM)
        await centre.say("scaler", "scale", "s1", "gpu-attach-chosen", chosen)
        request = (await receiver.until(1))[0]
    assert request.data["jobs"] == [{"job_id": job.id, "name": "waits", "team": "physics"}]
