"""Defragmentation: idle GPUs that do not stand together are brought together, where that costs less than it gains.

For the first job of a pending queue for which there are enough GPUs, but scattered, or not within one domain, a move of
running jobs is looked for. It is reported to the job; where its queue wants it, it is done, by the facts of preemption:
notice to the jobs that move and what is kept for the gang stand together, and those jobs are queued again and find the
idle places. One move is under way at a time, and one search is made in a while, so that it stays an exception.

Only jobs are moved that may be preempted, are past their slice, have reported a checkpoint, and have another place at
once beside the gang. Cost and gain are both GPU hours: the work that the moved jobs do again, and what the gang would
otherwise wait, times its GPUs. It is never done, nor advised, when it costs more than it gains.
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
"""Between two searches, some 50 ms each in a large fleet."""

LOOK_EVERY_S = 1.0
"""Between two looks for a pending queue that is worth one, if there was none."""

PAUSE_S = 60.0
"""After a move, and for a job for which none was found."""

QUEUES_MAX = 4_096
"""Pending queues looked through for one that is worth a search."""

SCATTERED = frozenset({Reason.FRAGMENTED.value, Reason.TOPOLOGY.value})
"""Reasons that a move may remove."""

MOVED_MAX = 16
"""Jobs moved for one gang."""

VICTIMS_MAX = 1_024
"""Jobs of which these are chosen: those that lose least."""

AGAIN_MAX = 4
"""Times that the search begins again without those that found no other place."""

NAMED_MAX = 3
"""Jobs that are named where a person reads it."""

_DAY_S = 86_400.0


class Move(NamedTuple):
    """Who moves, the gang's place, and both sides of the bargain in GPU hours."""

    records: tuple[JobRecord, ...]
    way: Way
    lost_gpu_h: float
    saved_gpu_h: float

    @property
    def words(self) -> str:
        """The move in words, for people."""
        names = ", ".join(record.job.spec.name for record in self.records[:NAMED_MAX])
        more = f" and {len(self.records) - NAMED_MAX} more" if len(self.records) > NAMED_MAX else ""
        cost = f"costs {self.lost_gpu_h:.1f} GPU hours and saves {self.saved_gpu_h:.1f}"
        return f"moving {names}{more} to other nodes would make room: it {cost}"


class Defragmentation:
    """Looks for moves now and then. advice: by job, in words. What it remembers only saves work."""

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
        """Add the drafts of one move, if there is one to make; the same again until something is folded."""
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
                # why jobs wait is said at the end of the first decision: they are looked at once more
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
        """Whether the gang for which jobs were moved last still waits for its place."""
        record = self._state.jobs.records.get(self._moved_for)
        return record is not None and record.phase is Phase.QUEUED and record.reserved is not None

    def _pending(self, now: Instant, drafted: set[str]) -> PendingQueue | None:
        """The pending queue whose first job comes first, of those that wait because what is idle is scattered."""
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
    """Notice to those who move, and what is kept for the gang."""
    parts = {one.id: Part(one, one.counted, one.slots) for one in move.records}
    rules = dict.fromkeys(parts, Rule.DEFRAGMENT)
    wanting = Wanting(record, record.job_class.amounts_least, starves=False)
    return notices(wanting, move.way, parts, rules, candidates=Candidates(state, now), ledger=state.ledger)


def find_move(state: State, record: JobRecord, now: Instant, *, drafted: Collection[str] = ()) -> Move | None:
    """The cheapest move found that pays; None if there is none. drafted: jobs that are not to be touched."""
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
    found = _search(state.fleet, _least(job_class.gang), victims, movable)
    if found is None:
        return None
    records = tuple(movable[key] for key in found.victims)
    lost = sum(candidates.lost(one) for one in records) / 3_600
    saved = _saved_gpu_h(state, record, records, now)
    return Move(records, found, lost, saved) if lost < saved else None


def _may_move(bookings: Bookings, queues: QueueTree, record: JobRecord, now: Instant) -> bool:
    """Whether it may be stopped now, resumes from a checkpoint, and its place is not spoken for."""
    if not record.job_class.preemptible or record.slice_end() > now or record.resize is not None or record.cancel_fact:
        return False
    if record.exited is not None or record.checkpointed_at < record.running_at:
        return False
    if bookings.all and any(bookings.at(slot.node) for slot in record.slots):
        return False
    return queues.policy(record.queue).defragment is not Defragment.NEVER


def _search(fleet: Fleet, gang: GangRequest, victims: Sequence[Victim], movable: dict[str, JobRecord]) -> Way | None:
    """Victims who all have another place at once; those who turn out to have none are left out the next time."""
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
    """The first of these jobs for which there is no other place beside the gang; None if all have one."""
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
    """GPU hours that the gang does not wait: until it would fit anyway, or for a day if that is not known."""
    expected = foresee(state, record, now)
    wait_s = _DAY_S if expected is None else (expected.at - now) / NS_PER_S
    grace_s = max(one.job.spec.grace_s for one in moved)
    return max(0.0, min(wait_s, _DAY_S) - grace_s) / 3_600 * record.job_class.amounts_least.get(GPU, 0) / DEVICE_MILLI


def _least(gang: GangRequest) -> GangRequest:
    return gang.limited([group.replicas_least for group in gang.groups])


def _as_it_is(record: JobRecord) -> GangRequest:
    """The job with as many replicas as it has."""
    gang = record.job_class.gang
    counts = [sum(slot.group == index for slot in record.slots) for index in range(len(gang.groups))]
    return gang.limited([max(n, group.replicas_least) for n, group in zip(counts, gang.groups, strict=True)])


def _holds_of(nodes: NodeTable, record: JobRecord) -> tuple[Hold, ...]:
    """What the job holds in the fleet."""
    holds = list[Hold]()
    for name in dict.fromkeys(slot.node for slot in record.slots):
        node = nodes.get(name)
        if node is not None:
            holds += node.entered(record.id)
    return tuple(holds)


@dataclass(slots=True)
class _Movable:
    """Rules for moving: anybody who is not homeless, not too many; quota is as before when they run again."""

    without_place: set[str] = field(default_factory=set)
    taken: int = 0

    def may_take(self, key: str) -> bool:
        """Whether it may move besides the others."""
        return self.taken < MOVED_MAX and key not in self.without_place

    def take(self, _key: str) -> None:
        """It moves."""
        self.taken += 1

    def put_back(self, _key: str) -> None:
        """It stays."""
        self.taken -= 1

    def admits(self) -> bool:
        """Quota admits the gang already."""
        return True
