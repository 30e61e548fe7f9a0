"""Jobs are moved to make room for a gang: only those that lose little and have another place, and only if it pays."""

import pytest

from kit.scheduler import VirtualScheduler
from muster.core import NS_PER_S, Instant
from muster.scheduler.core import answers
from muster.scheduler.core.preempt.defragmentation import EVERY_S
from muster.schemas.facts.job import JobCheckpointed, JobReserved, JobStopRequested
from muster.schemas.facts.queue import Defragment
from muster.schemas.job import Job, Phase
from muster.schemas.queries import AskJob

SLICE_S = 3_600.0


class Yard(VirtualScheduler):
    """Two nodes of four GPUs; `a` and `b` hold one GPU of each, past their slices, with checkpoints of a minute ago."""

    def __init__(self, defragment: str = "move", *, checkpoint: bool = True, **spec: object) -> None:
        super().__init__(queues=())
        self.queue("lab", defragment=Defragment(defragment))
        self.join("n0", gpus=4)
        self.join("n1", gpus=4)
        filler = self.runs("filler", gpus=3)
        self.a = self.runs("a", gpus=1, **spec)
        self.b = self.runs("b", gpus=1, **spec)
        self.exited(filler)
        assert sorted(node for one in (self.a, self.b) for node, _ in self.slots(one)) == ["n0", "n1"]
        self.advance(SLICE_S)
        if checkpoint:
            for one in (self.a, self.b):
                self.write("agent", "job", one.id, "checkpointed", JobCheckpointed(attempt=1))
        self.advance(60)

    def runs(self, name: str, **spec: object) -> Job:
        one = self.submit(name, **spec)
        assert self.phase(one) is Phase.PLACED
        self.started(one)
        return one

    def gang(self, **spec: object) -> Job:
        """Four GPUs on one node: six are idle, three on each."""
        return self.submit("gang", gpus=4, **{"min_slice_s": 600.0} | spec)

    def moved(self) -> list[str]:
        return [fact.subject_id for fact in self.log if isinstance(fact.payload, JobStopRequested)]


def test_a_job_moves_so_that_a_gang_fits_and_both_run() -> None:
    yard = Yard()
    gang = yard.gang()
    yard.advance(EVERY_S)
    (moved,) = yard.moved()
    stop, reserved = yard.last("stop-requested", moved), yard.last("reserved", gang.id)
    assert isinstance(stop.payload, JobStopRequested)
    assert isinstance(reserved.payload, JobReserved)
    assert stop.payload.made_way_for == gang.id
    assert reserved.payload.victims == (moved,)
    assert reserved.seq == stop.seq + 1, "said together"
    mover = yard.a if moved == yard.a.id else yard.b
    yard.exited(mover, "stopped", ran_s=SLICE_S)
    assert yard.phase(gang) is Phase.PLACED
    assert yard.phase(mover) is Phase.PLACED
    assert yard.slots(mover)[0][0] != yard.slots(gang)[0][0]
    yard.started(gang)
    yard.started(mover, attempt=2)
    yard.advance(2 * 3_600)
    assert len(yard.moved()) == 1, "what is stable stays stable"


@pytest.mark.parametrize(
    ("how", "spec"),
    [
        ("without a checkpoint", {"checkpoint": False}),
        ("not preemptible", {"preemptible": False}),
        ("within its slice", {"min_slice_s": 10 * SLICE_S}),
        ("not wanted", {"defragment": "never"}),
    ],
)
def test_nobody_moves(how: str, spec: dict[str, object]) -> None:
    yard = Yard(**spec)
    gang = yard.gang()
    yard.advance(EVERY_S)
    assert yard.moved() == [], how
    assert "moving" not in yard.core.state.jobs.records[gang.id].detail


def test_nobody_moves_without_another_place() -> None:
    """Four GPUs are idle: two beside the job of two, and one on each of two other nodes, where it does not fit."""
    yard = VirtualScheduler(queues=())
    yard.queue("lab", defragment=Defragment.MOVE)
    for name in ("n0", "n1", "n2"):
        yard.join(name, gpus=4)
    mover = yard.submit("mover", gpus=2)
    yard.started(mover)
    for name in ("x", "y"):
        yard.submit(name, gpus=3, preemptible=False)
    assert len({node for record in yard.core.state.jobs.records.values() for node in record.slots}) == 3
    yard.advance(SLICE_S)
    yard.write("agent", "job", mover.id, "checkpointed", JobCheckpointed(attempt=1))
    gang = yard.submit("gang", gpus=4)
    yard.advance(EVERY_S)
    record = yard.core.state.jobs.records[gang.id]
    assert (record.reason, "moving" in record.detail) == ("fragmented", False)
    assert yard.count(mover.id, "stop-requested") == 0


def test_what_was_decided_is_decided_again_until_it_is_folded() -> None:
    yard = Yard()
    gang = yard.gang()
    yard.now = Instant(yard.now + round(EVERY_S * NS_PER_S))
    first, second = yard.core.decide(yard.now), yard.core.decide(yard.now)
    assert [draft.name for draft in first] == ["stop-requested", "reserved"]
    assert first == second
    assert first[-1].subject_id == gang.id


def test_advice_says_who_what_it_costs_and_what_it_saves() -> None:
    yard = Yard("advise")
    gang = yard.gang()
    yard.advance(EVERY_S)
    assert yard.moved() == []
    record = yard.core.state.jobs.records[gang.id]
    assert "moving a to other nodes would make room: it costs 0.0 GPU hours and saves 2.0" in record.detail
    answer = answers.answer_why(yard.core, AskJob(job_id=gang.id), yard.now)
    assert answer.reason == "fragmented"
    assert "moving a to other nodes would make room" in answer.detail
    assert yard.core.decide(yard.now) == []


def test_it_is_not_done_if_it_costs_more_than_it_gains() -> None:
    """The gang would have room in half an hour, when it starves: 2 GPU hours. A move would throw away 5."""
    yard = Yard()
    yard.advance(5 * 3_600)
    gang = yard.gang()
    yard.advance(3 * EVERY_S)
    record = yard.core.state.jobs.records[gang.id]
    assert (record.reason, "moving" in record.detail) == ("fragmented", False)
    assert yard.moved() == []
