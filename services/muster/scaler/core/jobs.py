"""Live jobs: what they ask for and hold, why those that wait are not placed, and the pending queues.

A pending queue holds the jobs of one equivalence class: of one queue, with the same request, in the order in which they
were queued. What was found out for its first job holds for those behind it until something relevant changes; so
thousands of equal jobs are one case.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from functools import cached_property

from muster.cluster.gangs import gang_of
from muster.core import Instant
from muster.placement import DEVICE_MILLI, GangRequest, ShortageReason
from muster.quota.amounts import NO_AMOUNTS, Amounts, gang_amounts
from muster.schemas.job import Job, Phase

SCALABLE_REASONS = frozenset(reason.value for reason in ShortageReason if reason is not ShortageReason.HEALTH)
"""Why a job waits that more devices or nodes could help."""

HEALTH = ShortageReason.HEALTH.value
"""It would fit if all nodes and devices were well: others are thought of only after a while."""

WAITING = frozenset({Phase.SUBMITTED, Phase.QUEUED})


@dataclass(eq=False)
class Shape:
    """Jobs of one queue that ask for the same share one; compared by identity, because requests are costly to hash."""

    gang: GangRequest
    queue: str
    preemptible: bool
    users: int = 0

    @cached_property
    def least(self) -> GangRequest:
        """The gang with as few replicas as it can run with."""
        if not self.gang.is_elastic:
            return self.gang
        return self.gang.limited([group.replicas_least for group in self.gang.groups])

    @cached_property
    def amounts(self) -> Amounts:
        """What it must be admitted with, by resource."""
        return gang_amounts(self.least)

    @cached_property
    def gpus(self) -> float:
        """GPUs that it asks for at least."""
        groups = self.least.groups
        return sum(g.replicas * (g.shape.gpus * DEVICE_MILLI + g.shape.gpu_milli) for g in groups) / DEVICE_MILLI

    @property
    def key(self) -> "ShapeKey":
        """What tells shapes apart."""
        return self.gang, self.queue, self.preemptible


ShapeKey = tuple[GangRequest, str, bool]


@dataclass(slots=True)
class JobRecord:
    """One live job. order: (queued_at, routed_seq), its place among those that wait.

    reason: why it waits, as last reported by `reason_fact` at `reason_at`; "" if nothing was reported since it was
    queued. awaits_preemption: others are being preempted for it. held: it is not to be started. counted: what its quota
    queue counts as held by it.
    """

    id: str
    name: str
    trace: str
    shape: Shape
    phase: Phase = Phase.SUBMITTED
    queued_at: int = 0
    routed_seq: int = 0
    reason: str = ""
    detail: str = ""
    reason_fact: str = ""
    reason_at: int = 0
    awaits_preemption: bool = False
    cancelled: bool = False
    held: bool = False
    counted: Amounts = field(default_factory=lambda: NO_AMOUNTS)

    @property
    def order(self) -> tuple[int, int]:
        """Its place among those that wait."""
        return self.queued_at, self.routed_seq

    @property
    def is_out(self) -> bool:
        """Whether it is not to be started, however much there is."""
        return self.cancelled or self.held

    @property
    def wants(self) -> bool:
        """Whether it waits for something that scaling could cure."""
        if self.phase is not Phase.QUEUED or self.is_out or self.awaits_preemption:
            return False
        return self.reason in SCALABLE_REASONS or self.reason == HEALTH


class JobTable:
    """All live jobs, and the shapes that they share."""

    def __init__(self) -> None:
        self.records: dict[str, JobRecord] = {}
        self.served_at: dict[str, Instant] = {}
        """When a choice for a job that still waits was carried out, in that order."""
        self._shapes: dict[ShapeKey, Shape] = {}

    def add(self, job: Job, *, queue: str, routed_seq: int) -> JobRecord:
        """Remember a job that is not known yet."""
        shape = self._shape(gang_of(job), queue, preemptible=job.spec.preemptible)
        shape.users += 1
        record = JobRecord(id=job.id, name=job.spec.name, trace=job.trace, shape=shape, routed_seq=routed_seq)
        self.records[job.id] = record
        return record

    def move_to(self, record: JobRecord, queue: str) -> None:
        """The job waits in another queue than was thought."""
        known = record.shape
        if known.queue != queue:
            record.shape = self._shape(known.gang, queue, preemptible=known.preemptible)
            record.shape.users += 1
            self._drop(known)

    def remove(self, record: JobRecord) -> None:
        """The job ended."""
        del self.records[record.id]
        self.served_at.pop(record.id, None)
        self._drop(record.shape)

    def note_served(self, job_id: str, at: Instant) -> None:
        """Note that a choice for the job was carried out."""
        if job_id in self.records:
            self.served_at.pop(job_id, None)
            self.served_at[job_id] = at

    def _shape(self, gang: GangRequest, queue: str, *, preemptible: bool) -> Shape:
        key = gang, queue, preemptible
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape(*key)
        return shape

    def _drop(self, shape: Shape) -> None:
        shape.users -= 1
        if not shape.users:
            del self._shapes[shape.key]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job for which something is to be found."""

    job_id: str
    name: str
    ask: GangRequest
    """Its gang with as few replicas as it can run with."""
    gpus: float
    reason: str
    detail: str
    trace: str
    fact: str
    """Id of the fact that reported `reason`."""


def waiting_of(record: JobRecord) -> Waiting:
    """Return what is looked for."""
    shape = record.shape
    return Waiting(
        job_id=record.id,
        name=record.name,
        ask=shape.least,
        gpus=shape.gpus,
        reason=record.reason,
        detail=record.detail,
        trace=record.trace,
        fact=record.reason_fact,
    )


Entry = tuple[int, int, str]


@dataclass(slots=True, eq=False)
class PendingQueue:
    """Jobs of one shape that wait, the first first, as (queued_at, routed_seq, job)."""

    shape: Shape
    jobs: list[Entry] = field(default_factory=list)


class Demand:
    """All pending queues. version: grows whenever a job or its reason changed; touched: in which queues."""

    def __init__(self) -> None:
        self.pending: dict[Shape, PendingQueue] = {}
        self.version = 0
        self.touched: dict[Shape, None] = {}

    def __len__(self) -> int:
        return sum(len(queue.jobs) for queue in self.pending.values())

    def put(self, record: JobRecord) -> None:
        """The job waits for something that scaling could cure, or does no longer: as its record says."""
        queue = self.pending.get(record.shape)
        entry = (*record.order, record.id)
        at = bisect_left(queue.jobs, entry) if queue is not None else 0
        is_in = queue is not None and at < len(queue.jobs) and queue.jobs[at] == entry
        if record.wants:
            if queue is None:
                queue = self.pending[record.shape] = PendingQueue(record.shape)
            if not is_in:
                insort(queue.jobs, entry)
            self.version += 1
            self.touched[record.shape] = None
        elif is_in:
            self._take(record, entry)

    def drop(self, record: JobRecord) -> bool:
        """The job waits no longer, or not with this shape or place. Returns whether it was in a queue."""
        version = self.version
        self._take(record, (*record.order, record.id))
        return self.version != version

    def in_order(self) -> list[tuple[Entry, PendingQueue]]:
        """The first of every queue, as they were queued."""
        return sorted([(queue.jobs[0], queue) for queue in self.pending.values()], key=lambda pair: pair[0])

    def _take(self, record: JobRecord, entry: Entry) -> None:
        queue = self.pending.get(record.shape)
        if queue is None:
            return
        at = bisect_left(queue.jobs, entry)
        if at < len(queue.jobs) and queue.jobs[at] == entry:
            del queue.jobs[at]
            self.version += 1
            self.touched[record.shape] = None
            if not queue.jobs:
                del self.pending[record.shape]
                del self.touched[record.shape]  # told anew should it come back
