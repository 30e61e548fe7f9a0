"""Who waits, in lanes: jobs of one queue that ask for the same, in the order in which they came.

If the first of a lane cannot run, none behind it can, so a lane is judged by its first job and then left alone until
capacity came free or a queue changed. Thousands of waiting jobs cost nothing while nothing changes.
"""

from bisect import bisect_left, insort

from muster.scheduler.core.jobs import JobRecord, Kind
from muster.scheduler.core.reasons import Blocked


class Lane:
    """jobs: (routed_seq, id), ascending. blocked: why its first job cannot run, None while that is not known.

    untold: jobs that were never told why they wait. held_up: it was blocked since it was last empty.
    """

    __slots__ = ("blocked", "held_up", "jobs", "kind", "number", "queue", "untold")

    def __init__(self, queue: str, kind: Kind, *, number: int) -> None:
        self.queue = queue
        self.kind = kind
        self.number = number
        self.jobs: list[tuple[int, str]] = []
        self.blocked: Blocked | None = None
        self.untold: dict[str, None] = {}
        self.held_up = False


class Line:
    """All lanes. open: those worth trying. to_explain: blocked lanes whose jobs may have to be told something."""

    def __init__(self) -> None:
        self.lanes: dict[tuple[str, Kind], Lane] = {}
        self.open: dict[Lane, None] = {}
        self.to_explain: dict[Lane, None] = {}
        self._blocked: dict[Lane, None] = {}
        self._numbers = 0
        self._version = -1

    def add(self, record: JobRecord) -> None:
        """The job waits, at its place in line."""
        key = (record.queue, record.kind)
        lane = self.lanes.get(key)
        if lane is None:
            self._numbers += 1
            lane = self.lanes[key] = Lane(record.queue, record.kind, number=self._numbers)
            self.open[lane] = None
        entry = (record.routed_seq, record.id)
        if not lane.jobs or lane.jobs[-1] < entry:
            lane.jobs.append(entry)
        elif not self._stands(lane, entry):
            insort(lane.jobs, entry)

    def remove(self, record: JobRecord) -> None:
        """The job no longer waits."""
        lane = self.lanes.get((record.queue, record.kind))
        entry = (record.routed_seq, record.id)
        if lane is None or not self._stands(lane, entry):
            return
        del lane.jobs[bisect_left(lane.jobs, entry)]
        lane.untold.pop(record.id, None)
        if not lane.jobs:
            del self.lanes[record.queue, record.kind]
            for group in (self.open, self.to_explain, self._blocked):
                group.pop(lane, None)
        elif lane.blocked:
            self.to_explain[lane] = None  # another one may be first now

    def tell(self, record: JobRecord) -> None:
        """The job has to be told why it waits, if it does."""
        lane = self.lanes.get((record.queue, record.kind))
        if lane is not None:
            lane.untold[record.id] = None
            if lane.blocked:
                self.to_explain[lane] = None

    def told(self, record: JobRecord) -> None:
        """The job was told."""
        lane = self.lanes.get((record.queue, record.kind))
        if lane is not None:
            lane.untold.pop(record.id, None)

    def block(self, lane: Lane, blocked: Blocked) -> None:
        """The lane's first job cannot run, as things are."""
        lane.blocked = blocked
        lane.held_up = True
        self.open.pop(lane, None)
        self._blocked[lane] = None
        self.to_explain[lane] = None

    def refresh(self, version: int) -> None:
        """Try all lanes again if capacity came free since they were judged."""
        if version != self._version:
            self._version = version
            self.reopen()

    def reopen(self) -> None:
        """Try all lanes again."""
        self.open.update(self._blocked)
        self._blocked.clear()

    def lane_of(self, record: JobRecord) -> Lane | None:
        """Where the job waits; None if it does not."""
        lane = self.lanes.get((record.queue, record.kind))
        return lane if lane is not None and self._stands(lane, (record.routed_seq, record.id)) else None

    @staticmethod
    def _stands(lane: Lane, entry: tuple[int, str]) -> bool:
        at = bisect_left(lane.jobs, entry)
        return at < len(lane.jobs) and lane.jobs[at] == entry
