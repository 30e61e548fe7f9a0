"""Defragmentation: running jobs are moved so that scattered idle GPUs become usable, if that gains more than it costs.

If there are enough idle GPUs for the first job of a pending queue, but scattered or not within one topology domain, a
move of running jobs is searched. It is reported to the job; if the policy of its queue says so, it is done with the
facts of preemption: the notices to the moved jobs and the reservation for the gang are written together, and the moved
jobs are queued again and take the idle places. One move is under way at a time, and searches are paced, so that moves
stay rare.

Only jobs are moved that are preemptible, past their time slice, have reported a checkpoint, and have another place at
once beside the gang. Cost and gain are both in GPU hours: the work that the moved jobs repeat, and the gang's waiting
time times its GPUs. A move that costs more than it gains is neither done nor advised.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.cluster.node_records import NodeTable
from muster.core import NS_PER_S, Draft, Instant, after
from muster.placement import DEVICE_MILLI, Fleet, GangRequest, Hold
from muster.placement.relief import Victim, Way, make_way
from muster.quota.queues import QueueTree
from muster.scheduler.core.admit.quota import ceiling_of
from muster.scheduler.core.preempt.candidates import Candidates
from muster.scheduler.core.preempt.forecast import foresee
from muster.scheduler.core.preempt.notices import notices
from muster.scheduler.core.preempt.rules import Part, Rule, Wanting
from muster.scheduler.core.reasons import Reason
from muster.scheduler.core.requeue import Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import Bookings
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.core.stores.pending_queue import PendingQueue
from muster.schemas.facts.queue import GPU, Defragment
from muster.schemas.job import Phase

EVERY_S = 10.0
"""Minimum time between two searches, some 50 ms each in a large fleet."""

LOOK_EVERY_S = 1.0
"""Minimum time between two looks for a pending queue that is worth a search, if there was none."""

PAUSE_S = 60.0
"""Pause after a move, and for a job for which no move was found."""

QUEUES_MAX = 4_096
"""Pending queues that are checked for one that is worth a search."""

SCATTERED = frozenset({Reason.FRAGMENTED.value, Reason.TOPOLOGY.value})
"""Reasons that a move may resolve."""

MOVED_MAX = 16
"""Jobs that may be moved for one gang."""

VICTIMS_MAX = 1_024
"""Candidates for moving: the jobs that lose least."""

AGAIN_MAX = 4
"""Times that the search is repeated without jobs that have no other place."""

NAMED_MAX = 3
"""Jobs that are named in a text for users."""

_DAY_S = 86_400.0


class Move(NamedTuple):
    """The jobs that move, the gang's place, and the cost and gain of the move in GPU hours."""

    records: tuple[JobRecord, ...]
    way: Way
    lost_gpu_h: float
    saved_gpu_h: float

    @property
    def words(self) -> str:
        """The move as a text for users."""
        names = ", ".join(record.job.spec.name for record in self.records[:NAMED_MAX])
        more = f" and {len(self.records) - NAMED_MAX} more" if len(self.records) > NAMED_MAX else ""
        cost = f"costs {self.lost_gpu_h:.1f} GPU hours and saves {self.saved_gpu_h:.1f}"
        return f"moving {names}{more} to other nodes would make room: it {cost}"


class Defragmentation:
    """Searches for moves at intervals. Its own state only saves work. `advice` has texts by job id."""

    def __init__(self, state: State, requeue: Requeue, *, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self.advice: dict[str, str] = {}
        self._state = state
        self._requeue = requeue
        self._next = Instant(0)
        self._seen = -1
        self._is_first = True
        self._again = Instant(0)
        self._moved_for = ""
        self._tried: dict[str, Instant] = {}
        self._emitted: list[Draft] = []
        self._emitted_at = -1

    def make(self, now: Instant, drafts: list[Draft]) -> None:
        """Add the drafts of one move, if there is one; the same again until a fact is folded."""
        state = self._state
        if not state.pending.queues or not state.runs.reporting:
            return
        drafted = {draft.subject_id for draft in drafts if draft.kind == "job"}
        if self._emitted and self._emitted_at == state.progress.folded:
            if drafted.isdisjoint(draft.subject_id for draft in self._emitted):
                drafts += self._emitted
            return
        self._emitted = []
        if self._is_under_way or (self._seen == state.progress.generation and not 0 < self._again <= now):
            return
        if now < self._next:
            self._requeue.wait_until(self._next)
            return
        self._seen, self._next, self._again = (
            state.progress.generation,
            after(now, LOOK_EVERY_S * self._every_s / EVERY_S),
            Instant(0),
        )
        pending = self._pending(now, drafted)
        if pending is None:
            if self._is_first:
                # the reasons of waiting jobs are reported at the end of the first decision: check the jobs once more
                self._is_first, self._seen = False, -1
                self._requeue.wait_until(self._next)
            return
        self._is_first = False
        self._next = after(now, self._every_s)
        self._emitted, self._emitted_at = self._try(pending, now, drafted), state.progress.folded
        drafts += self._emitted
        ends = (state.jobs.records[job_id].slice_end() for job_id in state.runs.reporting)
        self._again = min((end for end in ends if end > now), default=Instant(0))
        if self._again:
            self._requeue.wait_until(self._again)

    @property
    def _is_under_way(self) -> bool:
        """Return whether the gang of the last move still waits for its place."""
        record = self._state.jobs.records.get(self._moved_for)
        return record is not None and record.phase is Phase.QUEUED and record.reserved is not None

    def _pending(self, now: Instant, drafted: set[str]) -> PendingQueue | None:
        """Return the pending queue with the first job, of those that wait because idle capacity is scattered."""
        self._tried = {job_id: until for job_id, until in self._tried.items() if until > now}
        found: tuple[object, PendingQueue] | None = None
        records = self._state.jobs.records
        for pending in list(self._state.pending.queues.values())[:QUEUES_MAX]:
            if pending.why is None or pending.why.reason not in SCATTERED or not pending.is_blocked:
                continue
            place, job_id = pending.jobs[0]
            if job_id in self._tried or job_id in drafted or records[job_id].reserved is not None:
                continue
            if found is None or (place, pending.number) < found[0]:  # type: ignore[operator]
                found = (place, pending.number), pending
        return None if found is None else found[1]

    def _try(self, pending: PendingQueue, now: Instant, drafted: set[str]) -> list[Draft]:
        state = self._state
        record = state.jobs.records[pending.jobs[0][1]]
        self._tried[record.id] = after(now, PAUSE_S)
        for job_id in tuple(self.advice):
            other = state.jobs.records.get(job_id)
            if other is None or other.phase is not Phase.QUEUED:
                del self.advice[job_id]
        move = find_move(state, record, now, drafted=drafted)
        if move is None:
            self.advice.pop(record.id, None)
            return []
        if state.queues.policy(record.queue).defragment is Defragment.MOVE:
            self.advice.pop(record.id, None)
            self._next, self._moved_for = after(now, PAUSE_S), record.id
            return _drafts(state, record, move, now)
        self.advice[record.id] = move.words
        state.pending.want_reason(record)
        return []


def _drafts(state: State, record: JobRecord, move: Move, now: Instant) -> list[Draft]:
    parts = {one.id: Part(one, one.counted, one.slots) for one in move.records}
    rules = dict.fromkeys(parts, Rule.DEFRAGMENT)
    wanting = Wanting(record, record.job_class.amounts_least, record.job_class.gang.least, starves=False)
    return notices(wanting, move.way, parts, rules, candidates=Candidates(state, now), ledger=state.ledger)


def find_move(state: State, record: JobRecord, now: Instant, *, drafted: Collection[str] = ()) -> Move | None:
    """Return the cheapest move that pays; None if there is none. `drafted` jobs are not moved."""
    queues, job_class = state.queues, record.job_class
    if record.phase is not Phase.QUEUED or record.reserved is not None or record.queue not in queues.queues:
        return None
    if queues.policy(record.queue).defragment is Defragment.NEVER:
        return None
    if ceiling_of(queues, record) is not None:
        return None
    candidates = Candidates(state, now)
    movable = {
        r.id: r
        for r in map(state.jobs.records.__getitem__, state.runs.reporting)
        if _may_move(state.bookings, state.queues, r, now)
    }
    ranked = sorted((candidates.lost(r), r.id) for r in movable.values() if r.id not in drafted)[:VICTIMS_MAX]
    victims = [Victim(job_id, _holds_of(state.nodes, movable[job_id]), (0,), lost) for lost, job_id in ranked]
    found = _search(state.fleet, job_class.gang.least, victims, movable)
    if found is None:
        return None
    records = tuple(movable[key] for key in found.victims)
    lost = sum(candidates.lost(one) for one in records) / 3_600
    saved = _saved_gpu_h(state, record, records, now)
    return Move(records, found, lost, saved) if lost < saved else None


def _may_move(bookings: Bookings, queues: QueueTree, record: JobRecord, now: Instant) -> bool:
    """Return whether the job may be stopped now, resumes from a checkpoint, and its place is not booked."""
    if not record.job_class.preemptible or record.slice_end() > now or record.resize is not None or record.cancel_fact:
        return False
    if record.exited is not None or record.checkpointed_at < record.running_at:
        return False
    if bookings.all and any(bookings.at(slot.node) for slot in record.slots):
        return False
    return queues.policy(record.queue).defragment is not Defragment.NEVER


def _search(fleet: Fleet, gang: GangRequest, victims: Sequence[Victim], movable: dict[str, JobRecord]) -> Way | None:
    """Return a move whose jobs all have another place at once; repeat the search without jobs that have none."""
    rules = _Movable()
    for _ in range(AGAIN_MAX):
        way = make_way(fleet, gang, [victim for victim in victims if victim.key not in rules.without_place], rules)
        if way is None or not way.victims:
            return None
        by_key = {victim.key: victim for victim in victims}
        without_place = _first_without_place(fleet, way, [(by_key[key], movable[key]) for key in way.victims])
        if without_place is None:
            return way
        rules.without_place.add(without_place)
    return None


def _first_without_place(fleet: Fleet, way: Way, moved: Sequence[tuple[Victim, JobRecord]]) -> str | None:
    """Return the first of these jobs that has no other place beside the gang; None if all have one."""
    taken: list[Hold] = []
    gone = [hold for victim, _ in moved for hold in victim.holds]
    try:
        for hold in gone:
            fleet.withdraw(hold)
        for hold in way.holds:
            fleet.hold(hold)
            taken.append(hold)
        for victim, record in sorted(moved, key=lambda one: (-len(one[0].holds), one[0].key)):
            holds = fleet.find(_as_it_is(record))
            if holds is None:
                return victim.key
            for hold in holds:
                fleet.hold(hold)
                taken.append(hold)
        return None
    finally:
        for hold in reversed(taken):
            fleet.withdraw(hold)
        for hold in reversed(gone):
            fleet.hold(hold)


def _saved_gpu_h(state: State, record: JobRecord, moved: Sequence[JobRecord], now: Instant) -> float:
    """Return the GPU hours that the gang does not wait: until it would fit anyway, or a day if that is unknown."""
    expected = foresee(state, record, now)
    wait_s = _DAY_S if expected is None else (expected.at - now) / NS_PER_S
    grace_s = max(one.job.spec.grace_s for one in moved)
    return max(0.0, min(wait_s, _DAY_S) - grace_s) / 3_600 * record.job_class.amounts_least.get(GPU, 0) / DEVICE_MILLI


def _as_it_is(record: JobRecord) -> GangRequest:
    gang = record.job_class.gang
    counts = [sum(slot.group == index for slot in record.slots) for index in range(len(gang.groups))]
    return gang.limited([max(n, group.replicas_least) for n, group in zip(counts, gang.groups, strict=True)])


def _holds_of(nodes: NodeTable, record: JobRecord) -> tuple[Hold, ...]:
    holds = list[Hold]()
    for name in dict.fromkeys(slot.node for slot in record.slots):
        node = nodes.get(name)
        if node is not None:
            holds += node.entered(record.id)
    return tuple(holds)


@dataclass(slots=True)
class _Movable:
    """Rules for moving: up to MOVED_MAX jobs that have another place. Quota is unchanged when they run again."""

    without_place: set[str] = field(default_factory=set)
    taken: int = 0

    def may_take(self, key: str) -> bool:
        """Return whether the job may move in addition to the others."""
        return self.taken < MOVED_MAX and key not in self.without_place

    def take(self, _key: str) -> None:
        """Count one more moved job."""
        self.taken += 1

    def put_back(self, _key: str) -> None:
        """Count one moved job less."""
        self.taken -= 1

    def admits(self) -> bool:
        """Return True: quota already admits the gang."""
        return True
