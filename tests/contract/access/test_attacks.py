"""What must not be possible on the bus, tried on a real nats-server with the credentials that services have."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.api import ConsumerConfig
from nats.js.errors import KeyWrongLastSequenceError

from kit.servers import CLUSTER, NatsServer
from muster.bus.decode import Dead, Decoder, Skipped
from muster.bus.settings import Settings
from muster.bus.streams import bootstrap
from muster.core.fact import Fact
from muster.core.instant import Instant
from muster.schemas.facts.job import JobPlaced
from muster.schemas.subjects import FED_LOG, LogName, cluster_log

pytestmark = pytest.mark.connected

LOG = cluster_log(CLUSTER)
PLACED = f"muster.{CLUSTER}.scheduler.job.J.placed"
PLACED_BODY = JobPlaced(attempt=1, slots=()).model_dump_json().encode()
FORGED = {
    "ce-specversion": "1.0",
    "ce-id": "forged",
    "ce-type": "muster.job.placed.v1",
    "ce-source": f"/muster/{CLUSTER}/scheduler",
}


@dataclass
class Attacker:
    """A connection, and what the server refused it."""

    client: Client
    refusals: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def publish(
        self, subject: str, body: bytes = b"", *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        await self.client.publish(subject, body, reply=reply, headers=headers)
        await self.client.flush()

    async def is_answered(self, stream: str = LOG.stream) -> None:
        """What was asked of the broker before this was answered, too."""
        await self.client.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=5)

    async def refused(self) -> str:
        """The next refusal; a timeout if there is none."""
        return await asyncio.wait_for(self.refusals.get(), 5)


class Bus:
    """A bootstrapped server and everybody who connected to it."""

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        self._clients: list[Client] = []

    async def attacker(self, user: str) -> Attacker:
        refusals: asyncio.Queue[str] = asyncio.Queue()

        async def told(error: Exception) -> None:
            refusals.put_nowait(str(error).lower())  # the client lowers the subject's case

        client = await self.server.connect(user, error_cb=told)
        self._clients.append(client)
        return Attacker(client, refusals)

    async def stored(self, log: LogName = LOG) -> list[Fact | Skipped | Dead]:
        """Every message of a log as the reader takes it."""
        js = (await self.attacker("reader")).client.jetstream()
        last = (await js.stream_info(log.stream)).state.last_seq
        decoder = Decoder(log)
        messages = [await js.get_msg(log.stream, seq) for seq in range(1, last + 1)]
        return [
            decoder.decode(m.subject or "", m.headers, m.data or b"", seq=m.seq or 0, time=Instant(0)) for m in messages
        ]

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


@pytest.fixture
async def bus(nats_server: NatsServer, tmp_path: Path) -> AsyncIterator[Bus]:
    bus = Bus(nats_server)
    settings = Settings(state_dir=tmp_path, credentials_dir=nats_server.credentials_dir, cluster=CLUSTER)
    await bootstrap((await bus.attacker("bootstrap")).client, settings)
    yield bus
    await bus.close()


async def eventually_stored(bus: Bus, count: int, log: LogName = LOG) -> list[Fact | Skipped | Dead]:
    """The log's messages once there are so many; answers of the broker to itself are stored a moment later."""
    async with asyncio.timeout(5):
        while len(stored := await bus.stored(log)) < count:  # noqa: ASYNC110 - the broker sets no event of ours
            await asyncio.sleep(0.01)
    return stored


async def test_an_answer_of_the_jetstream_api_is_stored_nowhere(bus: Bus) -> None:
    agent = await bus.attacker("agent")
    await agent.publish(f"$JS.API.STREAM.INFO.{LOG.stream}", reply=PLACED)
    await agent.is_answered()
    assert await bus.stored() == []


async def test_a_stored_message_cannot_be_replayed_as_anothers_fact(bus: Bus) -> None:
    agent, reader = await bus.attacker("agent"), await bus.attacker("reader")
    own = f"muster.{CLUSTER}.agent.job.J.pods-started"
    await agent.client.jetstream().publish(own, PLACED_BODY, headers=FORGED)
    await reader.client.jetstream().add_consumer(LOG.stream, ConsumerConfig(name="evil", filter_subject=own))
    await reader.publish(f"$JS.API.STREAM.MSG.GET.{LOG.stream}", json.dumps({"seq": 1}).encode(), reply=PLACED)
    await reader.publish(f"$JS.API.CONSUMER.MSG.NEXT.{LOG.stream}.evil", b"1", reply=PLACED)
    await reader.publish(f"$JS.API.DIRECT.GET.{LOG.stream}", json.dumps({"seq": 1}).encode(), reply=PLACED)
    assert "$js.api.direct.get" in await reader.refused()
    await reader.is_answered()
    assert len(await bus.stored()) == 1


@pytest.mark.parametrize("stream", [LOG.stream, "OBJ_checkpoints"])
async def test_who_writes_facts_has_nothing_delivered_from_where_they_stand(bus: Bus, stream: str) -> None:
    agent = await bus.attacker("agent")
    for request in (f"CREATE.{stream}.evil", f"MSG.NEXT.{stream}.evil"):
        await agent.publish(f"$JS.API.CONSUMER.{request}", b"1", reply=PLACED)
        assert f"$js.api.consumer.{request}".lower() in await agent.refused()
    assert await bus.stored() == []


@pytest.mark.parametrize(
    ("user", "bucket"), [("lease", "leases"), ("gateway", "tokens"), ("bootstrap", "tokens"), ("admin-tools", "tokens")]
)
async def test_nobody_may_have_a_stored_value_answered_directly(bus: Bus, user: str, bucket: str) -> None:
    attacker = await bus.attacker(user)
    for subject in (f"$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.evil", f"$JS.API.DIRECT.GET.KV_{bucket}"):
        await attacker.publish(subject, b'{"seq": 1}', reply=PLACED)
        assert subject.lower() in await attacker.refused()


async def test_a_stored_lease_cannot_be_replayed_as_a_fact(bus: Bus) -> None:
    lease = await bus.attacker("lease")
    js = lease.client.jetstream()
    await js.publish("$KV.leases.evil", PLACED_BODY, headers=FORGED)
    await js.add_consumer("KV_leases", ConsumerConfig(name="evil"))
    await lease.publish("$JS.API.STREAM.MSG.GET.KV_leases", b'{"seq": 1}', reply=PLACED)
    await lease.publish("$JS.API.CONSUMER.MSG.NEXT.KV_leases.evil", b"1", reply=PLACED)
    await lease.is_answered("KV_leases")
    assert await bus.stored() == []


async def test_leases_are_taken_renewed_and_freed(bus: Bus) -> None:
    bucket = await (await bus.attacker("lease")).client.jetstream().key_value("leases")
    term = await bucket.create("scheduler.atlas", b"me")
    with pytest.raises(KeyWrongLastSequenceError):
        await bucket.create("scheduler.atlas", b"you")
    renewed = await bucket.update("scheduler.atlas", b"me", last=term)
    assert (await bucket.get("scheduler.atlas")).revision == renewed
    await bucket.delete("scheduler.atlas", last=renewed)
    assert await bucket.create("scheduler.atlas", b"you") > renewed


async def test_a_querys_answer_never_reaches_the_log(bus: Bus) -> None:
    scheduler = await bus.attacker("scheduler")
    asked: asyncio.Queue[Msg] = asyncio.Queue()

    async def answer(message: Msg) -> None:
        await asked.put(message)
        await scheduler.client.publish(message.reply, PLACED_BODY, headers=FORGED)

    await scheduler.client.subscribe(f"query.{CLUSTER}.scheduler.why", cb=answer)
    await scheduler.client.flush()
    asker = await bus.attacker("gateway-query")
    await asker.publish(f"query.{CLUSTER}.scheduler.why", b"{}", reply=PLACED)
    async with asyncio.timeout(5):
        message = await asked.get()
    await scheduler.client.flush()
    assert message.reply.startswith("_R_.")
    assert await bus.stored() == []


async def test_a_question_is_answered_across_accounts(bus: Bus) -> None:
    scheduler = await bus.attacker("scheduler")

    async def answer(message: Msg) -> None:
        await message.respond(b"because")

    await scheduler.client.subscribe(f"query.{CLUSTER}.scheduler.why", cb=answer)
    await scheduler.client.flush()
    asker = await bus.attacker("gateway-query")
    assert (await asker.client.request(f"query.{CLUSTER}.scheduler.why", b"{}", timeout=5)).data == b"because"


async def test_a_responder_may_not_answer_into_another_services_subjects(bus: Bus) -> None:
    scheduler = await bus.attacker("scheduler")
    await scheduler.publish(f"muster.{CLUSTER}.agent.job.J.pods-started", b"{}")
    assert "agent.job.j.pods-started" in await scheduler.refused()
    assert await bus.stored() == []


@pytest.mark.parametrize(
    ("user", "subject"),
    [
        ("agent", f"muster.{CLUSTER}.scheduler.job.J.placed"),
        ("agent", f"muster.{CLUSTER}.scheduler.fence"),
        ("scheduler", f"muster.{CLUSTER}.agent.node.n1.joined"),
        ("scheduler", f"muster.{CLUSTER}.federation.job.J.routed"),
        ("federation", f"muster.{CLUSTER}.federation.job.J.routed"),
        ("federation", "muster.fed.gateway._.job.J.submitted"),
        ("gateway", f"muster.{CLUSTER}.scheduler.job.J.cancelled"),
        ("gateway", "$KV.leases.scheduler.atlas"),
        ("gateway", f"query.{CLUSTER}.scheduler.why"),
        ("projector", f"muster.{CLUSTER}.projector.node.n1.withhold-requested"),
        ("reader", f"muster.{CLUSTER}.agent.node.n1.joined"),
        ("lease", f"muster.{CLUSTER}.scheduler.fence"),
        ("scheduler", f"$JS.API.STREAM.DELETE.{LOG.stream}"),
        ("scheduler", f"$JS.API.STREAM.PURGE.{LOG.stream}"),
        ("reader", f"$JS.API.STREAM.UPDATE.{LOG.stream}"),
        ("bootstrap", f"$JS.API.STREAM.DELETE.{LOG.stream}"),
        ("bootstrap", f"muster.{CLUSTER}.scheduler.job.J.placed"),
        ("gateway-query", f"muster.{CLUSTER}.scheduler.job.J.placed"),
    ],
)
async def test_nobody_writes_what_is_anothers(bus: Bus, user: str, subject: str) -> None:
    attacker = await bus.attacker(user)
    await attacker.publish(subject, b"{}")
    assert subject.lower() in await attacker.refused()


@pytest.mark.parametrize(
    ("user", "subject"),
    [
        ("agent", f"muster.{CLUSTER}.agent.node.n1.joined"),
        ("agent", f"muster.{CLUSTER}.agent.fence"),
        ("scheduler", f"muster.{CLUSTER}.scheduler.log.J.term-started"),
        ("operator", f"muster.{CLUSTER}.operator.log.17.voided"),
    ],
)
async def test_everybody_writes_what_is_theirs(bus: Bus, user: str, subject: str) -> None:
    ack = await (await bus.attacker(user)).client.jetstream().publish(subject, b"{}", timeout=5)
    assert ack.stream == LOG.stream


async def test_what_federation_addresses_to_a_cluster_reaches_its_log(bus: Bus) -> None:
    federation = await bus.attacker("federation")
    await federation.client.jetstream().publish(f"muster.fed.federation.{CLUSTER}.job.J.routed", b"{}", timeout=5)
    (message,) = await eventually_stored(bus, 1)
    assert isinstance(message, Dead)  # its body is empty: what counts is that it came, and from whom
    assert message.subject == f"muster.{CLUSTER}.federation.job.J.routed"
    assert len(await bus.stored(FED_LOG)) == 1


async def test_the_operator_may_only_void(bus: Bus) -> None:
    operator = await bus.attacker("operator")
    for subject in (f"muster.{CLUSTER}.operator.log.17.fence", f"$JS.API.STREAM.INFO.{LOG.stream}", "dead.x.1"):
        await operator.publish(subject, b"{}")
        assert subject.lower() in await operator.refused()
    await operator.client.subscribe("muster.>")
    assert "subscription" in await operator.refused()


async def test_nobody_reads_anothers_answers(bus: Bus) -> None:
    agent = await bus.attacker("agent")
    await agent.client.subscribe("_INBOX.gateway.>")
    assert "_inbox.gateway" in await agent.refused()


async def test_the_asking_account_does_not_see_the_log(bus: Bus) -> None:
    asker = await bus.attacker("gateway-query")
    with pytest.raises((NoRespondersError, NatsTimeoutError)):
        await asker.client.request(f"$JS.API.STREAM.INFO.{LOG.stream}", b"", timeout=0.5)
