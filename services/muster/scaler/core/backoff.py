"""What was tried in vain for pending queues, and which of them no pass looks at until something changes.

So a pass costs what is to be done, however many equivalence classes wait. All of it is a cache: a scaler that takes
over finds every queue active, looks at each once, and reports the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify

from muster.core import Instant
from muster.scaler.core.changes import Changes, Cooldowns
from muster.scaler.core.choices import Choice
from muster.scaler.core.jobs import Demand, Entry, JobRecord, PendingQueue, Shape
from muster.scaler.core.limits import TRIED_SPARE
from muster.scaler.core.spare import SpareDevices
from muster.schemas.facts.scale import Refused

Place = tuple[Entry, int, PendingQueue]
"""One job of a queue: its place among all that wait, and its index in the queue."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Records that nothing could be done for the first job of a queue."""

    choice: Choice | None
    """What is reported of it."""
    job_id: str
    reason_fact: str
    """The fact that says why the job waits."""
    supply: tuple[int, int]
    freed: int
    """`Changes.supply` and `Changes.freed` at that time."""
    rests_until: Instant
    """When a fabric, group or device that rested may be used; 0: none did."""


class Backoff:
    """Decides which pending queues a pass looks at, and which of its earlier answers still hold."""

    def __init__(
        self,
        demand: Demand,
        refused: Mapping[str, Refused],
        *,
        changes: Changes,
        cooldowns: Cooldowns,
        spares: SpareDevices,
    ) -> None:
        self.demand = demand
        self.changes = changes
        self.wake: Instant | None = None
        """When the next pass could find something else by time alone; None: never."""
        self._refused = refused
        self._cooldowns = cooldowns
        self._spares = spares
        self._tried: dict[Shape, Tried] = {}
        self._shapes: dict[Shape, None] = {}
        self._supply = changes.supply
        self._freed = 0
        self._reported_at = Instant(0)
        self._rests_until: Instant | None = None
        self._settles: Instant | None = None
        self._now = Instant(0)

    def active(self, now: Instant) -> list[Place]:
        """Begin a pass. Return the first job of every queue that is not in backoff, as a heap."""
        pending, touched = self.demand.pending, self.demand.touched
        self._now, self._settles = now, None
        for shape in touched:
            self._shapes.pop(shape, None)
        touched.clear()
        self.wake = self._rests_until
        if self._shapes and not self._stays():
            self._shapes.clear()
        if not self._shapes:
            self._supply, self._freed = self.changes.supply, self.changes.freed
            self._reported_at, self._rests_until, self.wake = Instant(0), None, None
        if len(self._shapes) > TRIED_SPARE + 2 * len(pending):
            self._shapes = {shape: None for shape in self._shapes if shape in pending}
        if len(self._tried) > TRIED_SPARE + 2 * len(pending):
            self._tried = {shape: tried for shape, tried in self._tried.items() if shape in pending}
        places = [(queue.jobs[0], 0, queue) for shape, queue in pending.items() if shape not in self._shapes]
        heapify(places)
        return places

    def note_wake(self, moment: Instant) -> None:
        """Note that the next pass could find something else at this moment."""
        self.wake = moment if self.wake is None else min(self.wake, moment)

    def look_again_at(self) -> Instant:
        """Return when refused jobs are looked at again because places came free."""
        return self.changes.look_again_at(len(self.demand.pending))

    def refusal(self, record: JobRecord) -> Refused | None:
        """Return what was last reported of a job for which nothing was chosen."""
        return self._refused.get(record.id)

    def tried(self, record: JobRecord) -> Tried | None:
        """Return what was tried in vain for the queue of its first job, if that still holds."""
        tried = self._tried.get(record.shape)
        if tried is None or (tried.job_id, tried.reason_fact) != (record.id, record.reason_fact):
            return None
        if tried.supply != self.changes.supply:
            return None
        if tried.rests_until:
            if tried.rests_until <= self._now:
                return None
            self.note_wake(tried.rests_until)
        return tried if tried.freed == self.changes.freed else None

    def put(self, shape: Shape, *, reported_at: Instant, rests_until: Instant) -> None:
        """Put a queue for which nothing can be done, as was reported, into backoff. rests_until: as in `Tried`."""
        self._shapes[shape] = None
        self._reported_at = max(self._reported_at, reported_at)
        if rests_until:
            self._rests_until = rests_until if self._rests_until is None else min(self._rests_until, rests_until)

    def is_put_off(self, record: JobRecord) -> bool:
        """Whether all that changed since nothing was chosen for the job is that places came free, a moment ago.

        Until when is a function of what was folded, so that a scaler that takes over looks when this one would have.
        """
        refused, changes = self._refused.get(record.id), self.changes
        if refused is None or changes.freed_at <= max(refused.at, changes.supplied_at, record.reason_at):
            return False
        until = self.look_again_at()
        if until <= self._now:
            return False
        self.note_wake(until)
        return True

    def note_tried(self, record: JobRecord, choice: Choice | None) -> None:
        """Note that nothing could be done for the first job of a queue."""
        rests = self._cooldowns.next_after(self._now)
        if record.shape.gpus:
            if self._settles is None:
                self._settles = self._spares.next_idle_settled(self._now)
            rests += [self._settles] if self._settles else []
        rests_until = min(rests, default=Instant(0))
        if rests_until:
            self.note_wake(rests_until)
        changes = self.changes
        self._tried[record.shape] = Tried(
            choice, record.id, record.reason_fact, changes.supply, changes.freed, rests_until
        )

    def _stays(self) -> bool:
        """Whether nothing changed for any queue in backoff."""
        is_rested = self._rests_until is not None and self._rests_until <= self._now
        if self._supply != self.changes.supply or is_rested:
            return False
        if self._freed == self.changes.freed:
            return True
        again = self.look_again_at()
        if again <= self._now or self.changes.freed_at <= self._reported_at:
            return False
        self.note_wake(again)
        return True
