"""What the scaler knows of jobs: what they ask, what they hold, and why those that wait are not placed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from muster.cluster.gangs import gang_of
from muster.placement import DEVICE_MILLI, GangRequest, ShortageReason
from muster.quota.amounts import NO_AMOUNTS, Amounts, gang_amounts, held_amounts
from muster.schemas.facts.job import JobResizeRequested
from muster.schemas.job import Job, Phase, Slot

CURABLE = frozenset(reason.value for reason in ShortageReason if reason is not ShortageReason.HEALTH)
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

    reason: why it waits, as last said by `word_fact` at `word_at`; "" if nothing was said since it was queued.
    makes_way: others were asked to make way for it. held: it is not to be started. counted: what its queue counts as
    held by it.
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
    word_fact: str = ""
    word_at: int = 0
    makes_way: bool = False
    cancelled: bool = False
    held: bool = False
    slots: tuple[Slot, ...] = ()
    resize: JobResizeRequested | None = None
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
        if self.phase is not Phase.QUEUED or self.is_out or self.makes_way:
            return False
        return self.reason in CURABLE or self.reason == HEALTH

    @property
    def held_slots(self) -> tuple[Slot, ...]:
        """All that it holds: while it is resized, what it has and what it gets."""
        if self.resize is None:
            return self.slots
        return (*self.slots, *(slot for slot in self.resize.slots if slot not in self.slots))

    def amounts_held(self, models: Mapping[str, str]) -> Amounts:
        """What its queue counts as held. models: of the GPUs of each node."""
        return held_amounts(self.held_slots, self.shape.gang, lambda node: models.get(node, ""))


class JobTable:
    """All live jobs, and the shapes that they share."""

    def __init__(self) -> None:
        self.records: dict[str, JobRecord] = {}
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
        self._drop(record.shape)

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
