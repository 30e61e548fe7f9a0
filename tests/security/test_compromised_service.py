"""Who holds the bus credential of one service: what the broker writes for it, and what services believe of that."""

from collections.abc import AsyncIterator

import pytest
from nats.js.errors import APIError

from hosted_services import LOG, HostedServices, until_leading
from muster.bus import fences, jsapi
from muster.bus.errors import FenceBrokenError
from muster.bus.requests import Outcome
from muster.gateway.accept import make_job
from muster.gateway.request_log import NatsRequestLog
from muster.schemas.access import TOKENS_BUCKET
from muster.schemas.job import JobSpec, TaskGroup
from muster.schemas.subjects import FED_LOG, fact_subject, fence_subject
from servers import NatsServer
from toys import scheduler
from waiting import until

pytestmark = pytest.mark.connected

ANSWER = b'{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"LOG_atlas"}}'
"""What the broker says to whoever asks: no fact."""


@pytest.fixture
async def house(nats_server: NatsServer) -> AsyncIterator[HostedServices]:
    house = HostedServices(nats_server)
    await house.prepare()
    yield house
    await house.end()


async def test_a_broken_fence_is_named_and_repaired_by_an_operator_and_the_service_leads_again(
    house: HostedServices,
) -> None:
    """Whoever may write a service's fence may break it; that must not stop the service for ever, nor in silence."""
    hosting = await house.host(scheduler())
    shell = await until_leading(hosting.shells)
    attacker = await house.client("scheduler")
    ack = await attacker.jetstream().publish(fence_subject(LOG, "scheduler"), ANSWER)
    await house.join("n1")  # something to decide, so that the leader finds out
    await until(lambda: shell.held_up)
    assert "muster log repair-fence --service scheduler" in shell.held_up
    well, report = hosting.process._ready()
    assert not well
    assert str(ack.seq) in str(report["nobody_leads"])
    assert hosting.process._health()[0], "the process is in order, so nobody has to start it again"

    reading, writing = await house.client("admin-tools"), await house.client("operator")
    with pytest.raises(FenceBrokenError):
        await fences.newest_fence(reading, LOG, "scheduler")
    repaired = await fences.repair_fence(reading, writing, LOG, "scheduler")
    assert repaired is not None
    assert repaired.outcome is Outcome.STORED
    await until(lambda: shell.leading)
    await until(lambda: hosting.process._ready()[0])
    assert await fences.repair_fence(reading, writing, LOG, "scheduler") is None


async def test_a_fence_in_anothers_name_is_none(house: HostedServices) -> None:
    """The right subject and body do not make it one: the envelope has to name the service."""
    await house.prepare()
    client = await house.client("agent")
    headers = {"ce-id": "x", "ce-type": "muster.log.fence.v1", "ce-source": "/muster/atlas/scheduler"}
    body = b'{"term":99,"folded_seq":1}'
    await client.jetstream().publish(fence_subject(LOG, "agent"), body, headers=headers)
    with pytest.raises(FenceBrokenError, match="ce-source"):
        await fences.newest_fence(client, LOG, "agent")


async def test_a_message_that_is_no_job_does_not_keep_a_job_from_being_submitted(house: HostedServices) -> None:
    client = await house.client("gateway")
    log = NatsRequestLog(client)
    spec = JobSpec(name="train", team="blue", task_groups=(TaskGroup(gpus=1),), command=("true",))
    job = make_job(spec, principal="ann", key="k", traceparent="")
    subject = fact_subject(FED_LOG, writer="gateway", kind="job", subject_id=job.id, name="submitted")
    await client.jetstream().publish(subject, ANSWER)
    assert await log.submitted(job.id) is None
    stored = await log.submit(job)
    assert stored.is_new
    await client.jetstream().publish(subject, ANSWER)
    again = await log.submit(job)
    assert (again.is_new, again.job.id) == (False, job.id)
    found = await log.submitted(job.id)
    assert found is not None
    assert found.seq == stored.seq


@pytest.mark.parametrize(("user", "bucket"), [("lease", "leases"), ("bootstrap", TOKENS_BUCKET)])
async def test_nobody_empties_a_bucket_by_one_message(house: HostedServices, user: str, bucket: str) -> None:
    js = (await house.client(user)).jetstream()
    await js.publish(f"$KV.{bucket}.kept", b"value")
    for rollup in ("all", "sub"):
        with pytest.raises(APIError, match="rollup"):
            await js.publish(f"$KV.{bucket}.evil", b"", headers={"Nats-Rollup": rollup})
    info = await jsapi.stream_info(await house.client("bootstrap"), f"KV_{bucket}", subjects=f"$KV.{bucket}.kept")
    assert info is not None
    assert info.state.subjects == {f"$KV.{bucket}.kept": 1}
