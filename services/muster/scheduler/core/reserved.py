"""Who has a reservation is placed before anybody else: exactly there, once all of it is kept for the job."""

from muster.core import Draft, Instant
from muster.scheduler.core.access import Access
from muster.scheduler.core.booked_jobs import holds_of
from muster.scheduler.core.follow import draft
from muster.scheduler.core.holdings import amounts_of
from muster.scheduler.core.jobs import JobRecord
from muster.scheduler.core.state import State
from muster.schemas.facts.job import JobPlaced
from muster.schemas.job import Phase


def place_reserved(state: State, now: Instant, drafts: list[Draft]) -> set[str]:
    """`placed` for jobs whose booking is complete and whose quota admits them. Returns the jobs."""
    bookings = state.books.bookings
    placed: set[str] = set()
    for key in tuple(bookings.complete):
        record = state.jobs.records.get(key)
        if record is not None and _may_run(state, record) and _propose(state, record, now):
            drafts.append(_placed(state, record))
            placed.add(key)
    return placed


def _may_run(state: State, record: JobRecord) -> bool:
    """Whether it waits, and its quota admits what is reserved."""
    if record.reserved is None or record.phase is not Phase.QUEUED or record.cancel_fact:
        return False
    if record.queue not in state.queues.queues:
        return False
    amounts = amounts_of(record.kind, record.reserved.slots, state.capacity.models)
    return state.queues.ceiling(record.queue, amounts, preemptible=record.kind.preemptible) is None


def _propose(state: State, record: JobRecord, now: Instant) -> bool:
    """Propose the reserved slots. What other jobs booked is open; what people reserved only if it is late enough."""
    assert record.reserved is not None
    books = state.books
    access = Access(books.bookings, state.queues, now)
    door = access.door(record)
    keys = {key for key, booking in books.bookings.all.items() if not booking.is_reservation}
    keys |= access.keys(door) if door is not None else frozenset()
    with books.bookings.opened(keys):
        holds = holds_of(books, record)
        if not holds or not books.propose_at(record.id, holds):
            return False
    books.bookings.lend(record.id)
    amounts = amounts_of(record.kind, record.reserved.slots, state.capacity.models)
    state.queues.propose(record.queue, amounts, preemptible=record.kind.preemptible)
    return True


def _placed(state: State, record: JobRecord) -> Draft:
    assert record.reserved is not None
    payload = JobPlaced(attempt=record.attempt, slots=record.reserved.slots, slice_s=record.min_slice_s)
    causes: tuple[str, ...] = (record.last_fact,)
    if state.books.freed_seq > record.routed_seq:
        causes = (record.last_fact, state.books.freed_fact)
    return draft(record, "placed", payload, causes=causes)
