"""Who has a reservation is placed before anybody else: exactly there, once all of it is kept for the job."""

from collections.abc import Collection, Sequence

from muster.core import Draft, Instant
from muster.placement import Hold
from muster.scheduler.core.access import Access
from muster.scheduler.core.booked_jobs import holds_of
from muster.scheduler.core.exclusions import is_apart
from muster.scheduler.core.follow import draft, queued
from muster.scheduler.core.holdings import amounts_of
from muster.scheduler.core.jobs import JobRecord
from muster.scheduler.core.planned import passable
from muster.scheduler.core.state import State
from muster.schemas.facts.job import JobPlaced
from muster.schemas.job import Phase


def place_reserved(state: State, now: Instant, drafts: list[Draft]) -> set[str]:
    """`placed` for jobs whose booking is complete and whose quota admits them. Returns the jobs.

    What other jobs booked is open to them; what people reserved only if they are gone before it begins.
    """
    bookings = state.bookings
    placed: set[str] = set()
    for key in tuple(bookings.complete):
        record = state.jobs.records.get(key)
        if record is None or record.reserved is None or record.phase is not Phase.QUEUED:
            continue
        if record.cancel_fact or record.is_set_aside:
            continue
        access = Access(bookings, state.queues, now)
        door = access.door(record)
        opened = {k for k, booking in bookings.all.items() if not (booking.is_reservation or booking.is_withhold)}
        opened |= access.keys(door) if door is not None else frozenset()
        if place_at(state, record, holds_of(state.fleet, record), drafts, now=now, opened=opened):
            bookings.lend(key)
            placed.add(key)
    return placed


def place_at(
    state: State,
    record: JobRecord,
    holds: Sequence[Hold],
    drafts: list[Draft],
    *,
    now: Instant,
    opened: Collection[str],
) -> bool:
    """Propose exactly these places for a job, with these bookings open; False if they or its quota do not allow it.

    What services want free only after the job is gone is open, too.
    """
    if not holds or record.queue not in state.queues.queues or not is_apart(holds, record.kind.avoided):
        return False
    amounts = amounts_of(record.kind, [hold.slot for hold in holds], state.capacity.models)
    if state.queues.ceiling(record.queue, amounts, preemptible=record.kind.preemptible) is not None:
        return False
    bookings, grants = state.bookings, state.grants
    with bookings.opened({*opened, *passable(bookings, record, now)}):
        if not state.proposals.propose_at(record.id, holds):
            return False
    state.queues.propose(record.queue, amounts, preemptible=record.kind.preemptible)
    if record.phase is Phase.SUBMITTED:
        drafts.append(queued(record))
    causes: tuple[str, ...] = (record.last_fact,)
    if grants.freed_seq > record.routed_seq:
        causes = (record.last_fact, grants.freed_fact)
    slots = tuple(state.ledger.slot_of(hold.slot) for hold in holds)
    plan = state.preflight_of(record)
    payload = JobPlaced(attempt=record.attempt, slots=slots, slice_s=record.min_slice_s, preflight=plan)
    drafts.append(draft(record, "placed", payload, causes=causes))
    return True
