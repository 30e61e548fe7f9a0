"""Why a job waits: the first obstacle now, with the numbers, and when it is reported (`unschedulable`).

Of a pending queue, every change of the reason is reported for the first job, and once for each job behind it.
"""

import itertools
from collections.abc import Mapping, Sequence

from muster.core import NS_PER_S, Draft, Instant, seconds_between
from muster.placement import Fleet, GangRequest
from muster.quota.queues import QueueTree
from muster.scheduler.core.admit.arrivals import refusal
from muster.scheduler.core.lifecycle.follow_ups import draft
from muster.scheduler.core.preempt.defragmentation import SCATTERED, find_move
from muster.scheduler.core.reasons import Blocked, Reason, gpus, of_ceiling, of_shortage, unknown_queue
from muster.scheduler.core.requeue import DRAFTS_MAX, Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import Booking, Bookings
from muster.scheduler.core.stores.exclusions import closed
from muster.scheduler.core.stores.jobs import EquivalenceClass, JobRecord
from muster.scheduler.core.stores.pending_queue import PendingQueue, entry_of
from muster.scheduler.core.stores.pending_queues import PendingQueues
from muster.schemas.facts.job import JobUnschedulable
from muster.schemas.facts.node import DrainRequest
from muster.schemas.job import Phase

OF_PLACES = frozenset(
    {Reason.NO_NODE, Reason.MODEL, Reason.GPU, Reason.CPU, Reason.MEMORY, Reason.FRAGMENTED, Reason.TOPOLOGY}
)
"""Reasons for which the fleet has no place now."""


def explain(state: State, record: JobRecord, now: Instant) -> Blocked:
    """Return why a waiting job is not placed, and the jobs whose move would let it in."""
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
    """Return the capacity kept for others if the gang would fit on it; None if not."""
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
    """Return the reason for a job that fits only on nodes that are drained before it would be gone."""
    nodes = {name for booking in withheld for name in bookings.nodes_of(booking)}
    last = max(withheld, key=lambda booking: booking.starts_at)
    why = last.of.reason if isinstance(last.of, DrainRequest) and last.of.reason else "a service asked for it"
    number = "1 node has" if len(nodes) == 1 else f"{len(nodes)} nodes have"
    hours = max(0.0, seconds_between(now, last.starts_at)) / 3_600
    detail = f"there is room, but {number} to be free before the job would be gone, the last in {hours:.1f} h: {why}"
    return Blocked(Reason.MAINTENANCE, detail)


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"


def why_blocked(pending: PendingQueue, *, queues: QueueTree, pending_queues: PendingQueues, fleet: Fleet) -> Blocked:
    """Return why the first job of a blocked pending queue cannot run. Proposals of this decision count."""
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
    """Return the shortage for jobs that are excluded from some nodes, and name these nodes."""
    gang, avoided = job_class.gang, job_class.avoided
    with closed(fleet, avoided):
        if fleet.find(gang) is not None:
            return Blocked(Reason.TURN, "there is room again; it is tried in the next cycle")
        lacking = of_shortage(fleet.explain(gang))
    nodes = ", ".join(sorted(avoided))
    return Blocked(lacking.reason, f"{lacking.detail}; it is kept off {nodes}, where a run of it failed its checks")


SEARCHES_MAX = 16
"""Pending queues whose reason one decision finds: each searches the whole fleet, about 50 microseconds."""

QUEUES_MAX = 512
"""Pending queues that one decision visits, about 10 microseconds each where quota blocks."""


class Explanations:
    """Reports why jobs wait.

    `interval_s` is the minimum time between two reports of a job. `advice` has additional text for jobs that wait
    because the idle places are scattered.
    """

    def __init__(self, state: State, requeue: Requeue, *, interval_s: float, advice: Mapping[str, str]) -> None:
        self._jobs = state.jobs
        self._queues = state.queues
        self._pending_queues = state.pending
        self._fleet = state.fleet
        self._advice = advice
        self._requeue = requeue
        self._interval_ns = round(interval_s * NS_PER_S)
        self._asked_at = Instant(-self._interval_ns)

    def make(self, now: Instant, placed: set[str], drafts: list[Draft]) -> None:
        """Add `unschedulable` to `drafts`. `placed` has the jobs that this decision placed."""
        reasons, reported, searched, looked = self._pending_queues.reasons, 0, 0, 0
        reasons.wake(now)
        self._explain_again(now)
        for pending in tuple(itertools.islice(reasons.now, QUEUES_MAX)):
            if reported >= DRAFTS_MAX or searched >= SEARCHES_MAX:
                break
            looked += 1
            if not pending.is_blocked or pending.jobs[0][1] in placed:
                reasons.explained(pending)
                continue
            due = self._next_report_if_all_reported(pending, now)
            if due is None:
                searched += self._find_reason(pending, now)
                emitted, due = self._report(pending, now, drafts, most=DRAFTS_MAX - reported)
                if emitted:
                    reported += emitted
                    continue
                if due is None and pending.why_epoch != reasons.epoch and pending.capacity_block is not None:
                    due = pending.capacity_block.why_until
            if due is not None:
                reasons.put_off(pending, due)
            else:
                reasons.explained(pending)
        if reasons.now and (reported >= DRAFTS_MAX or searched >= SEARCHES_MAX or looked >= QUEUES_MAX):
            self._requeue.more = True
        due = reasons.next_due()
        if due is not None:
            self._requeue.wait_until(due)

    def _explain_again(self, now: Instant) -> None:
        """Find all reasons again if something changed, once per interval: each change would cost a full search."""
        if not self._pending_queues.reasons.is_out_of_date:
            return
        due = self._after_interval(self._asked_at)
        if now >= due:
            self._asked_at = now
            self._pending_queues.reasons.explain_again()
        else:
            self._requeue.wait_until(due)

    def _find_reason(self, pending: PendingQueue, now: Instant) -> bool:
        """Update the reason of a pending queue, and return whether the fleet was searched.

        A shortage is searched once per class and interval.
        """
        block, job_class, epoch = pending.capacity_block, pending.job_class, self._pending_queues.reasons.epoch
        wanted, preemptible = job_class.amounts_least, job_class.preemptible
        if block is None or self._queues.ceiling(pending.queue, wanted, preemptible=preemptible) is not None:
            pending.why, pending.why_epoch = self._why(pending), epoch
            return False
        is_new = block.why is None or now >= block.why_until
        if is_new:
            block.why, block.why_epoch = self._why(pending), epoch
            block.why_until = self._after_interval(now)
        pending.why, pending.why_epoch = block.why, block.why_epoch
        advice = self._advice.get(pending.jobs[0][1])
        if advice and pending.why is not None and pending.why.reason in SCATTERED:
            pending.why = Blocked(pending.why.reason, f"{pending.why.detail}; {advice}")
        return is_new

    def _why(self, pending: PendingQueue) -> Blocked:
        return why_blocked(pending, queues=self._queues, pending_queues=self._pending_queues, fleet=self._fleet)

    def _report(
        self, pending: PendingQueue, now: Instant, drafts: list[Draft], *, most: int
    ) -> tuple[int, Instant | None]:
        """Report the reason for the first job and for jobs that have no report yet.

        Return the number of reports, and when the next one is due of those that came too early.
        """
        why, emitted, due = pending.why, 0, list[Instant]()
        if why is None or why.reason == Reason.TURN:
            return 0, None
        for job_id in itertools.islice({pending.jobs[0][1]: None} | pending.unreported, most):
            record = self._jobs.records[job_id]
            if record.phase is not Phase.QUEUED or (record.reason, record.detail) == why:
                continue
            if now < self._reported_until(record):
                due.append(self._reported_until(record))
                continue
            payload = JobUnschedulable(reason=why.reason, detail=why.detail)
            drafts.append(draft(record, "unschedulable", payload, causes=(record.last_fact,)))
            emitted += 1
        return emitted, min(due, default=None)

    def _next_report_if_all_reported(self, pending: PendingQueue, now: Instant) -> Instant | None:
        """Return when the next report is due if none may be made yet and the last report may be out of date."""
        first = self._jobs.records[pending.jobs[0][1]]
        due = self._reported_until(first)
        if pending.unreported or now >= due:
            return None
        is_known = (
            pending.why_epoch == self._pending_queues.reasons.epoch and (first.reason, first.detail) == pending.why
        )
        return None if is_known else due

    def _reported_until(self, record: JobRecord) -> Instant:
        if not record.explained_at:
            return Instant(0)
        return self._after_interval(Instant(record.explained_at))

    def _after_interval(self, moment: Instant) -> Instant:
        return Instant(moment + self._interval_ns)
