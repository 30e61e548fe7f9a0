"""Live jobs: their requests, what they hold, why waiting jobs are not placed, and the pending queues.

A pending queue holds the jobs of one equivalence class: of one queue, with the same request, in the order in which they
were queued. An answer for its first job holds for the jobs behind it until something relevant changes; so thousands of
equal jobs are one case.
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
"""Reasons for waiting that more devices or nodes could resolve."""

HEALTH = ShortageReason.HEALTH.value
"""The job would fit if all nodes and devices were healthy: scaling acts for it only after a delay."""

WAITING = frozenset({Phase.SUBMITTED, Phase.QUEUED})


@dataclass(eq=False)
class Shape:
    """An equivalence class: jobs of one queue with the same request; compared by identity, as hashing is costly."""

    gang: GangRequest
    queue: str
    preemptible: bool
    users: int = 0

    @cached_property
    def least(self) -> GangRequest:
        """The gang with its minimum replicas."""
        if not self.gang.is_elastic:
            return self.gang
        return self.gang.least

    @cached_property
    def amounts(self) -> Amounts:
        """The amounts by resource that quota must admit."""
        return gang_amounts(self.least)

    @cached_property
    def gpus(self) -> float:
        """The minimum of GPUs that it requests."""
        groups = self.least.groups
        return sum(g.replicas * (g.shape.gpus * DEVICE_MILLI + g.shape.gpu_milli) for g in groups) / DEVICE_MILLI

    @property
    def key(self) -> "ShapeKey":
        """The values by which shapes differ."""
        return self.gang, self.queue, self.preemptible


ShapeKey = tuple[GangRequest, str, bool]


@dataclass(slots=True)
class JobRecord:
    """One live job."""

    id: str
    name: str
    trace: str
    shape: Shape
    phase: Phase = Phase.SUBMITTED
    queued_at: int = 0
    routed_seq: int = 0
    reason: str = ""
    """Why it waits, as reported last; "" if nothing was reported since it was queued."""
    detail: str = ""
    reason_fact: str = ""
    """The fact that reported the reason, at `reason_at`."""
    reason_at: int = 0
    awaits_preemption: bool = False
    """Whether jobs are being preempted for it."""
    cancelled: bool = False
    held: bool = False
    """Whether it must not be placed."""
    counted: Amounts = field(default_factory=lambda: NO_AMOUNTS)
    """What its queue counts as held by it."""

    @property
    def order(self) -> tuple[int, int]:
        """Its place among the waiting jobs."""
        return self.queued_at, self.routed_seq

    @property
    def is_out(self) -> bool:
        """Whether it must not be placed, whatever is available."""
        return self.cancelled or self.held

    @property
    def wants(self) -> bool:
        """Whether it waits for something that scaling could provide."""
        if self.phase is not Phase.QUEUED or self.is_out or self.awaits_preemption:
            return False
        return self.reason in SCALABLE_REASONS or self.reason == HEALTH


class JobTable:
    """All live jobs, and their shapes."""

    def __init__(self) -> None:
        self.records: dict[str, JobRecord] = {}
        self.served_at: dict[str, Instant] = {}
        """When a choice for a job that still waits was completed, in that order."""
        self._shapes: dict[ShapeKey, Shape] = {}

    def add(self, job: Job, *, queue: str, routed_seq: int) -> JobRecord:
        """Add a job that is not known yet."""
        shape = self._shape(gang_of(job), queue, preemptible=job.spec.preemptible)
        shape.users += 1
        record = JobRecord(id=job.id, name=job.spec.name, trace=job.trace, shape=shape, routed_seq=routed_seq)
        self.records[job.id] = record
        return record

    def move_to(self, record: JobRecord, queue: str) -> None:
        """Move the job to another queue."""
        known = record.shape
        if known.queue != queue:
            record.shape = self._shape(known.gang, queue, preemptible=known.preemptible)
            record.shape.users += 1
            self._drop(known)

    def remove(self, record: JobRecord) -> None:
        """Remove a job that ended."""
        del self.records[record.id]
        self.served_at.pop(record.id, None)
        self._drop(record.shape)

    def note_served(self, job_id: str, at: Instant) -> None:
        """Note that a choice for the job was completed."""
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
    """A job for which scaling looks for GPUs or nodes."""

    job_id: str
    name: str
    ask: GangRequest
    """Its gang with the minimum replicas."""
    gpus: float
    reason: str
    detail: str
    trace: str
    fact: str
    """Id of the fact that reported `reason`."""


def waiting_of(record: JobRecord) -> Waiting:
    """Return the request of a waiting job."""
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
    """Waiting jobs of one shape in order, as (queued_at, routed_seq, job)."""

    shape: Shape
    jobs: list[Entry] = field(default_factory=list)


class Demand:
    """All pending queues."""

    def __init__(self) -> None:
        self.pending: dict[Shape, PendingQueue] = {}
        self.version = 0
        """Grows whenever a job or its reason changed."""
        self.touched: dict[Shape, None] = {}
        """Shapes whose queues changed."""

    def __len__(self) -> int:
        return sum(len(queue.jobs) for queue in self.pending.values())

    def put(self, record: JobRecord) -> None:
        """Add the job to its pending queue, or remove it, as its record says."""
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
        """Remove the job from its pending queue, and return whether it was in it."""
        version = self.version
        self._take(record, (*record.order, record.id))
        return self.version != version

    def in_order(self) -> list[tuple[Entry, PendingQueue]]:
        """Return the first job of every queue, in the order in which they were queued."""
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
                del self.touched[record.shape]  # marked again if a job returns
