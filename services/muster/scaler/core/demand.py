"""Waiting jobs that scaling could help, by shape: thousands of the same are one case.

A line holds the jobs of one queue that ask for the same, in the order in which they were queued. What was found out for
its first job holds for those behind it, until something changed that could make it otherwise.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from muster.placement import GangRequest
from muster.quota.amounts import Amounts
from muster.scaler.core.jobs import JobRecord, Shape


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job for which something is to be found. ask: its gang with as few replicas as it can run with.

    amounts: what of each resource it must be admitted with. fact: why it waits, by whom `reason` was said.
    """

    job_id: str
    name: str
    queue: str
    gang: GangRequest
    ask: GangRequest
    amounts: Amounts
    gpus: float
    reason: str
    detail: str
    trace: str
    fact: str


def waiting_of(record: JobRecord) -> Waiting:
    """What is looked for."""
    shape = record.shape
    return Waiting(
        job_id=record.id,
        name=record.name,
        queue=shape.queue,
        gang=shape.gang,
        ask=shape.least,
        amounts=shape.amounts,
        gpus=shape.gpus,
        reason=record.reason,
        detail=record.detail,
        trace=record.trace,
        fact=record.word_fact,
    )


Entry = tuple[int, int, str]


@dataclass(slots=True, eq=False)
class Line:
    """Jobs of one shape that wait, the first first, as (queued_at, routed_seq, job)."""

    shape: Shape
    jobs: list[Entry] = field(default_factory=list)


class Demand:
    """All lines. version: grows whenever a job came, went, or was told something else; touched: in which lines."""

    def __init__(self) -> None:
        self.lines: dict[Shape, Line] = {}
        self.version = 0
        self.touched: dict[Shape, None] = {}

    def __len__(self) -> int:
        return sum(len(line.jobs) for line in self.lines.values())

    def put(self, record: JobRecord) -> None:
        """The job waits for something that scaling could cure, or does no longer: as its record says."""
        line = self.lines.get(record.shape)
        entry = (*record.order, record.id)
        at = bisect_left(line.jobs, entry) if line is not None else 0
        is_in = line is not None and at < len(line.jobs) and line.jobs[at] == entry
        if record.wants:
            if line is None:
                line = self.lines[record.shape] = Line(record.shape)
            if not is_in:
                insort(line.jobs, entry)
            self.version += 1
            self.touched[record.shape] = None
        elif is_in:
            self._take(record, entry)

    def drop(self, record: JobRecord) -> bool:
        """The job waits no longer, or not with this shape or place. Returns whether it was in a line."""
        version = self.version
        self._take(record, (*record.order, record.id))
        return self.version != version

    def in_order(self) -> list[tuple[Entry, Line]]:
        """The first of every line, as they were queued."""
        return sorted([(line.jobs[0], line) for line in self.lines.values()], key=lambda pair: pair[0])

    def _take(self, record: JobRecord, entry: Entry) -> None:
        line = self.lines.get(record.shape)
        if line is None:
            return
        at = bisect_left(line.jobs, entry)
        if at < len(line.jobs) and line.jobs[at] == entry:
            del line.jobs[at]
            self.version += 1
            self.touched[record.shape] = None
            if not line.jobs:
                del self.lines[record.shape]
                del self.touched[record.shape]  # told anew should it come back
