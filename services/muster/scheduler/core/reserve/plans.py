"""Reservations of starving jobs: a job that waits too long gets a start time and a place with `reserved`.

A reservation is changed or lifted only when it cannot hold. A job starves when it has waited `starving_after_s` of its
queue. At most STARVING_MAX starving jobs have a plan, each planned around those before it. Only jobs that are blocked
by capacity get one, since a place does not help a job that is blocked by quota. Planning visits all pending queues and
is therefore done at intervals.

A job that has a reservation is placed before any other, so reservations must not undo fair shares: they are given in
fair-share order, as placements are, with reserved amounts counted as held. Only one in LONGEST_EVERY goes to the job
that waits longest, whatever its queue holds, so that a job that requests more than its fair share starts eventually.
Only a job that others can overtake needs a reservation: if no other job has a different request that is no larger,
freed places fit the next job in order.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator

from muster.cluster.ledger import Ledger
from muster.core import NS_PER_S, Draft, Instant, after
from muster.placement import GangRequest
from muster.placement.forecast import Forecast
from muster.quota.queues import QueueTree
from muster.scheduler.core.admit.access import Passable
from muster.scheduler.core.admit.quota import ceiling_of, hold_least
from muster.scheduler.core.lifecycle.follow_ups import draft
from muster.scheduler.core.order import FairShareOrder
from muster.scheduler.core.preempt.forecast import foresee
from muster.scheduler.core.preempt.rules import starving_at
from muster.scheduler.core.requeue import Pace, Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import Booking
from muster.scheduler.core.stores.jobs import EquivalenceClass, JobBook, JobRecord
from muster.scheduler.core.stores.pending_queue import PendingQueue, Place, entry_of
from muster.schemas.facts.job import JobReservationLifted, JobReserved
from muster.schemas.job import Phase

STARVING_MAX = 16
"""Starving jobs that may have a reservation at the same time."""

PLANS_MAX = 1
"""Reservations made by one decision: the next one is planned around it, once it is folded."""

FORECASTS_MAX = 3
"""Forecasts made by one decision, some 10 ms each in a large fleet."""

SURVEY_S = 10.0
"""Interval of searches for starving jobs in the long run, if there are very many pending queues."""

LOOKS_BURST, LOOKS_PER_SURVEY = 16_384, 16_384
"""Pending queues visited, at once and per SURVEY_S in the long run: about a microsecond each."""

CLASS_QUEUES = 8
"""Cost of each equivalence class, in visits of a pending queue."""

PAUSE_S = 0.001
"""Pause between two decisions that plan, if there is more to plan."""

PATIENCE_S = 60.0
"""How long an incomplete reservation is kept after its start."""

HOPELESS_S = 300.0
"""Minimum time between two plans for a job that fits at no known time."""


class Plans:
    """Plans, keeps and lifts reservations. Its own state only saves work."""

    def __init__(self, state: State, requeue: Requeue, *, every_s: float = SURVEY_S) -> None:
        self._state = state
        self._requeue = requeue
        self._hopeless: dict[str, Instant] = {}
        self._next = Instant(0)
        self._surveyed = -1
        self._found: list[str] = []
        self._pace = Pace(burst=LOOKS_BURST, per_s=max(1, round(LOOKS_PER_SURVEY / every_s)))
        self._grounds = -1
        self._folded = -1
        self._at = Instant(-1)
        self._emitted: list[Draft] = []

    def make(self, now: Instant, drafts: list[Draft]) -> None:
        """Add `reserved` and `reservation-lifted`; the same again until a fact is folded."""
        state = self._state
        if not state.pending.queues and not state.runs.reserved:
            return
        if (self._folded, self._at) != (state.progress.folded, now):
            emitted = {draft.subject_id for draft in drafts if draft.kind == "job"}
            self._emitted = self._plan(now, emitted)
            self._folded, self._at = state.progress.folded, now
        drafts += self._emitted
        self._await(now)

    def _plan(self, now: Instant, emitted: set[str]) -> list[Draft]:
        drafts = list[Draft]()
        doubtful = [record for record in self._doubtful(now) if record.id not in emitted]
        for record in doubtful[:FORECASTS_MAX]:
            answer = self._again(record, now) if len(drafts) < PLANS_MAX else None
            if (
                answer is not None and answer.payload != record.reserved
            ):  # an unchanged reservation is not reported again
                drafts.append(answer)
                emitted.add(record.id)
        if self._requeue.more or self._is_full or len(drafts) >= PLANS_MAX:
            return drafts
        if not self._found and self._is_news(now) and self._pace.is_ready(now):
            self._found = [record.id for record in self._starving(now)]
        for record in itertools.islice(self._needy(emitted), FORECASTS_MAX):
            found = self._foresee(record, now)
            if found is not None:
                drafts.append(_reserved(self._state.ledger, record, found))
                break
        if self._found:
            self._next = after(now, PAUSE_S)
        if self._pace.is_ready(now):
            self._found.clear()  # the next survey takes the new reservations into account
        return drafts

    def _needy(self, emitted: set[str]) -> Iterator[JobRecord]:
        """Yield the jobs found by the last survey that still need a reservation, and remove them from the list."""
        state = self._state
        while self._found:
            record = state.jobs.records.get(self._found.pop(0))
            if (
                record is None
                or record.id in emitted
                or record.reserved is not None
                or record.phase is not Phase.QUEUED
            ):
                continue
            pending = state.pending.queue_of(record)
            if pending is not None and pending.capacity_block is not None and not self._is_stopped(record):
                yield record

    def _is_news(self, now: Instant) -> bool:
        return self._surveyed != self._state.progress.generation or now >= self._next

    @property
    def _is_full(self) -> bool:
        bookings = self._state.bookings
        return len(bookings.all) - len(bookings.in_advance) - len(bookings.withholds) >= STARVING_MAX

    # --- jobs with a reservation -----------------------------------------------------------------------------

    def _doubtful(self, now: Instant) -> Iterator[JobRecord]:
        """Yield jobs whose reservation cannot hold: its start has passed, or a node has left or will be drained."""
        state, is_calm = self._state, True
        are_nodes_same = state.grants.changes == self._grounds
        for job_id in tuple(state.runs.reserved):
            booking = state.bookings.all.get(job_id)
            if booking is None:
                continue
            is_late = now >= after(Instant(booking.starts_at), PATIENCE_S)
            record = state.jobs.records[job_id]
            if is_late or not (are_nodes_same or self._can_hold(record, booking)):
                is_calm = False
                yield record
        if is_calm:
            self._grounds = state.grants.changes

    def _can_hold(self, record: JobRecord, booking: Booking) -> bool:
        """Return whether all nodes are usable, and are not drained for a service before the job would be gone."""
        bookings = self._state.bookings
        nodes = (self._state.nodes.get(name) for name in booking.wants)
        if not all(node is not None and node.usable for node in nodes):
            return False
        its = Passable(record, Instant(booking.starts_at)) if bookings.withholds else None
        return its is None or not any(
            other.is_withhold and not its.is_open(other) and want.meets(other.wants[name])
            for name, want in booking.wants.items()
            for other in bookings.at(name)
        )

    def _again(self, record: JobRecord, now: Instant) -> Draft:
        is_stopped = self._is_stopped(record)
        found = None if is_stopped else self._foresee(record, now)
        if found is not None:
            return _reserved(self._state.ledger, record, found)
        reason = "its quota is used by others" if is_stopped else "it fits at no moment that is known"
        payload = JobReservationLifted(attempt=record.attempt, reason=reason)
        return draft(record, "reservation-lifted", payload, causes=(record.last_fact,))

    def _is_stopped(self, record: JobRecord) -> bool:
        queues = self._state.queues
        if record.queue not in queues.queues:
            return True
        return ceiling_of(queues, record) is not None

    # --- jobs that need a reservation ------------------------------------------------------------------------

    def _starving(self, now: Instant) -> list[JobRecord]:
        """Return the first jobs that starve, can be overtaken, and have no reservation, in the order of `in_order`."""
        state, policy = self._state, self._state.queues.policy
        found, smallest = list[JobRecord](), Smallest(state.jobs)
        # a job submitted after this survey starves at the earliest after the shortest wait of any queue
        waits_s = [policy(name).starving_after_s for name in state.queues.queues]
        next_at = after(now, max(1.0, min(waits_s, default=SURVEY_S)))
        for pending in state.pending.queues.values():
            record = (
                self._first(pending)
                if pending.capacity_block is not None and pending.queue in state.queues.queues
                else None
            )
            if record is not None and smallest.may_pass_by(pending.job_class):
                at = starving_at(record, policy(pending.queue))
                at = max(at, self._hopeless.get(record.id, at))
                if at > now:
                    next_at = min(next_at, at)
                elif not self._is_stopped(record):
                    found.append(record)
        self._surveyed, self._next = state.progress.generation, next_at
        self._pace.spend(len(state.pending.queues) + CLASS_QUEUES * len(state.jobs.classes()))
        return in_order(
            found, now, most=STARVING_MAX, jobs=state.jobs, queues=state.queues, reserved=state.runs.reserved
        )

    def _first(self, pending: PendingQueue) -> JobRecord | None:
        records = self._state.jobs.records
        for entry in pending.jobs:
            record = records[entry[1]]
            if record.reserved is None:
                return record if record.phase is Phase.QUEUED else None
        return None

    def _foresee(self, record: JobRecord, now: Instant) -> Forecast | None:
        self._hopeless = {job_id: until for job_id, until in self._hopeless.items() if until > now}
        found = foresee(self._state, record, now)
        if found is None or found.at <= now:
            self._hopeless[record.id] = after(now, HOPELESS_S)
            return None
        return found

    def _await(self, now: Instant) -> None:
        """Request a decision when the next start passes, and to search for starving jobs."""
        state, requeue = self._state, self._requeue
        bookings, patience_ns = state.bookings.all, round(PATIENCE_S * NS_PER_S)
        starts = [bookings[job_id].starts_at for job_id in state.runs.reserved if job_id in bookings]
        later = min((at for at in starts if at + patience_ns > now), default=None)
        if later is not None:
            requeue.wait_until(Instant(later + patience_ns))
        if state.pending.queues and not self._is_full:
            if self._next > now:
                requeue.wait_until(self._next)
            if not self._found and self._is_news(now):
                requeue.wait_until(self._pace.next_at())


def _reserved(ledger: Ledger, record: JobRecord, found: Forecast) -> Draft:
    names = len(found.rests_on)
    payload = JobReserved(
        attempt=record.attempt,
        slots=tuple(ledger.slot_of(hold.slot) for hold in found.holds),
        starts_at=found.at,
        basis=f"by then {names} jobs are at the end of what they may count on" if names else "",
    )
    return draft(record, "reserved", payload, causes=(record.last_fact,))


LONGEST_EVERY = 8
"""One in this many reservations goes to the job that waits longest."""

_Size = tuple[bool, int, int, int]
"""Jobs with GPUs are compared by GPUs, then by CPU and memory; jobs without by CPU and memory."""


def in_order(
    starving: list[JobRecord],
    now: Instant,
    *,
    most: int,
    jobs: JobBook,
    queues: QueueTree,
    reserved: Iterable[str],
) -> list[JobRecord]:
    """Return the first of these jobs, at most `most`. `reserved` jobs have a reservation."""
    records = jobs.records
    have_one = [records[job_id] for job_id in reserved if records[job_id].queue in queues.queues]
    chosen = list[JobRecord]()
    if starving and len(have_one) % LONGEST_EVERY == 0:
        chosen.append(min(starving, key=lambda record: (record.queued_at, record.routed_seq)))
    for record in have_one:
        hold_least(queues, record)
    try:
        chosen += [record for record in _by_share(jobs, queues, starving, now, most=most) if record not in chosen]
    finally:
        for record in have_one:
            hold_least(queues, record, sign=-1)
    return chosen[:most]


def _by_share(
    jobs: JobBook, queues: QueueTree, starving: list[JobRecord], now: Instant, *, most: int
) -> list[JobRecord]:
    heaps: dict[str, list[tuple[Place, str]]] = {}
    for record in starving:
        heaps.setdefault(record.queue, []).append(entry_of(record))
    order = FairShareOrder(queues, now)
    for queue, heap in heaps.items():
        heapq.heapify(heap)
        order.offer(queue, heap[0][0], jobs.records[heap[0][1]].job_class.amounts)
    chosen = list[JobRecord]()
    while len(chosen) < most and (queue := order.next()):
        heap = heaps[queue]
        chosen.append(record := jobs.records[heapq.heappop(heap)[1]])
        hold_least(queues, record)
        if heap:
            order.offer(queue, heap[0][0], jobs.records[heap[0][1]].job_class.amounts)
        else:
            order.leave(queue)
    for record in chosen:
        hold_least(queues, record, sign=-1)
    return chosen


class Smallest:
    """The smallest requests of all remembered jobs."""

    def __init__(self, jobs: JobBook) -> None:
        self._least: dict[bool, list[tuple[_Size, GangRequest]]] = {}
        by_gang: dict[GangRequest, _Size] = {job_class.gang: _size(job_class) for job_class in jobs.classes()}
        for has_gpus in (False, True):
            sizes = ((size, gang) for gang, size in by_gang.items() if size[0] is has_gpus)
            self._least[has_gpus] = heapq.nsmallest(2, sizes, key=lambda entry: entry[0])

    def may_pass_by(self, job_class: EquivalenceClass) -> bool:
        """Return whether a job with a different gang requests no more than this class."""
        size = _size(job_class)
        return any(other != job_class.gang and least <= size for least, other in self._least[size[0]])


def _size(job_class: EquivalenceClass) -> _Size:
    amounts = job_class.amounts_least
    return bool(job_class.gpu_milli), job_class.gpu_milli, amounts.get("cpu_milli", 0), amounts.get("memory_mib", 0)
