"""How facts about queues change what the scheduler believes."""

from muster.core import Fact
from muster.scheduler.core.jobs import HOLDING
from muster.scheduler.core.state import Handler, State
from muster.schemas.facts.queue import QueueChanged, QueueChangeRequested, QueueState, QueueWish


def set_queue(state: State, name: str, queue: QueueState) -> None:
    """A queue is new or different: its limits hold from now on, for those who wait too."""
    is_new = name not in state.queues.queues
    state.queues.set(queue.spec, changed_at=queue.changed_at)
    if is_new:
        _recount(state, name)
    for job_id in state.arrivals:  # those of a queue that came, closed or opened; limits are judged by the cycle
        state.enlist(state.jobs.records[job_id])
    state.line.reopen()


def _change_forwarded(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, QueueChangeRequested)
    wish = fact.payload
    state.queues.wishes[fact.id] = QueueWish(fact=fact.id, spec=wish.spec, principal=wish.principal, trace=fact.trace)


def _changed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, QueueChanged)
    _answer_wish(state, fact)
    set_queue(state, fact.payload.spec.name, QueueState(spec=fact.payload.spec, changed_at=fact.time))


def _change_refused(state: State, fact: Fact) -> None:
    _answer_wish(state, fact)


def _answer_wish(state: State, fact: Fact) -> None:
    answered = [state.queues.wishes.pop(cause) for cause in fact.causes if cause in state.queues.wishes]
    if not answered:
        state.anomalies["queue change nobody asked for"] += 1


def _recount(state: State, queue: str) -> None:
    """Count what the jobs of a queue hold that came after them: parts of a checkpoint come in any order."""
    held = sum(r.held_milli for r in state.jobs.records.values() if r.queue == queue and r.phase in HOLDING)
    state.queues.hold(queue, held - state.queues.queues[queue].own_milli)


HANDLERS: dict[tuple[str, str], Handler] = {
    ("queue", "change-forwarded"): _change_forwarded,
    ("queue", "changed"): _changed,
    ("queue", "change-refused"): _change_refused,
}
