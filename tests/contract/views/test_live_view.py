"""The live view over a real broker and a real Redis: who joins sees what the log says, whatever fails meanwhile."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis import Redis

from contract.views.live_harness import LiveHarness, Looking, record_attempt
from kit.projector import Story, a_job
from kit.servers import CLUSTER, NatsServer, RedisServer, redis_admin
from kit.waiting import until, until_async
from muster.core.fact import Fact
from muster.gateway.ports import UnreachableError
from muster.schemas.facts.control import CheckpointRequested
from muster.schemas.facts.node import NodeLeft
from muster.schemas.live import LiveTelemetry, Snapshot
from muster.schemas.subjects import output_subject, telemetry_subject
from muster.schemas.telemetry import DeviceSample, NodeSample, OutputLines
from muster.schemas.views import JobView, NodeView

pytestmark = pytest.mark.connected


@pytest.fixture
async def harness(nats_server: NatsServer, redis_url: str) -> AsyncIterator[LiveHarness]:
    harness = await LiveHarness.start(nats_server, redis_url)
    yield harness
    await harness.end()


def life(*, jobs: int) -> list[Fact]:
    story = Story()
    story.node("n1")
    story.queue("blue")
    for number in range(jobs):
        job = a_job(number, team="blue" if number % 2 else "red")
        story.routed(job)
        story.queued(job)
        story.placed(job)
        story.running(job)
        if number % 3:
            story.ended(job)
    return story.facts


def same(looking: Looking, harness: LiveHarness) -> None:
    """The dashboard shows what was folded."""
    changes = harness.core.take_all(rows_after=0)
    live = [JobView.model_validate_json(job.body) for job in changes.jobs if not job.phase.is_terminal]
    shown = {id_: job for id_, job in looking.dashboard.jobs.items() if not job.phase.is_terminal}
    assert shown == {job.id: job for job in live}
    nodes = [NodeView.model_validate_json(body) for body in changes.nodes.values() if body is not None]
    assert looking.dashboard.nodes == {node.name: node for node in nodes}


async def test_who_joins_while_much_happens_misses_nothing(harness: LiveHarness) -> None:
    facts = life(jobs=60)
    await harness.lead(facts[:20])
    looking = await harness.look("*")

    async def go_on() -> None:
        for start in range(20, len(facts), 7):
            await harness.fold(facts[start : start + 7])
            await asyncio.sleep(0.01)

    await asyncio.gather(go_on(), looking.catch_up(seq=20))
    await looking.catch_up(seq=facts[-1].seq)
    same(looking, harness)


async def test_who_was_cut_off_comes_back_and_sees_all(harness: LiveHarness) -> None:
    facts = life(jobs=30)
    await harness.lead(facts[:20])
    looking = await harness.look("*")
    await looking.catch_up(seq=20)
    await looking.client.close()
    await harness.fold(facts[20:90])
    await harness.stored(90)
    again = await harness.look("*")
    again.dashboard = looking.dashboard
    await harness.fold(facts[90:])
    await again.catch_up(seq=facts[-1].seq)
    assert again.dashboard.gaps == 1
    same(again, harness)


async def test_another_leader_goes_on_where_the_first_one_stopped(harness: LiveHarness) -> None:
    facts = life(jobs=30)
    await harness.lead(facts[:20])
    looking = await harness.look("*")
    await looking.catch_up(seq=20)
    await harness.fold(facts[20:60])
    await looking.catch_up(seq=60)
    await harness.lead(facts[:80])  # it has folded what the first one did not tell
    await harness.fold(facts[80:])
    await looking.catch_up(seq=facts[-1].seq)
    same(looking, harness)


async def test_who_does_not_lead_says_nothing(harness: LiveHarness) -> None:
    facts = life(jobs=3)
    await harness.lead(facts[:4])
    looking = await harness.look("*")
    await looking.catch_up(seq=4)
    harness.leads = False
    await harness.fold(facts[4:])
    before = len(looking.subjects("fed.public.slice"))
    await until(lambda: len(looking.subjects("fed.public.slice")) > before + 1)  # the other log's pulses
    assert not any(seq > 4 for _, seq in looking.dashboard.facts)
    harness.leads = True
    await looking.catch_up(seq=facts[-1].seq)
    assert looking.dashboard.gaps == 0
    same(looking, harness)


async def test_a_fact_that_changes_nothing_makes_nobody_ask_for_ever(harness: LiveHarness) -> None:
    story = Story()
    story.node("n1")
    await harness.lead(story.facts)
    unseen = story.add("log", "x", "checkpoint-requested", CheckpointRequested())
    harness.core.apply(unseen)
    looking = await harness.look("*")
    await looking.catch_up(seq=unseen.seq)
    same(looking, harness)


async def test_the_view_goes_on_without_redis(nats_server: NatsServer, redis_server: RedisServer) -> None:
    harness = await LiveHarness.start(nats_server, redis_server.url)
    facts = life(jobs=20)
    await harness.lead(facts[:20])
    looking = await harness.look("*")
    await looking.catch_up(seq=20)
    redis_server.kill()
    await harness.fold(facts[20:])
    await looking.catch_up(seq=facts[-1].seq)
    same(looking, harness)
    with pytest.raises(UnreachableError):
        await looking.join()
    redis_server.start()
    await harness.stored(facts[-1].seq)
    late = await harness.look("*")
    await late.catch_up(seq=facts[-1].seq)
    same(late, harness)
    await harness.end()


async def test_a_redis_that_was_flushed_gives_no_snapshot_until_it_is_whole_again(
    harness: LiveHarness, redis_url: str
) -> None:
    facts = life(jobs=20)
    await harness.lead(facts[:20])
    await harness.stored(20)
    Redis.from_url(redis_admin(redis_url)).flushall()
    looking = await harness.look("*")
    with pytest.raises(UnreachableError):
        await looking.join()
    await harness.fold(facts[20:])
    await looking.catch_up(seq=facts[-1].seq)
    same(looking, harness)


async def test_a_team_sees_its_own_bodies_and_nobody_elses(harness: LiveHarness) -> None:
    facts = life(jobs=4)
    await harness.lead()
    await harness.stored(0)
    blue = await harness.look("blue")
    await blue.join()
    await harness.fold(facts)
    await blue.catch_up(seq=facts[-1].seq)
    await record_attempt(blue, "blue.slice")
    told = {fact.subject_id: bool(fact.body) for fact in blue.dashboard.facts.values() if fact.kind == "job"}
    assert told == {a_job(number, team="blue" if number % 2 else "red").id: bool(number % 2) for number in range(4)}
    assert {job.team for job in blue.dashboard.jobs.values()} == {"blue", "red"}


def sample(node: str, load: float) -> bytes:
    device = DeviceSample(
        index=1, uuid="u", utilisation_pct=load, memory_used_mib=5, memory_total_mib=9, power_w=7.0, temperature_c=40.0
    )
    return NodeSample(node=node, at=9, devices=(device,)).model_dump_json().encode()


async def test_the_newest_readings_come_once_and_stand_in_the_snapshot(harness: LiveHarness) -> None:
    facts = life(jobs=1)
    await harness.lead(facts)
    looking = await harness.look("blue")
    for node, load in (("n1", 10.0), ("n1", 20.0), ("unknown", 30.0)):
        await harness.publish(telemetry_subject(CLUSTER, node), sample(node, load), user="telemetry")
    await harness.publish(telemetry_subject(CLUSTER, "n2"), b"nothing to be read", user="telemetry")
    no_json = sample("n1", 20.0).replace(b"20.0", b"NaN")  # as a driver may report it: no page could read it
    await harness.publish(telemetry_subject(CLUSTER, "n3"), no_json, user="telemetry")
    told = LiveTelemetry.model_validate_json((await record_attempt(looking, "telemetry")).data)
    assert told.nodes == {"n1": (None, (20.0, 40.0, 5, 7.0))}
    snapshot = await _snapshot_with_telemetry(looking)
    assert snapshot.telemetry == told.nodes


async def _snapshot_with_telemetry(looking: Looking) -> Snapshot:
    snapshots: list[Snapshot] = []

    async def has_readings() -> bool:
        snapshots.append(await looking.join())
        return bool(snapshots[-1].telemetry)

    await until_async(has_readings, patience_s=20)
    return snapshots[-1]


async def test_readings_of_a_node_go_with_it(harness: LiveHarness) -> None:
    story = Story()
    story.node("n1")
    await harness.lead(story.facts)
    looking = await harness.look("blue")
    await harness.publish(telemetry_subject(CLUSTER, "n1"), sample("n1", 10.0), user="telemetry")
    await _snapshot_with_telemetry(looking)
    await harness.fold([story.add("node", "n1", "left", NodeLeft())])
    await harness.stored(3)
    assert (await looking.join()).telemetry == {}


async def test_a_jobs_output_goes_to_its_team_alone_and_only_while_it_lives(harness: LiveHarness) -> None:
    facts = life(jobs=2)  # the first still runs, the second ended
    await harness.lead(facts)
    red, blue = await harness.look("red"), await harness.look("blue")
    running, ended = a_job(0, team="red"), a_job(1, team="blue")
    for job in (ended, running):
        lines = OutputLines(job_id=job.id, attempt=1, at=1, lines=("hello",))
        await harness.publish(output_subject(CLUSTER, job.id), lines.model_dump_json().encode())
    message = await record_attempt(red, f"output.{running.id}")
    assert OutputLines.model_validate_json(message.data).lines == ("hello",)
    assert blue.subjects("output") == []
