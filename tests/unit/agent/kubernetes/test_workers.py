"""Workers make a bounded number of calls at a time, only while they may write, and rest while nobody answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from muster.agent.core.kubernetes.calls import Call, Delete, Done, Kind, Outcome, Refused, Unanswered
from muster.agent.core.kubernetes.worklist import Purpose, Task, Worklist
from muster.agent.kubernetes.workers import IN_A_ROW, Workers
from muster.core import Instant
from unit.agent.kubernetes.rig import at


def call(name: str) -> Delete:
    return Delete(Kind.PODS, "jobs", name)


@dataclass(frozen=True, slots=True)
class Errand(Purpose):
    name: str


@dataclass
class Office:
    """Calls to be made, and an API server that a test lets answer."""

    leads: bool = True
    answer: Outcome = field(default_factory=Done)
    work: Worklist = field(default_factory=Worklist)
    outages: int = 0
    begun: list[str] = field(default_factory=list)
    told: list[Outcome] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.work.serve(self, Errand)

    def take(self, now: Instant) -> Task | None:
        return self.work.take(now)

    def finished(self, task: Task, outcome: Outcome, now: Instant) -> None:
        self.work.finished(task, outcome, now)

    def outage(self, now: Instant) -> None:
        self.outages += 1

    async def perform(self, call: Call) -> Outcome:
        self.begun.append(call.name)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.gate.wait()
        self.at_once -= 1
        return self.answer

    def ask(self, *names: str) -> None:
        for name in names:
            self.work.ask(Errand(name), call(name))

    def answered(self, purpose: Errand, outcome: Outcome, now: Instant) -> None:
        self.told.append(outcome)


@asynccontextmanager
async def working(office: Office, most: int = 2) -> AsyncIterator[Workers]:
    workers = Workers(
        office, office.perform, most=most, may_write=lambda: office.leads, now=lambda: at(0), after=lambda: None
    )
    task = asyncio.create_task(workers.run())
    try:
        await settled()
        yield workers
    finally:
        task.cancel()
        await asyncio.wait({task})


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_than_so_many_calls_are_under_way() -> None:
    office = Office()
    office.ask(*"abcde")
    async with working(office) as workers:
        assert (office.begun, workers.under_way) == (["a", "b"], 2)
        office.gate.set()
        await settled()
        assert (len(office.told), office.most_at_once) == (5, 2)


async def test_nothing_is_written_by_who_does_not_lead() -> None:
    office = Office(leads=False)
    office.ask("a")
    async with working(office) as workers:
        assert office.begun == []
        office.leads = True
        workers.feed()
        await settled()
        assert office.begun == ["a"]


async def test_who_lost_the_lease_between_taking_and_sending_sends_nothing() -> None:
    office = Office()
    async with working(office) as workers:
        office.ask("a")
        workers.feed()
        office.leads = False
        await settled()
        assert office.begun == []
        assert office.work.asks(Errand("a")), "it waits, for whoever leads"


async def test_all_rest_while_the_server_cannot_be_reached() -> None:
    office = Office(answer=Unanswered("connection refused"))
    office.gate.set()
    office.ask(*"abcdef")
    async with working(office) as workers:
        assert len(office.begun) == 1, "the first one found out"
        assert (workers.unanswered, office.outages) == (1, 1)


async def test_an_error_that_concerns_one_call_holds_no_other_up() -> None:
    office = Office(answer=Unanswered("500 from a webhook", reached=True))
    office.gate.set()
    office.ask("a")
    async with working(office) as workers:
        office.answer = Done()
        office.ask("b")
        workers.feed()
        await settled()
        assert (office.begun, office.outages) == (["a", "b"], 0)


async def test_errors_without_one_good_answer_between_are_an_outage() -> None:
    office = Office(answer=Unanswered("etcdserver: request timed out", reached=True))
    office.gate.set()
    office.ask(*(f"call-{number}" for number in range(3 * IN_A_ROW)))
    async with working(office):
        assert office.outages == 1
        assert len(office.begun) <= IN_A_ROW + 1


async def test_one_call_that_always_fails_is_no_outage_however_often_it_is_tried() -> None:
    office = Office(answer=Unanswered("500 from a webhook", reached=True))
    office.gate.set()
    now_s = [0.0]
    office.ask("poisoned")
    workers = Workers(
        office, office.perform, most=2, may_write=lambda: True, now=lambda: at(now_s[0]), after=lambda: None
    )
    task = asyncio.create_task(workers.run())
    for _ in range(3 * IN_A_ROW):
        now_s[0] += 20.0
        workers.feed()
        await settled()
    task.cancel()
    await asyncio.wait({task})
    assert len(office.begun) > IN_A_ROW
    assert office.outages == 0


async def test_a_refusal_is_an_answer() -> None:
    office = Office(answer=Refused(409, "Conflict"))
    office.gate.set()
    office.ask("a")
    async with working(office):
        assert office.told == [Refused(409, "Conflict")]
        assert office.outages == 0
