"""Failed attempts for pending queues, and the queues that no pass tries until something changes.

So a pass costs only what has to be done, however many equivalence classes wait. All of it is a cache: a scaler that
takes over finds every queue active, tries each once, and reports the same.
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
    """Records that no choice could help the first job of a queue."""

    choice: Choice | None
    """The reported choice."""
    job_id: str
    reason_fact: str
    """The fact that says why the job waits."""
    supply: tuple[int, int]
    freed: int
    """`Changes.supply` and `Changes.freed` at that time."""
    rests_until: Instant
    """When a fabric, group or device in cooldown may be used; 0 if none was in cooldown."""


class Backoff:
    """Decides which pending queues a pass tries, and which of its earlier answers still hold."""

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
        """When the next pass could find a different answer by time alone; None if never."""
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
        """Note that the next pass could find a different answer at this time."""
        self.wake = moment if self.wake is None else min(self.wake, moment)

    def look_again_at(self) -> Instant:
        """Return when refused jobs are tried again because places became free."""
        return self.changes.look_again_at(len(self.demand.pending))

    def refusal(self, record: JobRecord) -> Refused | None:
        """Return the last report for a job for which nothing was chosen."""
        return self._refused.get(record.id)

    def tried(self, record: JobRecord) -> Tried | None:
        """Return the failed attempt for the first job of a queue, if it still holds."""
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
        """Put a queue that no choice can help, as reported, into backoff. `rests_until` is as in `Tried`."""
        self._shapes[shape] = None
        self._reported_at = max(self._reported_at, reported_at)
        if rests_until:
            self._rests_until = rests_until if self._rests_until is None else min(self._rests_until, rests_until)

    def is_put_off(self, record: JobRecord) -> bool:
        """Return whether the only change since the last refusal of the job is that places became free recently.

        The end of the delay is a function of folded facts, so that a scaler that takes over tries at the same time.
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
        """Note that no choice could help the first job of a queue."""
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
        """Return whether nothing changed for any queue in backoff."""
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
