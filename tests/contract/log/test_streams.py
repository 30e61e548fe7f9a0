"""The bootstrap step, sourcing between streams, and single facts."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from contract.log.nats_bench import NatsBench, connect, nats_bench, settings
from contract.log.suite import CLUSTER, JOB, TRACE, fold, leader, queued
from kit.servers import NatsServer
from muster.bus import jsapi, streams
from muster.bus.nats_log import NatsLog
from muster.bus.ports import StreamConflictError
from muster.bus.requests import Outcome, append_single
from muster.core.fact import Draft, Fact
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.job import JobCancelRequested, JobFinished
from muster.schemas.subjects import FED_LOG, FED_UP_LOG, LogName, fact_subject

pytestmark = pytest.mark.connected
CANCEL = Draft("job", JOB, "cancel-requested", JobCancelRequested(principal="me"), trace=TRACE)
CANCEL_SUBJECT = fact_subject(FED_LOG, writer="gateway", kind="job", subject_id=JOB, name="cancel-requested")


@pytest.fixture
async def bench(nats_plain_shared: NatsServer) -> AsyncIterator[NatsBench]:
    async with nats_bench(nats_plain_shared.url) as bench:
        yield bench


async def config(bench: NatsBench, stream: str) -> dict[str, object]:
    info = await jsapi.stream_info(bench.connection, stream)
    assert info is not None
    return info.config


async def arrived(bench: NatsBench, log: LogName, count: int) -> list[Fact]:
    """The first facts that come into a log from elsewhere."""
    reader = await NatsLog(bench.connection, log).reader(after_seq=0)
    facts: list[Fact] = []
    async with asyncio.timeout(10):
        while len(facts) < count:
            facts.extend((await reader.read(limit=100, timeout_s=1)).facts)
    await reader.close()
    return facts


async def test_logs_refuse_when_full_and_forget_nothing_by_age(bench: NatsBench) -> None:
    for stream in (bench.name.stream, FED_LOG.stream):
        made = await config(bench, stream)
        assert (made["discard"], made["max_age"], made["allow_atomic"], made["deny_delete"]) == ("new", 0, True, True)


async def test_no_stream_is_read_from_a_follower(bench: NatsBench) -> None:
    for stream in streams.plan(settings()):
        assert not (await config(bench, stream.name)).get("allow_direct"), stream.name


async def test_bootstrap_again_changes_only_what_drifted(bench: NatsBench) -> None:
    before = {plan.name: await config(bench, plan.name) for plan in streams.plan(settings())}
    await jsapi.call(
        bench.connection, f"STREAM.UPDATE.{FED_LOG.stream}", {**before[FED_LOG.stream], "duplicate_window": 10**9}
    )

    await streams.bootstrap(bench.connection, settings())

    assert {plan.name: await config(bench, plan.name) for plan in streams.plan(settings())} == before


async def test_bootstrap_follows_the_settings(bench: NatsBench) -> None:
    await streams.bootstrap(bench.connection, settings(lease_ttl_s=7.0, log_bytes_max=2**30))

    assert (await config(bench, "KV_leases"))["max_age"] == 7_000_000_000
    assert (await config(bench, bench.name.stream))["max_bytes"] == 2**30


async def test_bootstrap_refuses_a_size_below_what_is_stored(bench: NatsBench) -> None:
    pen = await leader(bench.log)
    await pen.append([queued(n) for n in range(5000)], folded_seq=2)

    with pytest.raises(StreamConflictError, match=bench.name.stream):
        await streams.bootstrap(bench.connection, settings(log_bytes_max=1024**2))


async def test_another_clusters_reports_stay_when_one_starts(bench: NatsBench) -> None:
    other = settings().model_copy(update={"cluster": "borealis"})
    await streams.bootstrap(bench.connection, other)
    await streams.bootstrap(bench.connection, settings())

    sources = (await config(bench, FED_UP_LOG.stream))["sources"]

    assert isinstance(sources, list)
    assert {source["name"] for source in sources} == {"LOG_atlas", "LOG_borealis"}
    for stream in ("LOG_borealis", "TELEMETRY_borealis", "LOGS_borealis"):
        await jsapi.call(bench.connection, f"STREAM.DELETE.{stream}")


async def test_what_federation_says_to_a_cluster_comes_into_its_log(bench: NatsBench) -> None:
    pen = await leader(NatsLog(bench.connection, FED_LOG), service="federation")
    forwarded = Draft("job", JOB, "cancel-forwarded", JobCancelRequested(principal="me"), ("c",), TRACE)
    await pen.append(
        [
            Draft("job", JOB, "cancel-forwarded", forwarded.payload, ("c",), TRACE, cluster=CLUSTER),
            Draft("job", JOB, "cancel-forwarded", forwarded.payload, cluster="borealis"),
        ],
        folded_seq=2,
    )

    [fact] = await arrived(bench, bench.name, 1)

    original = (await fold(NatsLog(bench.connection, FED_LOG)))[3]
    assert (fact.cluster, fact.writer, fact.kind, fact.subject_id) == (CLUSTER, "federation", "job", JOB)
    assert (fact.id, fact.trace, fact.causes, fact.payload) == (
        original.id, original.trace, ("c",), forwarded.payload,
    )  # fmt: skip


async def test_ends_and_summaries_come_into_the_reports_and_nothing_else(bench: NatsBench) -> None:
    pen = await leader(bench.log)
    await pen.append(
        [
            queued(1),
            Draft("job", JOB, "succeeded", JobFinished(attempt=1)),
            Draft("cluster", CLUSTER, "summarised", ClusterSummary(nodes=3)),
        ],
        folded_seq=2,
    )

    facts = await arrived(bench, FED_UP_LOG, 2)

    assert [(fact.cluster, fact.writer, fact.name) for fact in facts] == [
        (CLUSTER, "scheduler", "succeeded"), (CLUSTER, "scheduler", "summarised"),
    ]  # fmt: skip


async def test_a_single_fact_is_stored_once(bench: NatsBench) -> None:
    for expected in (Outcome.STORED, Outcome.EXISTS):
        single = await append_single(
            bench.connection, FED_LOG, service="gateway", draft=CANCEL, fact_id="r1", expect_new=True
        )
        assert single.outcome is expected
    other = await append_single(
        bench.connection, FED_LOG, service="gateway", draft=CANCEL, fact_id="r2", expect_new=True
    )

    assert other.outcome is Outcome.EXISTS
    [fact] = await fold(NatsLog(bench.connection, FED_LOG))
    assert (fact.id, fact.writer, fact.payload) == ("r1", "gateway", CANCEL.payload)


async def test_the_newest_fact_on_a_subject_is_looked_up_at_the_leader(bench: NatsBench) -> None:
    assert await jsapi.last_on_subject(bench.connection, FED_LOG.stream, CANCEL_SUBJECT) is None
    await append_single(bench.connection, FED_LOG, service="gateway", draft=CANCEL, fact_id="r1")

    found = await jsapi.last_on_subject(bench.connection, FED_LOG.stream, CANCEL_SUBJECT)

    assert found is not None
    assert (found.seq, found.headers["ce-id"]) == (1, "r1")
    assert JobCancelRequested.model_validate_json(found.body) == CANCEL.payload
    assert found.time == (await fold(NatsLog(bench.connection, FED_LOG)))[0].time


async def test_a_single_fact_finds_a_full_stream(bench: NatsBench) -> None:
    made = await config(bench, FED_LOG.stream)
    await jsapi.call(bench.connection, f"STREAM.UPDATE.{FED_LOG.stream}", {**made, "max_bytes": 100})

    single = await append_single(bench.connection, FED_LOG, service="gateway", draft=CANCEL, fact_id="r1")

    assert single.outcome is Outcome.FULL


async def test_a_single_fact_finds_no_stream(nats_plain_shared: NatsServer, bench: NatsBench) -> None:
    await jsapi.call(bench.connection, f"STREAM.DELETE.{bench.name.stream}")
    await jsapi.call(bench.connection, f"STREAM.DELETE.{FED_LOG.stream}")
    client = await connect(nats_plain_shared.url)

    single = await append_single(client, FED_LOG, service="gateway", draft=CANCEL, fact_id="r1")

    assert single.outcome is Outcome.UNAVAILABLE
    await client.close()
