"""Rows of the read model while they change: the fields of `muster.schemas.views`, mutable and cheap to encode."""

from dataclasses import dataclass, field

from pydantic_core import to_json

from muster.core.fact import Fact
from muster.schemas.facts.queue import QueueOrder, QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import Job, Phase, Slot
from muster.schemas.readmodel import order_key
from muster.schemas.views import NodeReason

JOB = "job"
"""Kind of a job's own facts."""
WORKLOAD = "workload"
"""Kind of facts about objects that stand for a job, or ask to."""


@dataclass(slots=True)
class JobRow:
    """Fields of `JobView`, in its order; encoding one costs 2 microseconds, a frozen copy per fact would cost 10."""

    id: str
    name: str
    team: str
    principal: str
    queue: str
    kind: str
    priority: int
    phase: Phase
    cluster: str
    attempt: int
    gpu_milli: int
    replicas: int
    nodes: tuple[str, ...] = ()
    slots: tuple[Slot, ...] = ()
    submitted_at: int = 0
    queued_at: int = 0
    placed_at: int = 0
    running_at: int = 0
    ended_at: int = 0
    reason: str = ""
    detail: str = ""
    exit_code: int = 0
    preflight: str = ""
    trace: str = ""
    seq: int = 0
    min_replicas: int = 0
    preemptible: bool = True
    preemptions: int = 0
    ran_s: float = 0.0
    checkpointed_at: int = 0
    slice_ends_at: int = 0
    reserved_at: int = 0
    made_way_for: str = ""
    held: bool = False
    origin: str = ""
    retries: int = 0
    retries_used: int = 0
    node_losses: int = 0
    preflight_failures: int = 0
    lost_s: float = 0.0
    lost_last_s: float = 0.0
    excluded: tuple[str, ...] = ()
    failures_in_row: int = 0


def job_row(job: Job, *, cluster: str, submitted_at: int, seq: int) -> JobRow:
    """The row of a job of which nothing is known but that it was submitted."""
    spec = job.spec
    return JobRow(
        id=job.id,
        name=spec.name,
        team=spec.team,
        principal=job.principal,
        queue=spec.queue_name,
        kind=spec.kind.value,
        priority=spec.priority,
        phase=Phase.SUBMITTED,
        cluster=cluster,
        attempt=0,
        gpu_milli=spec.gpu_milli_total,
        replicas=sum(group.replicas for group in spec.task_groups),
        submitted_at=submitted_at,
        trace=job.trace,
        seq=seq,
        min_replicas=sum(group.replicas_least for group in spec.task_groups),
        preemptible=spec.preemptible,
        origin=job.origin.title if job.origin is not None else "",
        retries=spec.retries,
    )


@dataclass(slots=True)
class NodeRow:
    """Fields of `NodeView`, in its order. jobs: each once, in the order in which they came."""

    name: str
    cluster: str
    gpu_model: str = ""
    gpus: int = 0
    gpu_milli_held: int = 0
    cpu_milli: int = 0
    cpu_milli_held: int = 0
    memory_mib: int = 0
    memory_mib_held: int = 0
    domains: tuple[tuple[str, str], ...] = ()
    usable: bool = False
    lost: bool = False
    reason: str = ""
    jobs: tuple[str, ...] = ()
    device_domains: tuple[tuple[str, tuple[int, ...]], ...] = ()
    group: str = ""
    reasons: tuple[NodeReason, ...] = ()
    condition: str = ""


@dataclass(slots=True)
class QueueRow:
    """Fields of `QueueView`, in its order, without the shares: only the scheduler can tell them."""

    name: str
    cluster: str
    parent: str | None = None
    gpu_milli_quota: int | None = None
    gpu_milli_limit: int | None = None
    gpu_milli_held: int = 0
    jobs_queued: int = 0
    jobs_running: int = 0
    closed: bool = False
    quota: dict[str, int] = field(default_factory=dict)
    borrowing_limit: dict[str, int] = field(default_factory=dict)
    lending_limit: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    weight: float = 1.0
    order: QueueOrder | None = None
    spec: QueueSpec | None = None


@dataclass(slots=True)
class ReservationRow:
    """Fields of `ReservationView`, without what is kept just now: only the scheduler can tell that."""

    name: str
    cluster: str
    spec: ReservationSpec
    next_starts_at: int


@dataclass(slots=True)
class FactRow:
    """Fields of `FactView`, in its order."""

    id: str
    seq: int
    time: int
    stream: str
    cluster: str
    writer: str
    kind: str
    subject_id: str
    name: str
    causes: tuple[str, ...]
    trace: str
    body: str


@dataclass(frozen=True, slots=True)
class ShownFact:
    """A fact as it is stored for people. job_id, team: empty if it is about no job, and serves none.

    serves: it is of another kind and carries the job's trace; a job's own facts name it themselves. time: the broker's.
    team_prev: sequence of the fact before that was shown about a job of the same team, or serving one; where that is
    not known, one that is not before it. private: its body is not for the public, though it is about no known job.
    """

    seq: int
    job_id: str
    team: str
    body: bytes
    serves: bool = False
    time: int = 0
    team_prev: int = 0
    private: bool = False


def shown_fact(fact: Fact, *, stream: str, job_id: str, team: str, team_prev: int) -> ShownFact:
    """Encode a fact as `FactView`. job_id: which job it is about or serves, if any. team_prev: as in `ShownFact`."""
    row = FactRow(
        fact.id,
        fact.seq,
        fact.time,
        stream,
        fact.cluster,
        fact.writer,
        fact.kind,
        fact.subject_id,
        fact.name,
        fact.causes,
        fact.trace,
        fact.payload.model_dump_json(),
    )
    serves = bool(job_id) and fact.kind != JOB
    return ShownFact(fact.seq, job_id, team, to_json(row), serves, fact.time, team_prev, fact.kind == WORKLOAD)


@dataclass(frozen=True, slots=True)
class JobChange:
    """One job's row as it should stand. order: sort key, submission time then id, unique.

    listed: whether it is found by its phase. was: the phase it was last written under, None if it was not (or nobody
    knows). ended_order: sort key by end, "" while it lives. cluster: to be stored as the one that has the job; None:
    this projection does not say.
    """

    id: str
    order: str
    team: str
    queue: str
    phase: Phase
    was: Phase | None
    seq: int
    body: bytes
    ended_order: str = ""
    listed: bool = True
    cluster: str | None = None


def job_change(
    row: JobRow, *, was: Phase | None, listed: bool = True, body: bytes | None = None, cluster: str | None = None
) -> JobChange:
    """Return the row, encoded. body: if it was encoded before. cluster: as in `JobChange`."""
    encoded = to_json(row) if body is None else body
    ended = order_key(row.ended_at, row.id) if row.phase.is_terminal else ""
    order = order_key(row.submitted_at, row.id)
    return JobChange(row.id, order, row.team, row.queue, row.phase, was, row.seq, encoded, ended, listed, cluster)


@dataclass(slots=True)
class Changes:
    """What the read model lacks. nodes, queues, reservations: None takes the row away.

    shapes: the distinct shapes of nodes, encoded. catch_up: nobody knows under which phase these rows stand there.
    """

    jobs: list[JobChange] = field(default_factory=list)
    removed: list[JobChange] = field(default_factory=list)
    nodes: dict[str, bytes | None] = field(default_factory=dict)
    queues: dict[str, bytes | None] = field(default_factory=dict)
    reservations: dict[str, bytes | None] = field(default_factory=dict)
    shapes: bytes | None = None
    facts: list[ShownFact] = field(default_factory=list)
    catch_up: bool = False

    def __bool__(self) -> bool:
        """True if there is anything to write."""
        rows = self.jobs or self.removed or self.nodes or self.queues or self.reservations or self.facts
        return bool(rows or self.shapes is not None)
