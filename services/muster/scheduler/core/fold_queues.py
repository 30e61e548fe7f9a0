"""How facts about queues change what the scheduler believes."""

from muster.core import Fact
from muster.scheduler.core.state import Handler, State
from muster.schemas.facts.queue import QueueChanged, QueueChangeRequested, QueueState, QueueWish


def set_queue(state: State, queue: QueueState, *, at: int = 0) -> None:
    """A queue is new or different: its limits hold from now on, for those who wait too. at 0: a checkpoint says so."""
    name = queue.spec.name
    if at:
        is_quiet = state.queues.set(queue.spec, changed_at=queue.changed_at, at=at)
    else:
        state.queues.load(queue)
        is_quiet = False
    awaited = state.awaited.pop(name, None)
    if is_quiet:
        state.line.reopen_queue(name)
    else:
        state.line.reopen()
    if is_quiet and awaited is not None:  # nobody else asked for the queue of this user
        arrived = [job_id for job_id in awaited if job_id in state.arrivals]
    else:  # those of a queue that came, closed or opened; limits are judged by the cycle
        arrived = list(state.arrivals)
    for job_id in arrived:
        state.settle_arrival(state.jobs.records[job_id])
    state.moves += 1


def _change_forwarded(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, QueueChangeRequested)
    wish = fact.payload
    state.queues.wishes[fact.id] = QueueWish(fact=fact.id, spec=wish.spec, principal=wish.principal, trace=fact.trace)


def _changed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, QueueChanged)
    spec = fact.payload.spec
    if not _answer_wish(state, fact) and not _is_of_a_user(state, fact):
        state.anomalies["queue change nobody asked for"] += 1
    set_queue(state, QueueState(spec=spec, changed_at=fact.time), at=fact.time)


def _change_refused(state: State, fact: Fact) -> None:
    if not _answer_wish(state, fact):
        state.anomalies["queue change nobody asked for"] += 1


def _answer_wish(state: State, fact: Fact) -> bool:
    answered = [state.queues.wishes.pop(cause) for cause in fact.causes if cause in state.queues.wishes]
    return bool(answered)


def _is_of_a_user(state: State, fact: Fact) -> bool:
    """Whether it was made for the first job of a user, whose `routed` is its cause."""
    return fact.subject_id in state.awaited


HANDLERS: dict[tuple[str, str], Handler] = {
    ("queue", "change-forwarded"): _change_forwarded,
    ("queue", "changed"): _changed,
    ("queue", "change-refused"): _change_refused,
}
