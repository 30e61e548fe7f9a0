"""What is answered to people: the read model's rows, the same in Redis, over HTTP, in the SDK and on the screen."""

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
    """One job as people see it. Times are 0 while they have not come."""

    id: str
    name: str
    team: str
    principal: str
    """Who submitted it."""
    queue: str
    kind: JobKind = JobKind.BATCH
    priority: int = 50
    """As asked last."""
    phase: Phase
    """Where it stands."""
    cluster: str = ""
    """The one that it is in, or was last; empty while it has none."""
    attempt: int = 0
    """Number of its run, from 1; 0 until it was placed first."""
    gpu_milli: int = 0
    """What all its replicas ask for, in thousandths of a GPU."""
    replicas: int = 0
    """Of all its task groups."""
    nodes: tuple[str, ...] = ()
    """Where it is placed, each once."""
    slots: tuple[Slot, ...] = ()
    submitted_at: InstantNs = 0
    queued_at: InstantNs = 0
    placed_at: InstantNs = 0
    running_at: InstantNs = 0
    ended_at: InstantNs = 0
    reason: str = ""
    """Why it waits, stops or ended."""
    detail: str = ""
    """`reason` in words, with numbers."""
    exit_code: int = 0
    preflight: str = ""
    """The policy by which its run passed pre-flight."""
    trace: str = ""
    """W3C traceparent of its submission."""
    seq: int = 0
    """Sequence of the newest fact that changed the row."""
    min_replicas: int = 0
    """The least that it can shrink to."""
    preemptible: bool = True
    preemptions: int = 0
    """Runs that ended to make way for others."""
    ran_s: float = 0.0
    """Run time of all ended runs."""
    checkpointed_at: InstantNs = 0
    """When it wrote its newest checkpoint."""
    slice_ends_at: InstantNs = 0
    """Until when its run is left alone."""
    reserved_at: InstantNs = 0
    """When what is kept for it is to be free."""
    made_way_for: str = ""
    """Id of the job for which it stops or shrinks."""
    held: bool = False
    """Somebody asked that it is not started: it waits, and is passed over."""
    origin: str = ""
    """The object of Kubernetes that it stands for, "MusterJob physics/train"; empty if a person submitted it."""
    retries: int = 0
    """How many failures of its own in a row, without progress between them, it may run again after."""
    retries_used: int = 0
    """Runs after its own failures, ever."""
    node_losses: int = 0
    """Runs that ended with their node, or for a fault of it."""
    preflight_failures: int = 0
    """Runs in a row that ended before their first step."""
    lost_s: float = 0.0
    """Work of all ended runs that no checkpoint keeps."""
    lost_last_s: float = 0.0
    """Work of the last run that no checkpoint keeps."""
    excluded: tuple[str, ...] = ()
    """Nodes that it is not placed on."""
    failures_in_row: int = 0
    """Of the job itself, without progress between them, which `retries` bounds."""


def job_view(job: Job, *, cluster: str = "", submitted_at: int | None = None, seq: int = 0) -> JobView:
    """Return a job that was just submitted, before any core said anything of it.

    submitted_at: None for what the job itself says.
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
    )


_IN_OTHER_FORM = frozenset({"queue", "priority", "held", "excluded", "failures_in_row"})
"""Fields that a `JobState` has, too, but not with the values that people see."""
SAME_AS_STATE = tuple(name for name in field_names(JobView) if name in {*field_names(JobState)} - _IN_OTHER_FORM)
"""Fields that a job's row has from its state as they stand there: whoever adds one to both has it in the row."""


def follow_state(row: JobView, state: JobState) -> None:
    """Bring a job's row to what its state says. What is not in the state stays: `cluster`, `slice_ends_at`, `seq`."""
    for name in SAME_AS_STATE:
        setattr(row, name, getattr(state, name))
    row.queue = state.queue or row.queue
    row.nodes = tuple(dict.fromkeys(slot.node for slot in state.slots))
    row.priority = row.priority if state.priority is None else state.priority
    row.held = state.held is not None
    row.reserved_at = state.reserved.starts_at if state.reserved is not None else 0
    row.excluded = tuple(one.node for one in state.excluded)
    row.failures_in_row = state.retries_used if state.failures_in_row is None else state.failures_in_row


class NodeReason(Wire):
    """Why a node, or a device of it, takes nothing new, or soon will not."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    what: str
    """One of "cordoned", "drained" (by a person), "withheld" (by a service), "planned", "lost" and "not-released"."""
    by: str = ""
    """The person or service."""
    reason: str = ""
    request_id: str = ""
    """Of the service's request."""
    device: str = ""
    """Its uuid; empty: the node."""
    running: RunningJobs | None = None
    """What becomes of jobs there."""
    since: InstantNs = 0
    """When it was asked."""
    from_at: InstantNs = 0
    """From when on it has to be free, where that is planned."""
    is_held: bool = False
    """Jobs still hold what is withheld."""


@dataclass(slots=True, kw_only=True)
class NodeView(Record):
    """One node."""

    name: str
    cluster: str
    gpu_model: str = ""
    gpus: int = 0
    """Devices that are there now; places of a composable node that have none are not counted."""
    gpu_milli_held: int = 0
    cpu_milli: int = 0
    cpu_milli_held: int = 0
    memory_mib: int = 0
    memory_mib_held: int = 0
    domains: tuple[tuple[str, str], ...] = ()
    """As in `NodeJoined`."""
    usable: bool = False
    """Released by the scheduler, answering, not withheld."""
    lost: bool = False
    """It stopped answering."""
    reason: str = ""
    """The first of `reasons` that speaks against it now, in words."""
    jobs: tuple[str, ...] = ()
    """Those that hold something there, each once."""
    device_domains: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """As in `NodeJoined`."""
    group: str = ""
    """As in `NodeJoined`."""
    reasons: tuple[NodeReason, ...] = ()
    """All that speaks against using it or one of its devices, now or later."""
    condition: str = ""
    """The phase that health has it in; empty while it is healthy."""


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
    """It takes no new jobs."""
    quota: dict[str, int] = field(default_factory=dict)
    borrowing_limit: dict[str, int] = field(default_factory=dict)
    lending_limit: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    """By its jobs and those of the queues below it."""
    weight: float = 1.0
    order: QueueOrder | None = None
    share: float = 0.0
    """What it borrows of what can be lent, dominant resource, by weight; 0 while it borrows nothing."""
    used_share: float = 0.0
    """The same for all that it held lately, decayed."""
    spec: QueueSpec | None = None
    """The queue as it was asked for, with all its knobs."""


QUEUE_NOT_STORED = frozenset({"share", "used_share"})
"""Fields of `QueueView` that only the scheduler can tell: the read model has none of them."""


@dataclass(slots=True, kw_only=True)
class ReservationView(Record):
    """One advance reservation."""

    name: str
    cluster: str
    spec: ReservationSpec
    active: bool = False
    """It is being kept now."""
    next_starts_at: InstantNs = 0
    held_gpu_milli: int = 0
    """How much of it is free already."""


RESERVATION_NOT_STORED = frozenset({"active", "held_gpu_milli"})
"""As QUEUE_NOT_STORED, of `ReservationView`."""


@dataclass(slots=True, kw_only=True)
class FactView(Record):
    """One fact as people see it."""

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
    """An RFC 9457 problem document. field: which part of the request is wrong; cure: what to do.

    holder: the job or request that stands in the way, if one does.
    """

    type: str = "about:blank"
    title: str
    status: int
    detail: str = ""
    field: str = ""
    cure: str = ""
    holder: str = ""
    retry_after_s: int = 0
    """After how many seconds the same request may be sent again; 0: not said."""


class SubmitAnswer(Wire):
    """What became of one job of a batch. status: as the answer to it alone would have had; a job, or else a problem."""

    status: int
    job: JobView | None = None
    problem: Problem | None = None
