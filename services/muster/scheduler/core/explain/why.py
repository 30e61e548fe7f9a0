"""Why one job waits, exactly: the first thing in its way now, with the numbers."""

from collections.abc import Sequence

from muster.core import Instant, seconds_between
from muster.placement import Fleet, GangRequest
from muster.quota.queues import QueueTree
from muster.scheduler.core.admit.arrivals import refusal
from muster.scheduler.core.preempt.defragmentation import SCATTERED, find_move
from muster.scheduler.core.reasons import Blocked, Reason, gpus, of_ceiling, of_shortage, unknown_queue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import Booking, Bookings
from muster.scheduler.core.stores.exclusions import closed
from muster.scheduler.core.stores.jobs import EquivalenceClass, JobRecord
from muster.scheduler.core.stores.pending_queue import PendingQueue, entry_of
from muster.scheduler.core.stores.pending_queues import PendingQueues
from muster.schemas.facts.node import WithholdWish

OF_PLACES = frozenset(
    {Reason.NO_NODE, Reason.MODEL, Reason.GPU, Reason.CPU, Reason.MEMORY, Reason.FRAGMENTED, Reason.TOPOLOGY}
)
"""Reasons for which there is no place as things are."""


def explain(state: State, record: JobRecord, now: Instant) -> Blocked:
    """Why a job that waits is not placed, and whom moving elsewhere would let it in."""
    if record.recall is not None:
        return Blocked(Reason.RECALLED, "the federation has asked for it back, to give it to another cluster")
    if record.is_cut_off and record.held is None:
        return Blocked(Reason.NO_CONTACT, "the federation is silent and may give it to another cluster")
    if record.is_set_aside:
        return Blocked(Reason.HELD, record.held.words if record.held is not None else "it was asked for just now")
    pending = state.pending.queue_of(record)
    if pending is None:
        refused = refusal(state, record)
        return Blocked(refused[0].value, refused[1]) if refused else Blocked(Reason.ENDED, "it is being cancelled")
    in_front = sum(place < entry_of(record)[0] for place, _ in pending.jobs)
    if not pending.is_blocked:
        if in_front:
            return Blocked(Reason.BEHIND, f"{_jobs(in_front)} of the same shape in front of it")
        return Blocked(Reason.TURN, "it has not been tried yet")
    blocked = why_blocked(pending, queues=state.queues, pending_queues=state.pending, fleet=state.fleet)
    if blocked.reason in OF_PLACES:
        blocked = kept_for_others(state.bookings, state.fleet, record.job_class.gang, now, own=record.id) or blocked
    if blocked.reason in SCATTERED and not in_front and (move := find_move(state, record, now)) is not None:
        blocked = Blocked(blocked.reason, f"{blocked.detail}; {move.words}")
    if record.reserved is not None:
        blocked = Blocked(blocked.reason, f"{blocked.detail}; its places are reserved")
    if not in_front:
        return blocked
    return Blocked(blocked.reason, f"{blocked.detail}; {_jobs(in_front)} of the same shape in front of it")


def kept_for_others(
    bookings: Bookings, fleet: Fleet, gang: GangRequest, now: Instant, *, own: str = ""
) -> Blocked | None:
    """What is kept for others, if there would be room on it; None if not."""
    kept = [booking for booking in bookings.all.values() if bookings.is_effective(booking) and booking.key != own]
    if not kept:
        return None
    with bookings.opened([booking.key for booking in kept]):
        if fleet.find(gang) is None:
            return None
    withheld = [booking for booking in kept if booking.is_withhold]
    if withheld:
        with bookings.opened([booking.key for booking in kept if not booking.is_withhold]):
            if fleet.find(gang) is None:
                return _wanted_free(bookings, withheld, now)
        kept = [booking for booking in kept if not booking.is_withhold]
    milli = sum(booking.kept_milli for booking in kept)
    people = sum(booking.is_reservation for booking in kept)
    jobs = len(kept) - people
    for_whom = [f"{_jobs(jobs)} that {'waits' if jobs == 1 else 'wait'} longer"] if jobs else []
    for_whom += [f"{people} advance reservation{'s' if people > 1 else ''}"] if people else []
    return Blocked(Reason.RESERVATION, f"there is room, but {gpus(milli)} GPUs are kept for {' and '.join(for_whom)}")


def _wanted_free(bookings: Bookings, withheld: Sequence[Booking], now: Instant) -> Blocked:
    """There is room only where the job would still be when services want it free."""
    nodes = {name for booking in withheld for name in bookings.nodes_of(booking)}
    last = max(withheld, key=lambda booking: booking.starts_at)
    why = last.of.reason if isinstance(last.of, WithholdWish) and last.of.reason else "a service asked for it"
    number = "1 node has" if len(nodes) == 1 else f"{len(nodes)} nodes have"
    hours = max(0.0, seconds_between(now, last.starts_at)) / 3_600
    detail = f"there is room, but {number} to be free before the job would be gone, the last in {hours:.1f} h: {why}"
    return Blocked(Reason.MAINTENANCE, detail)


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"


def why_blocked(pending: PendingQueue, *, queues: QueueTree, pending_queues: PendingQueues, fleet: Fleet) -> Blocked:
    """Return why the first job of a blocked pending queue cannot run. Proposals of the present decision count."""
    job_class, block = pending.job_class, pending.quota_block
    if pending.queue not in queues.queues:
        return unknown_queue(pending.queue)
    wanted = block.amounts if block is not None and block.amounts else job_class.amounts_least
    ceiling = queues.ceiling(pending.queue, wanted, preemptible=job_class.preemptible)
    if ceiling is not None:
        return of_ceiling(ceiling, wanted=wanted)
    if block is not None:
        return block.why
    if job_class.avoided:
        return _kept_off(fleet, job_class)
    if pending_queues.may_be_retried(pending):
        return Blocked(Reason.TURN, "there is room again; it is tried in the next cycle")
    return of_shortage(fleet.shortage(job_class.gang))


def _kept_off(fleet: Fleet, job_class: EquivalenceClass) -> Blocked:
    """Return what nodes lack for jobs that are kept off some nodes, and which these are."""
    gang, avoided = job_class.gang, job_class.avoided
    with closed(fleet, avoided):
        if fleet.find(gang) is not None:
            return Blocked(Reason.TURN, "there is room again; it is tried in the next cycle")
        lacking = of_shortage(fleet.explain(gang))
    nodes = ", ".join(sorted(avoided))
    return Blocked(lacking.reason, f"{lacking.detail}; it is kept off {nodes}, where a run of it failed its checks")
