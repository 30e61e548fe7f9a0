"""Defragmentation: idle GPUs that do not stand together are brought together, where that costs less than it gains.

For the first job of a lane for which there are enough GPUs, but scattered, or not within one domain, a move is looked
for (see `moves`). It is said to the job; where its queue wants it, it is done, by the facts of preemption: notice to
those who move and what is kept for the gang stand together, and those who move are queued again and find the idle
places. One move is under way at a time, and one search is made in a while, so that it stays an exception.
"""

from muster.core import Draft, Instant, after
from muster.scheduler.core.candidates import Candidates
from muster.scheduler.core.jobs import JobRecord
from muster.scheduler.core.moves import Move, find_move
from muster.scheduler.core.notices import notices
from muster.scheduler.core.reasons import Reason
from muster.scheduler.core.remains import Remains
from muster.scheduler.core.rules import Part, Rule, Wanting
from muster.scheduler.core.state import State
from muster.scheduler.core.waiting import Lane
from muster.schemas.facts.queue import Defragment
from muster.schemas.job import Phase

EVERY_S = 10.0
"""Between two searches, some 50 ms each in a large fleet."""

LOOK_EVERY_S = 1.0
"""Between two looks for a lane that is worth one, if there was none."""

PAUSE_S = 60.0
"""After a move, and for a job for which none was found."""

LANES_MAX = 4_096
"""Lanes looked through for one that is worth a search."""

SCATTERED = frozenset({Reason.FRAGMENTED.value, Reason.TOPOLOGY.value})
"""Reasons that a move may cure."""


class Defragmentation:
    """Looks for moves now and then. advice: by job, in words. What it remembers only saves work."""

    def __init__(self, state: State, remains: Remains, *, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self.advice: dict[str, str] = {}
        self._state = state
        self._remains = remains
        self._next = Instant(0)
        self._seen = -1
        self._is_first = True
        self._again = Instant(0)
        self._moved_for = ""
        self._tried: dict[str, Instant] = {}
        self._said: list[Draft] = []
        self._said_at = -1

    def make(self, now: Instant, drafts: list[Draft]) -> None:
        """Add the drafts of one move, if there is one to make; the same again until something is folded."""
        state = self._state
        if not state.line.lanes or not state.runs.reporting:
            return
        spoken = {draft.subject_id for draft in drafts if draft.kind == "job"}
        if self._said and self._said_at == state.folded:
            if spoken.isdisjoint(draft.subject_id for draft in self._said):
                drafts += self._said
            return
        self._said = []
        if self._is_under_way or (self._seen == state.moves and not 0 < self._again <= now):
            return
        if now < self._next:
            self._remains.wait_until(self._next)
            return
        self._seen, self._next, self._again = (
            state.moves,
            after(now, LOOK_EVERY_S * self._every_s / EVERY_S),
            Instant(0),
        )
        lane = self._lane(now, spoken)
        if lane is None:
            if self._is_first:
                # why jobs wait is said at the end of the first decision: they are looked at once more
                self._is_first, self._seen = False, -1
                self._remains.wait_until(self._next)
            return
        self._is_first = False
        self._next = after(now, self._every_s)
        self._said, self._said_at = self._try(lane, now, spoken), state.folded
        drafts += self._said
        ends = (state.jobs.records[job_id].slice_end() for job_id in state.runs.reporting)
        self._again = min((end for end in ends if end > now), default=Instant(0))
        if self._again:
            self._remains.wait_until(self._again)

    @property
    def _is_under_way(self) -> bool:
        """Whether the gang for which jobs were moved last still waits for its place."""
        record = self._state.jobs.records.get(self._moved_for)
        return record is not None and record.phase is Phase.QUEUED and record.reserved is not None

    def _lane(self, now: Instant, spoken: set[str]) -> Lane | None:
        """The lane whose first job comes first, of those that wait because what is idle is scattered."""
        self._tried = {job_id: until for job_id, until in self._tried.items() if until > now}
        found: tuple[object, Lane] | None = None
        records = self._state.jobs.records
        for lane in list(self._state.line.lanes.values())[:LANES_MAX]:
            if lane.word is None or lane.word.reason not in SCATTERED or not lane.is_blocked:
                continue
            place, job_id = lane.jobs[0]
            if job_id in self._tried or job_id in spoken or records[job_id].reserved is not None:
                continue
            if found is None or (place, lane.number) < found[0]:  # type: ignore[operator]
                found = (place, lane.number), lane
        return None if found is None else found[1]

    def _try(self, lane: Lane, now: Instant, spoken: set[str]) -> list[Draft]:
        state = self._state
        record = state.jobs.records[lane.jobs[0][1]]
        self._tried[record.id] = after(now, PAUSE_S)
        for job_id in tuple(self.advice):
            other = state.jobs.records.get(job_id)
            if other is None or other.phase is not Phase.QUEUED:
                del self.advice[job_id]
        move = find_move(state, record, now, spoken=spoken)
        if move is None:
            self.advice.pop(record.id, None)
            return []
        if state.queues.policy(record.queue).defragment is Defragment.MOVE:
            self.advice.pop(record.id, None)
            self._next, self._moved_for = after(now, PAUSE_S), record.id
            return _drafts(state, record, move, now)
        self.advice[record.id] = move.words
        state.line.tell(record)
        return []


def _drafts(state: State, record: JobRecord, move: Move, now: Instant) -> list[Draft]:
    """Notice to those who move, and what is kept for the gang."""
    parts = {one.id: Part(one, one.counted, one.slots) for one in move.records}
    rules = dict.fromkeys(parts, Rule.DEFRAGMENT)
    wanting = Wanting(record, record.kind.amounts_least, starves=False)
    return notices(wanting, move.way, parts, rules, candidates=Candidates(state, now), ledger=state.ledger)
