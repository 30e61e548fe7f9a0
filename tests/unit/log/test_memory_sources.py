"""Logs in memory feed each other as the real streams do."""

from kit.memory_log import MemoryLog, source_addressed, source_reports
from muster.core.fact import Draft, Fact
from muster.core.instant import Instant
from muster.schemas.facts.job import JobCancelRequested, JobFinished, JobQueued
from muster.schemas.subjects import FED_LOG, FED_UP_LOG, cluster_log

NOW = Instant(5)
REQUEST = JobCancelRequested(principal="me")


def memory(name: str) -> MemoryLog:
    return MemoryLog({"fed": FED_LOG, "up": FED_UP_LOG}.get(name, cluster_log(name)), clock=lambda: NOW)


async def facts(log: MemoryLog) -> list[Fact]:
    reader = await log.reader(after_seq=0)
    return list((await reader.read(limit=1000, timeout_s=0)).facts)


def forwarded(job: str, cluster: str) -> Draft:
    return Draft("job", job, "cancel-forwarded", REQUEST, cluster=cluster)


async def test_a_cluster_takes_what_federation_says_to_it() -> None:
    fed, atlas = memory("fed"), memory("atlas")
    source_addressed(fed, atlas)
    pen = fed.appender("federation")
    await pen.start_term(term=1, holder="f")

    await pen.append([forwarded("A", "atlas"), forwarded("B", "borealis"), forwarded("C", "")], folded_seq=2)

    assert [(f.seq, f.subject_id, f.cluster, f.payload) for f in await facts(atlas)] == [(1, "A", "atlas", REQUEST)]


async def test_reports_take_ends_and_nothing_else() -> None:
    atlas, up = memory("atlas"), memory("up")
    source_reports(atlas, up)
    pen = atlas.appender("scheduler")
    await pen.start_term(term=1, holder="s")

    await pen.append(
        [
            Draft("job", "A", "queued", JobQueued(queue="q", attempt=1)),
            Draft("job", "A", "succeeded", JobFinished(attempt=1)),
        ],
        folded_seq=2,
    )

    assert [(f.name, f.cluster) for f in await facts(up)] == [("succeeded", "atlas")]


async def test_what_a_full_log_cannot_take_waits_at_its_origin() -> None:
    fed, atlas = memory("fed"), memory("atlas")
    source = source_addressed(fed, atlas)
    atlas.messages_max = 2
    pen = fed.appender("federation")
    await pen.start_term(term=1, holder="f")

    await pen.append([forwarded(job, "atlas") for job in "ABCD"], folded_seq=2)
    assert [f.subject_id for f in await facts(atlas)] == ["A", "B"]
    atlas.purge(1)
    source.pull()

    assert [f.subject_id for f in await facts(atlas)] == ["B", "C"]
