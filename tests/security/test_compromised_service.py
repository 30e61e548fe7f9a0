"""Who holds the bus credential of one service: what the broker writes for it, and what services believe of that."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig, RawStreamMsg
from nats.js.errors import APIError, NotFoundError

from kit.servers import CLUSTER, DECLARATIONS, NatsServer
from kit.stack.hosted import LOG, HostedServices, until_leading
from kit.toys import scheduler
from kit.waiting import until, until_async
from muster.bus import jsapi
from muster.bus.access import AccountName, BusUser, Rights, bus_users
from muster.bus.appender import newest_fence, repair_fence
from muster.bus.names import webhook_consumer
from muster.bus.own_account import is_within
from muster.bus.ports import FenceBrokenError
from muster.bus.requests import Outcome
from muster.bus.settings import Settings
from muster.bus.streams import bootstrap
from muster.gateway.accept import make_job
from muster.gateway.request_log import NatsRequestLog
from muster.schemas.access import TOKENS_BUCKET
from muster.schemas.job import JobSpec, TaskGroup
from muster.schemas.registry import ANY_SERVICE, SERVICES, TABLE, StreamRole
from muster.schemas.subjects import DEAD_STREAM, FED_LOG, FENCE, fact_subject, fence_subject
from muster.stack.keys import mint_access
from muster.stack.nats_server import NatsConfig
from muster.stack.ports import free_port

pytestmark = pytest.mark.connected

ANSWER = b'{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"LOG_atlas"}}'
"""What the broker says to whoever asks: no fact."""


@pytest.fixture
async def harness(nats_server: NatsServer) -> AsyncIterator[HostedServices]:
    harness = HostedServices(nats_server)
    await harness.prepare()
    yield harness
    await harness.end()


async def test_a_broken_fence_is_named_and_repaired_by_an_operator_and_the_service_leads_again(
    harness: HostedServices,
) -> None:
    """Whoever may write a service's fence may break it; that must not stop the service for ever, nor in silence."""
    hosting = await harness.host(scheduler())
    shell = await until_leading(hosting.shells)
    attacker = await harness.client("scheduler")
    ack = await attacker.jetstream().publish(fence_subject(LOG, "scheduler"), ANSWER)
    await harness.join("n1")  # something to decide, so that the leader finds out
    await until(lambda: shell.held_up)
    assert "muster log repair-fence --service scheduler" in shell.held_up
    well, report = hosting.process._ready()
    assert not well
    assert str(ack.seq) in str(report["nobody_leads"])
    assert hosting.process._health()[0], "the process is in order, so nobody has to start it again"

    reading, writing = await harness.client("admin-tools"), await harness.client("operator")
    with pytest.raises(FenceBrokenError):
        await newest_fence(reading, LOG, "scheduler")
    repaired = await repair_fence(reading, writing, LOG, "scheduler")
    assert repaired is not None
    assert repaired.outcome is Outcome.STORED
    await until(lambda: shell.leading)
    await until(lambda: hosting.process._ready()[0])
    assert await repair_fence(reading, writing, LOG, "scheduler") is None


async def test_a_fence_in_anothers_name_is_none(harness: HostedServices) -> None:
    """The right subject and body do not make it one: the envelope has to name the service."""
    await harness.prepare()
    client = await harness.client("agent")
    headers = {"ce-id": "x", "ce-type": "muster.log.fence.v1", "ce-source": "/muster/atlas/scheduler"}
    body = b'{"term":99,"folded_seq":1}'
    await client.jetstream().publish(fence_subject(LOG, "agent"), body, headers=headers)
    with pytest.raises(FenceBrokenError, match="ce-source"):
        await newest_fence(client, LOG, "agent")


async def test_a_message_that_is_no_job_does_not_keep_a_job_from_being_submitted(harness: HostedServices) -> None:
    client = await harness.client("gateway")
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
async def test_nobody_empties_a_bucket_by_one_message(harness: HostedServices, user: str, bucket: str) -> None:
    js = (await harness.client(user)).jetstream()
    await js.publish(f"$KV.{bucket}.kept", b"value")
    for rollup in ("all", "sub"):
        with pytest.raises(APIError, match="rollup"):
            await js.publish(f"$KV.{bucket}.evil", b"", headers={"Nats-Rollup": rollup})
    info = await jsapi.stream_info(await harness.client("bootstrap"), f"KV_{bucket}", subjects=f"$KV.{bucket}.kept")
    assert info is not None
    assert info.state.subjects == {f"$KV.{bucket}.kept": 1}


ANYBODY = BusUser("anybody", AccountName.LOG, Rights((">",), (">",)))
"""Looks at what was stored; it stands for nobody."""
MARK = "attacker"
"""Header of what an attacker publishes himself."""
CONSUMER_NAME = "evil"
OWNED = ("gateway-workloads", webhook_consumer("pager"))
"""Consumers that belong to the gateway and to the notifier."""

SEEDS = {
    FED_LOG.stream: "muster.fed.gateway._.queue.q.change-requested",
    LOG.stream: f"muster.{CLUSTER}.scheduler.job.X.placed",
    DEAD_STREAM: "dead.FED.9",
    "KV_tokens": "$KV.tokens.seed",
    "KV_leases": "$KV.leases.seed",
    "OBJ_checkpoints": "$O.checkpoints.C.seed",
    f"LOGS_{CLUSTER}": f"logs.{CLUSTER}.seed",
    f"TELEMETRY_{CLUSTER}": f"telemetry.{CLUSTER}.seed",
}
"""By stream, what stands there."""


@dataclass
class Broker:
    """A bootstrapped server with every credential of a stack. everything: who may look at all streams."""

    server: NatsServer
    users: tuple[BusUser, ...]
    everything: Client
    heads: dict[str, int] = field(default_factory=dict)
    seeded: set[tuple[str, int]] = field(default_factory=set)

    async def seed(self) -> None:
        """Store something that may be replayed in every stream; the object would roll up whatever takes it.

        What came into a stream before is stored then, too.
        """
        for stream, subject in SEEDS.items():
            headers = {"ce-id": "old", **({"Nats-Rollup": "all"} if stream.startswith("OBJ_") else {})}
            before = await self.seq_of(stream, subject)
            await self.everything.publish(subject, b"{}", headers=headers)
            await until_async(partial(self._is_after, before, stream, subject))
            self.seeded.add((stream, await self.seq_of(stream, subject)))

    async def seq_of(self, stream: str, subject: str) -> int:
        """Of the newest message there, 0 if there is none."""
        found = await jsapi.last_on_subject(self.everything, stream, subject)
        return 0 if found is None else found.seq

    async def _is_after(self, seq: int, stream: str, subject: str) -> bool:
        return await self.seq_of(stream, subject) > seq

    async def settled(self) -> None:
        """What was asked of the broker before was answered."""
        await self.everything.request(f"$JS.API.STREAM.INFO.{LOG.stream}", b"", timeout=30)

    async def stored_since(self) -> list[tuple[str, RawStreamMsg]]:
        """Every message that came into any stream since the last call, and was not seeded."""
        js = self.everything.jetstream()
        found: list[tuple[str, RawStreamMsg]] = []
        for info in await js.streams_info():
            name = info.config.name or ""
            seqs = range(self.heads.get(name, 0) + 1, info.state.last_seq + 1)
            self.heads[name] = info.state.last_seq
            for seq in seqs:
                if (name, seq) not in self.seeded:
                    with suppress(NotFoundError):  # replaced by a newer one of its key
                        found.append((name, await js.get_msg(name, seq)))
        return found


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    users = bus_users(DECLARATIONS, clusters=(CLUSTER,), webhooks=("pager",))
    access = mint_access(
        keys_dir=tmp_path / "keys", credentials_dir=tmp_path / "creds", users=(*users, ANYBODY), now_s=int(time.time())
    )
    config = NatsConfig(port=free_port(), monitor_port=free_port(), store_dir=tmp_path / "store", access=access)
    server = NatsServer(tmp_path, config, (*users, ANYBODY))
    server.start()
    everything = await server.connect(ANYBODY.name)
    await bootstrap(everything, Settings(state_dir=tmp_path, credentials_dir=server.credentials_dir, cluster=CLUSTER))
    yield Broker(server, users, everything)
    await everything.close()
    server.stop()


def reply_subjects(user: str) -> tuple[str, ...]:
    """One of every class of subject on which something is stored or done, the user's own fences among them."""
    facts = {
        (row.stream, writer): fact_subject(log, writer=writer, kind=row.kind, subject_id="X", name=row.name, cluster=to)
        for row in TABLE
        for writer in (SERVICES if row.writer == ANY_SERVICE else (row.writer,))
        for log, to in (((FED_LOG, CLUSTER) if row.stream is StreamRole.FED else (LOG, "")),)
        if row.stream is not StreamRole.FED_UP and row.name != FENCE
    }
    fences = (fence_subject(log, service) for log in (LOG, FED_LOG) for service in ("scheduler", "federation", user))
    others = (
        f"fedup.{CLUSTER}.scheduler.job.X.succeeded",
        "$KV.tokens.hash",
        "$KV.leases.scheduler.atlas",
        "$O.checkpoints.M.name",
        "$O.checkpoints.C.chunk",
        "dead.FED.1",
        f"telemetry.{CLUSTER}.n1",
        f"logs.{CLUSTER}.X",
        f"view.{CLUSTER}.public.slice",
        f"query.{CLUSTER}.scheduler.why",
        f"$JS.API.STREAM.PURGE.{FED_LOG.stream}",
        f"streams.$JS.API.STREAM.PURGE.{FED_LOG.stream}",
        f"$JS.ACK.{FED_LOG.stream}.webhook-pager.1.1.1.1.0",
    )
    return (*facts.values(), *fences, *others)


def concrete(pattern: str) -> str:
    """A subject that a right allows."""
    tokens = pattern.split(".")
    if tokens[:4] == ["$JS", "API", "CONSUMER", "CREATE"]:
        return ".".join((*tokens[:-1], CONSUMER_NAME))
    if tokens[:3] == ["$JS", "API", "CONSUMER"] and tokens[3] != "DELETE":
        return ".".join(CONSUMER_NAME if token == "*" else token for token in tokens)
    return ".".join("X" if token in ("*", ">") else token for token in tokens)


def body_of(subject: str) -> bytes:
    """What has the broker answer, and changes as little as can be."""
    if ".MSG.NEXT." in subject:
        return b'{"batch":1,"no_wait":true}'
    if ".MSG.GET." in subject:
        return b'{"seq":1}'
    if ".STREAM.PURGE." in subject:
        return b'{"filter":"nothing.of.this.name"}'
    return b""


async def push_everywhere(client: Client, stream: str, subjects: Sequence[str]) -> None:
    """Ask for consumers that deliver there by themselves."""
    for number, subject in enumerate(subjects):
        config = {"name": f"push{number}", "ack_policy": "none", "deliver_subject": subject}
        body = json.dumps({"stream_name": stream, "config": config}).encode()
        await client.publish(f"$JS.API.CONSUMER.CREATE.{stream}.push{number}", body, reply=client.new_inbox())
    await client.flush()


def written(rights: Rights, stream: str, message: RawStreamMsg) -> bool:
    """Whether a stored message is one that its attacker published himself, where he may."""
    headers = message.headers or {}
    if "Nats-Stream-Source" in headers:  # its stream takes it from another one, where it was looked at
        return True
    return MARK in headers and any(is_within(message.subject or "", pattern) for pattern in rights.publish)


async def test_no_credential_has_the_broker_write_where_it_may_not_publish(broker: Broker) -> None:
    """Every request that every credential may make of the broker, with every class of reply subject; every publication,
    whose acknowledgement goes to a reply subject, too; and consumers that deliver to such subjects by themselves.
    """
    asked: set[str] = set()
    for user in broker.users:
        if user.account is not AccountName.OWN:
            continue
        await broker.seed()
        before = {stream: await broker.seq_of(stream, subject) for stream, subject in SEEDS.items()}
        client = await broker.server.connect(user.name, error_cb=_unheard)
        asked |= await attack(broker, user, client)
        purges = {one.rpartition(".")[2] for one in user.rights.publish if ".STREAM.PURGE." in one}
        for stream, seq in before.items():
            assert stream in purges or await broker.seq_of(stream, SEEDS[stream]) >= seq, (user.name, stream)
        await broker.seed()
        strange = [
            (stream, message.subject, message.data, message.headers)
            for stream, message in await broker.stored_since()
            if not written(user.rights, stream, message)
        ]
        assert not strange, user.name
        for stream in SEEDS:
            await broker.everything.request(f"$JS.API.CONSUMER.DELETE.{stream}.{CONSUMER_NAME}", b"", timeout=5)
        await client.close()
    assert {"STREAM.INFO", "CONSUMER.CREATE", "CONSUMER.MSG", "STREAM.MSG", "STREAM.PURGE"} <= asked


async def attack(broker: Broker, user: BusUser, client: Client) -> set[str]:
    """Use every right with reply subjects. Which requests of JetStream's API were made."""
    replies = reply_subjects(user.name)
    for stream in SEEDS:
        create = f"$JS.API.CONSUMER.CREATE.{stream}.{CONSUMER_NAME}"
        if any(is_within(create, pattern) for pattern in user.rights.publish):
            config = {"name": CONSUMER_NAME, "ack_policy": "none", "mem_storage": True}
            body = json.dumps({"stream_name": stream, "config": config}).encode()
            await client.request(create, body, timeout=30)
            await push_everywhere(client, stream, replies)
            await broker.settled()
    asked: set[str] = set()
    subjects = [concrete(one) for one in user.rights.publish if not one.startswith(("_R_", "_INBOX", "query."))]
    for number, subject in enumerate(subjects):
        is_request = subject.startswith("$JS.API.")
        if is_request:
            asked.add(".".join(subject.split(".")[2:4]))
        for reply in replies if is_request or not number else (replies[number % len(replies)],):
            headers = None if is_request else {MARK: user.name}
            await client.publish(subject, body_of(subject), reply=reply, headers=headers)
        await client.flush()
        if is_request:  # the broker drops requests beyond 10,000 that wait
            await broker.settled()
    await broker.settled()
    return asked


async def _unheard(_: Exception) -> None:
    """Refusals are the broker's right."""


async def test_a_consumer_with_a_known_name_is_its_services_alone(broker: Broker) -> None:
    js = broker.everything.jetstream()
    for stream in (LOG.stream, FED_LOG.stream):
        for name in OWNED:
            await js.add_consumer(stream, ConsumerConfig(durable_name=name, ack_policy=AckPolicy.EXPLICIT))
    before = {stream: await jsapi.consumers(broker.everything, stream) for stream in (LOG.stream, FED_LOG.stream)}
    changed = {"durable_name": "", "ack_policy": "explicit", "filter_subject": "muster.nothing"}
    for user in broker.users:
        client = await broker.server.connect(user.name, error_cb=_unheard)
        for stream in before:
            for name, owner in zip(OWNED, ("gateway", "notifier"), strict=True):
                if user.name == owner:
                    continue
                config = {"stream_name": stream, "config": {**changed, "durable_name": name}}
                for path in (f"CREATE.{stream}.{name}", f"CREATE.{stream}", f"CREATE.{stream}.{name}.muster.nothing"):
                    await client.publish(f"$JS.API.CONSUMER.{path}", json.dumps(config).encode())
                await client.publish(f"$JS.API.CONSUMER.DELETE.{stream}.{name}")
                await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", b"1", reply=client.new_inbox())
        await client.flush()
        await client.close()
    for stream, consumers in before.items():
        assert await jsapi.consumers(broker.everything, stream) == consumers


async def test_only_who_watches_the_streams_may_list_consumers_and_it_can_touch_none(broker: Broker) -> None:
    """The other consumers have names that nobody can guess."""
    listing = {user.name for user in broker.users for one in user.rights.publish if ".CONSUMER.LIST." in one}
    assert listing == {"monitor"}
    (monitor,) = (user for user in broker.users if user.name == "monitor")
    assert {".".join(one.split(".")[2:4]) for one in monitor.rights.publish} == {"STREAM.INFO", "CONSUMER.LIST"}
