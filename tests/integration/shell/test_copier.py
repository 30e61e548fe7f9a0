"""The federation's copier over a real nats-server: what the cluster reports stands in FED, each end once."""

from collections.abc import AsyncIterator

import pytest

from kit.federation import VirtualFederation, job
from kit.servers import CLUSTER, DECLARATIONS, running_nats
from kit.stack.hosted import HostedServices
from kit.stack.living import until_async
from muster.bus.nats_log import NatsLog
from muster.bus.requests import append_single
from muster.core import Draft, Fact
from muster.federation.copier import GROUP_MAX, Copier
from muster.federation.declaration import DECLARATION
from muster.federation.reports import Desk
from muster.schemas.facts.job import JobEnded, JobFinished, JobRouted
from muster.schemas.ids import request_fact_id
from muster.schemas.subjects import FED_LOG, FED_UP_LOG, LogName

pytestmark = pytest.mark.connected


@pytest.fixture
async def harness() -> AsyncIterator[HostedServices]:
    """Bootstrapped, with the rights that the federation really declares."""
    others = tuple(one for one in DECLARATIONS if one.service != DECLARATION.service)
    with running_nats(declarations=(*others, DECLARATION)) as server:
        harness = HostedServices(server)
        await harness.prepare()
        yield harness
        await harness.end()


async def report(harness: HostedServices, *names: str, delivery: str = "first") -> set[str]:
    """These jobs end in the cluster. Returns their ids. delivery: of the same end; each is a message of its own."""
    ended = {name: job(name).id for name in names}
    for name, job_id in ended.items():
        draft = Draft("job", job_id, "succeeded", JobFinished(attempt=1))
        await harness.store("scheduler", draft, request_fact_id("end", name, delivery))
    return set(ended.values())


async def end_of(harness: HostedServices, name: str, *, assignment: int, delivery: str = "first") -> None:
    """The job's assignment ends in the cluster."""
    draft = Draft("job", job(name).id, "succeeded", JobFinished(attempt=1, assignment=assignment))
    await harness.store("scheduler", draft, request_fact_id("end", name, str(assignment), delivery))


async def stored(harness: HostedServices, log: LogName, name: str) -> list[Fact]:
    """The facts of this name in a log."""
    reader = await NatsLog(await harness.client("reader"), log).reader(after_seq=0)
    found: list[Fact] = []
    head, seq = await reader.head(), 0
    while seq < head:
        batch = await reader.read(limit=1000, timeout_s=1)
        found += batch.facts
        seq = batch.last_seq
    await reader.close()
    return [fact for fact in found if fact.name == name]


async def until_copied(harness: HostedServices, job_ids: set[str]) -> list[Fact]:
    """Wait until these jobs have ended in FED; every `job-ended` that stands there then."""

    async def is_there() -> bool:
        return job_ids <= {fact.subject_id for fact in await stored(harness, FED_LOG, "job-ended")}

    await until_async(is_there)
    return await stored(harness, FED_LOG, "job-ended")


async def test_ends_that_came_before_and_after_the_copier_are_copied_each_once(harness: HostedServices) -> None:
    before = await report(harness, *(f"early-{index}" for index in range(GROUP_MAX + 6)))
    await harness.host(Copier(DECLARATION))
    after = await report(harness, "late-0", "late-1")
    copies = await until_copied(harness, before | after)
    assert sorted(fact.subject_id for fact in copies) == sorted(before | after)
    reports = {fact.seq: fact for fact in await stored(harness, FED_UP_LOG, "succeeded")}
    for copy in copies:
        assert isinstance(copy.payload, JobEnded)
        source = reports[copy.payload.source_seq]
        assert (source.subject_id, copy.causes) == (copy.subject_id, (source.id,))


async def test_reports_that_come_a_second_time_end_no_job_again(harness: HostedServices) -> None:
    """As when FED_UP takes a cluster's reports from the beginning once more: the same ends at new sequences."""
    await harness.host(Copier(DECLARATION))
    ended = await report(harness, "a", "b", "c")
    before = await until_copied(harness, ended)
    await report(harness, "a", "b", "c", delivery="second")
    last = await report(harness, "last")
    copies = await until_copied(harness, last)  # what stands before it in FED_UP was looked at
    assert len(await stored(harness, FED_UP_LOG, "succeeded")) == 2 * len(ended) + len(last)
    assert sorted(fact.subject_id for fact in copies) == sorted(ended | last)
    assert [fact for fact in copies if fact.subject_id in ended] == before


async def test_two_copiers_and_one_that_starts_again_add_nothing(harness: HostedServices) -> None:
    first = await harness.host(Copier(DECLARATION))
    await harness.host(Copier(DECLARATION))
    ended = await report(harness, *(f"j{index}" for index in range(20)))
    await until_copied(harness, ended)
    await first.end()
    await harness.host(Copier(DECLARATION))
    last = await report(harness, "last")
    copies = await until_copied(harness, last)
    assert sorted(fact.subject_id for fact in copies) == sorted(ended | last)


async def test_old_reports_make_room_and_nothing_is_copied_again(harness: HostedServices) -> None:
    kept = GROUP_MAX + 1
    copier = await harness.host(Copier(DECLARATION, kept=kept))
    ended = await report(harness, *(f"old-{index}" for index in range(3 * kept)))
    await until_copied(harness, ended)

    async def has_room() -> bool:
        return len(await stored(harness, FED_UP_LOG, "succeeded")) < 2 * kept

    await until_async(has_room)
    await copier.end()
    await harness.host(Copier(DECLARATION, kept=kept))
    last = await report(harness, "last")
    copies = await until_copied(harness, last)
    assert sorted(fact.subject_id for fact in copies) == sorted(ended | last)


async def test_a_late_end_of_an_earlier_assignment_keeps_none_out_and_none_comes_after_a_later_one(
    harness: HostedServices,
) -> None:
    await harness.host(Copier(DECLARATION))
    await end_of(harness, "early", assignment=1)
    await until_copied(harness, {job("early").id})
    for assignment in (2, 2):
        await end_of(harness, "early", assignment=assignment, delivery="again")
    await end_of(harness, "late", assignment=3)
    await until_copied(harness, {job("late").id})
    await end_of(harness, "late", assignment=1)
    last = await report(harness, "last")
    copies = await until_copied(harness, last)

    def ends(name: str) -> list[int]:
        found = [fact.payload for fact in copies if fact.subject_id == job(name).id]
        return [ended.assignment for ended in found if isinstance(ended, JobEnded)]

    assert (ends("early"), ends("late")) == ([1, 2], [3])


async def give(harness: HostedServices, name: str, cluster: str) -> str:
    """The federation gives the job to a cluster; its id."""
    one = job(name)
    routed = Draft("job", one.id, "routed", JobRouted(job=one, cluster=cluster), cluster=cluster)
    client = await harness.client("federation")
    await append_single(client, FED_LOG, service="federation", draft=routed, fact_id=request_fact_id("given", name))
    return one.id


async def test_a_cell_ends_no_job_of_another_and_keeps_no_end_of_its_own_out(harness: HostedServices) -> None:
    """The core that is asked first knows of no job yet: what stands in FED counts."""
    desk = Desk()
    desk.take(VirtualFederation().core)
    await harness.host(Copier(DECLARATION, desk=desk))
    own, others = await give(harness, "own", CLUSTER), await give(harness, "others", "west")
    await end_of(harness, "own", assignment=1_000)
    await report(harness, "others", "nobodys")
    await end_of(harness, "own", assignment=1)
    copies = await until_copied(harness, {own})
    assert [(fact.subject_id, fact.payload.assignment) for fact in copies if isinstance(fact.payload, JobEnded)] == [
        (own, 1)
    ]
    assert others not in {fact.subject_id for fact in copies}
