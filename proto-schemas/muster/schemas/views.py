"""Rows of the read model, the same in Redis, over HTTP, in the SDK and on the screen."""

from dataclasses import dataclass, field

from pydantic import ConfigDict

from muster.schemas.base import InstantNs, Wire
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.queue import QueueOrder, QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import Job, JobKind, Phase, Slot
from muster.schemas.record import Record, field_names


@dataclass(slots=True, kw_only=True)
class JobView(Record):
    """One job as users see it. A time is 0 until it has come."""

    id: str
    name: str
    team: str
    principal: str
    """The submitter."""
    queue: str
    kind: JobKind = JobKind.BATCH
    priority: int = 50
    """The newest requested priority."""
    phase: Phase
    """State of the job."""
    cluster: str = ""
    """Its present or last cluster; empty while it has none."""
    attempt: int = 0
    """Number of its attempt, from 1; 0 until its first placement."""
    gpu_milli: int = 0
    """Request of all its replicas, in thousandths of a GPU."""
    replicas: int = 0
    """Number of replicas of all its task groups."""
    nodes: tuple[str, ...] = ()
    """Nodes of its placement, each once."""
    slots: tuple[Slot, ...] = ()
    submitted_at: InstantNs = 0
    queued_at: InstantNs = 0
    placed_at: InstantNs = 0
    running_at: InstantNs = 0
    ended_at: InstantNs = 0
    reason: str = ""
    """Why it waits, stops or ended."""
    detail: str = ""
    """`reason` as text, with numbers."""
    exit_code: int = 0
    preflight: str = ""
    """The policy by which its attempt passed pre-flight."""
    trace: str = ""
    """W3C traceparent of its submission."""
    seq: int = 0
    """Sequence of the newest fact that changed the row."""
    min_replicas: int = 0
    """Least number of replicas that it can shrink to."""
    preemptible: bool = True
    preemptions: int = 0
    """Attempts that ended by preemption."""
    ran_s: float = 0.0
    """Run time of all ended attempts, in seconds."""
    checkpointed_at: InstantNs = 0
    """When it wrote its newest checkpoint."""
    slice_ends_at: InstantNs = 0
    """Until when its attempt may not be preempted."""
    reserved_at: InstantNs = 0
    """When its reserved slots are expected to be free."""
    made_way_for: str = ""
    """Id of the job for which it stops or shrinks."""
    held: bool = False
    """It is held: it waits and is not placed."""
    origin: str = ""
    """The Kubernetes object that it stands for, "MusterJob physics/train"; empty for other submissions."""
    retries: int = 0
    """Maximum number of consecutive failures of its own without progress after which it runs again."""
    retries_used: int = 0
    """Attempts after failures of its own, in total."""
    node_losses: int = 0
    """Attempts that ended with their node, or for a fault of it."""
    preflight_failures: int = 0
    """Consecutive attempts that ended before their first step."""
    lost_s: float = 0.0
    """Work of all ended attempts that no checkpoint holds, in seconds."""
    lost_last_s: float = 0.0
    """Work of the last attempt that no checkpoint holds, in seconds."""
    excluded: tuple[str, ...] = ()
    """Nodes that it is not placed on."""
    failures_in_row: int = 0
    """Consecutive failures of its own without progress, which `retries` limits."""
    measured_s: float = 0.0
    """GPU-seconds of all attempts that telemetry measured, as last reported."""
    busy_s: float = 0.0
    """Of `measured_s`, weighted by the utilization of the GPUs."""
    total_run_time_s: float = 0.0
    """Run-time limit over all attempts, within the limits of its queue."""
    min_slice_s: float = 0.0
    """Minimum run time before preemption, within the limits of its queue."""


def job_view(job: Job, *, cluster: str = "", submitted_at: int | None = None, seq: int = 0) -> JobView:
    """Return the view of a job that was just submitted.

    submitted_at: None for the value of the job itself.
    """
    spec = job.spec
    return JobView(
        id=job.id,
        name=spec.name,
        team=spec.team,
        principal=job.principal,
        queue=spec.queue_name,
        kind=spec.kind,
        priority=spec.priority,
        phase=Phase.SUBMITTED,
        cluster=cluster,
        gpu_milli=spec.gpu_milli_total,
        replicas=sum(group.replicas for group in spec.task_groups),
        submitted_at=job.submitted_at if submitted_at is None else submitted_at,
        trace=job.trace,
        seq=seq,
        min_replicas=sum(group.replicas_least for group in spec.task_groups),
        preemptible=spec.preemptible,
        origin=job.origin.title if job.origin is not None else "",
        retries=spec.retries,
        total_run_time_s=spec.total_run_time_s,
        min_slice_s=spec.min_slice_s,
    )


_IN_OTHER_FORM = frozenset(
    {"queue", "priority", "held", "excluded", "failures_in_row", "total_run_time_s", "min_slice_s"}
)
"""Fields of `JobState` that have other values in a job's row."""
SAME_AS_STATE = tuple(name for name in field_names(JobView) if name in {*field_names(JobState)} - _IN_OTHER_FORM)
"""Fields that a job's row copies from its state: a field that both classes have is copied without further code."""


def follow_state(row: JobView, state: JobState) -> None:
    """Update a job's row from its state. Fields that the state lacks stay: `cluster`, `slice_ends_at`, `seq`."""
    for name in SAME_AS_STATE:
        setattr(row, name, getattr(state, name))
    row.queue = state.queue or row.queue
    row.nodes = tuple(dict.fromkeys(slot.node for slot in state.slots))
    row.priority = row.priority if state.priority is None else state.priority
    spec = state.job.spec
    row.total_run_time_s = spec.total_run_time_s if state.total_run_time_s is None else state.total_run_time_s
    row.min_slice_s = spec.min_slice_s if state.min_slice_s is None else state.min_slice_s
    row.held = state.held is not None
    row.reserved_at = state.reserved.starts_at if state.reserved is not None else 0
    row.excluded = tuple(one.node for one in state.excluded)
    row.failures_in_row = state.retries_used if state.failures_in_row is None else state.failures_in_row


class NodeReason(Wire):
    """Why a node or one of its devices accepts no new jobs, now or soon."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    what: str
    """One of "cordoned", "drained" (by a person), "withheld" (by a service), "planned", "lost" and "not-released"."""
    by: str = ""
    """The person or service."""
    reason: str = ""
    request_id: str = ""
    """Id of the service's request."""
    device: str = ""
    """The device's uuid; empty for the node."""
    running: RunningJobs | None = None
    """Treatment of running jobs."""
    since: InstantNs = 0
    """When it was requested."""
    from_at: InstantNs = 0
    """Time from which it has to be free, if that is planned."""
    is_held: bool = False
    """Jobs still use it."""


@dataclass(slots=True, kw_only=True)
class NodeView(Record):
    """One node."""

    name: str
    cluster: str
    gpu_model: str = ""
    gpus: int = 0
    """Present devices; empty places of a composable node are not counted."""
    gpu_milli_held: int = 0
    cpu_milli: int = 0
    cpu_milli_held: int = 0
    memory_mib: int = 0
    memory_mib_held: int = 0
    domains: tuple[tuple[str, str], ...] = ()
    """As in `NodeJoined`."""
    usable: bool = False
    """Schedulable, answering, not drained."""
    lost: bool = False
    """It no longer answers."""
    reason: str = ""
    """The first of `reasons` that applies now, as text."""
    jobs: tuple[str, ...] = ()
    """Jobs that have resources there, each once."""
    device_domains: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """As in `NodeJoined`."""
    group: str = ""
    """As in `NodeJoined`."""
    reasons: tuple[NodeReason, ...] = ()
    """All reasons against using it or one of its devices, now or later."""
    condition: str = ""
    """Its phase in health; empty while it is healthy."""


@dataclass(slots=True, kw_only=True)
class QueueView(Record):
    """One queue. None: unlimited."""

    name: str
    cluster: str
    parent: str | None = None
    gpu_milli_quota: int | None = None
    gpu_milli_limit: int | None = None
    gpu_milli_held: int = 0
    jobs_queued: int = 0
    jobs_running: int = 0
    closed: bool = False
    """It accepts no new jobs."""
    quota: dict[str, int] = field(default_factory=dict)
    borrowing_limit: dict[str, int] = field(default_factory=dict)
    lending_limit: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    """Resources of its jobs and of its child queues."""
    weight: float = 1.0
    order: QueueOrder | None = None
    share: float = 0.0
    """What it borrows of the lendable resources, dominant resource, by weight; 0 while it borrows nothing."""
    used_share: float = 0.0
    """The same for its recent use, decayed."""
    spec: QueueSpec | None = None
    """The queue's complete specification, as requested."""


QUEUE_NOT_STORED = frozenset({"share", "used_share"})
"""Fields of `QueueView` that only the scheduler computes: the read model does not store them."""


@dataclass(slots=True, kw_only=True)
class ReservationView(Record):
    """One advance reservation."""

    name: str
    cluster: str
    spec: ReservationSpec
    active: bool = False
    """It is in effect now."""
    next_starts_at: InstantNs = 0
    held_gpu_milli: int = 0
    """How much of it is free already."""


RESERVATION_NOT_STORED = frozenset({"active", "held_gpu_milli"})
"""As QUEUE_NOT_STORED, of `ReservationView`."""


@dataclass(slots=True, kw_only=True)
class FactView(Record):
    """One fact as users see it."""

    id: str
    seq: int
    time: InstantNs
    stream: str
    cluster: str
    writer: str
    kind: str
    subject_id: str
    name: str
    causes: tuple[str, ...] = ()
    trace: str = ""
    body: str = ""
    """The payload's JSON."""


class Problem(Wire):
    """An RFC 9457 problem document. field: the wrong part of the request; cure: what to do.

    holder: the job or request in the way, if any.
    """

    type: str = "about:blank"
    title: str
    status: int
    detail: str = ""
    field: str = ""
    cure: str = ""
    holder: str = ""
    retry_after_s: int = 0
    """Seconds after which the same request may be sent again; 0: not specified."""


class SubmitAnswer(Wire):
    """Outcome of one job of a batch. status: as if it had been submitted alone; with a job, or else a problem."""

    status: int
    job: JobView | None = None
    problem: Problem | None = None
