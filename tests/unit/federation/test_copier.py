"""Copying the clusters' reports: each once, all of them, in bounded groups."""

import asyncio
from collections import Counter

import pytest

from kit.federation import START, VirtualFederation, job
from kit.memory_log import MemoryLog
from muster.bus.ports import ApiError, FactRefusedError, LogUnavailableError
from muster.bus.requests import Outcome
from muster.core import Draft
from muster.federation.copier import GROUP_MAX, copy_group
from muster.schemas.facts.job import JobFinished
from muster.schemas.subjects import cluster_log


class Fed:
    """Where copies go: refuses what its subject already holds, and every so often what comes."""

    def __init__(self, *, trouble_every: int = 0) -> None:
        self.copies: dict[str, str] = {}
        self.asked = 0
        self.trouble_every = trouble_every
        self.outcomes: Counter[Outcome] = Counter()

    async def store(self, draft: Draft, fact_id: str) -> Outcome:
        self.asked += 1
        outcome = Outcome.STORED
        if self.trouble_every and self.asked % self.trouble_every == 0:
            outcome = Outcome.FULL if self.asked % 2 else Outcome.UNAVAILABLE
        elif draft.subject_id in self.copies:
            outcome = Outcome.EXISTS
        else:
            self.copies[draft.subject_id] = fact_id
        self.outcomes[outcome] += 1
        return outcome


async def reports(count: int) -> MemoryLog:
    log = MemoryLog(cluster_log("atlas"), clock=lambda: START)
    pen = log.appender("scheduler")
    started = await pen.start_term(term=1, holder="t")
    drafts = [Draft("job", job(f"j{index}").id, "succeeded", JobFinished(attempt=1)) for index in range(count)]
    await pen.append(drafts, folded_seq=started.last_seq)
    return log


async def test_every_report_is_copied_though_fed_is_full_or_away_now_and_then() -> None:
    log, fed = await reports(200), Fed(trouble_every=7)
    reader = await log.reader(after_seq=0)
    groups = seq = 0
    while len(fed.copies) < 200:
        groups += 1
        seq, before = await copy_group(reader, fed.store, retry_s=0.0), seq
        assert before < seq <= before + GROUP_MAX
    assert groups == 4
    assert fed.outcomes[Outcome.FULL]
    assert fed.outcomes[Outcome.UNAVAILABLE]


async def test_a_report_of_which_nobody_knows_now_whether_it_is_believed_waits() -> None:
    log, fed = await reports(10), Fed()
    asked = 0

    async def believes(_: Draft) -> bool:
        nonlocal asked
        asked += 1
        if asked % 2:
            raise LogUnavailableError("FED does not answer")
        return True

    await copy_group(await log.reader(after_seq=0), fed.store, believes=believes, retry_s=0.0)
    assert len(fed.copies) == 10


async def test_where_the_broker_refuses_for_good_nobody_goes_on() -> None:
    log = await reports(10)

    async def store(_: Draft, __: str) -> Outcome:
        return Outcome.UNAVAILABLE

    async def believes(draft: Draft) -> bool:
        if draft.subject_id == job("j5").id:
            raise ApiError(10, "no such stream")
        return True

    with pytest.raises(ExceptionGroup):
        await copy_group(await log.reader(after_seq=0), store, believes=believes, retry_s=0.0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_report_that_fed_never_takes_stops_no_other() -> None:
    log, fed = await reports(10), Fed()

    async def store(draft: Draft, fact_id: str) -> Outcome:
        if draft.subject_id == job("j5").id:
            raise FactRefusedError("headers of 70000 bytes")
        return await fed.store(draft, fact_id)

    assert await copy_group(await log.reader(after_seq=0), store, retry_s=0.0) == log.head_seq
    assert len(fed.copies) == 9


async def test_copying_again_from_one_group_before_the_newest_adds_nothing() -> None:
    log, fed = await reports(200), Fed()
    reader = await log.reader(after_seq=0)
    for _ in range(2):
        await copy_group(reader, fed.store)
    before = dict(fed.copies)
    again = await log.reader(after_seq=2 * GROUP_MAX - GROUP_MAX)
    await copy_group(again, fed.store)
    assert fed.copies == before
    assert fed.outcomes[Outcome.EXISTS] == GROUP_MAX


async def test_copies_end_the_jobs_of_the_federation() -> None:
    world = VirtualFederation()
    ones = [job(f"j{index}") for index in range(3)]
    for one in ones:
        world.submit(one)
    world.settle()

    async def store(draft: Draft, fact_id: str) -> Outcome:
        world.append("federation", draft)
        return Outcome.STORED

    log = await reports(3)
    await copy_group(await log.reader(after_seq=0), store)
    assert all(record.phase.is_terminal for record in world.core.state.jobs.values())
