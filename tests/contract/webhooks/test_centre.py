"""Webhooks of a centre whose log does not reach back to a job: the federation's row is asked, or nothing is sent."""

from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from kit.loopback import served
from kit.servers import CLUSTER, NatsServer, running_nats
from kit.stack.webhooks import ALL_DECLARATIONS, LOG, Receiver, WebhookHarness, a_job, webhook
from kit.waiting import until_async
from muster.schemas.job import Job, Phase
from muster.schemas.readmodel import read_model
from muster.schemas.subjects import FED_LOG
from muster.schemas.views import JobView

pytestmark = pytest.mark.connected

VICTIM = "bravo"


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


def row(job: Job, name: str, cluster: str, **fields: object) -> str:
    given = {"id": job.id, "name": name, "team": "physics", "principal": "ada", "queue": "physics", "cluster": cluster}
    return JobView.model_validate({**given, "phase": Phase.RUNNING, **fields}).model_dump_json()


@pytest.mark.parametrize("cluster", [CLUSTER, VICTIM])
async def test_a_job_older_than_the_logs_is_judged_by_the_federations_row(centre: WebhookHarness, cluster: str) -> None:
    receiver, job, own = Receiver(), a_job(f"ancient-{cluster}"), a_job(f"beside-{cluster}")
    async with served(receiver) as url, Redis.from_url(centre.redis_url) as redis:
        await redis.hset(read_model(FED_LOG).key("jobs"), job.id, row(job, "ancient", cluster))
        made_up = row(job, "forged", CLUSTER, nodes=("n7",), attempt=1)
        await redis.hset(read_model(LOG).key("jobs"), job.id, made_up)
        await centre.notify(webhook(f"ancient-{cluster}", url))
        await centre.route(own, CLUSTER)
        await centre.end_job(job)
        await centre.end_job(own)
        await receiver.until(2 if cluster == CLUSTER else 1)
    told = [(request.job_name, request.data["nodes"]) for request in receiver.received]
    assert told == ([("ancient", ["n7"])] if cluster == CLUSTER else []) + [(own.spec.name, [])]


async def test_what_cannot_be_judged_now_is_not_sent_and_becomes_a_dead_letter(centre: WebhookHarness) -> None:
    """The federation's log does not have the job any more, and its row cannot be asked."""
    centre.redis_url = "redis://127.0.0.1:1/0"
    receiver, job = Receiver(), a_job("unjudged")
    async with served(receiver) as url:
        await centre.notify(webhook("unjudged", url, attempts_max=2))
        await centre.end_job(job)
        await until_async(lambda: _is_dead(centre, "unjudged"))
    assert receiver.received == []


async def _is_dead(centre: WebhookHarness, name: str) -> bool:
    return any(f".{name}." in letter.subject for letter in await centre.dead())
