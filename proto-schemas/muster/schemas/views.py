"""What is answered to people: the read model's rows, the same in Redis, over HTTP, in the SDK and on the screen."""

from pydantic import Field

from muster.schemas.base import InstantNs, Wire
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.queue import QueueOrder, QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import Job, JobKind, Phase, Slot


class JobView(Wire):
    """One job as people see it. Times are 0 while they have not come; phase says where it stands.

    priority: as asked last. held: somebody asked that it is not started; it waits, and is passed over.
    origin: the object of Kubernetes that it stands for, "MusterJob physics/train"; "" if a person submitted it.
    failures_in_row: of the job itself, without progress between them, which `retries` bounds; retries_used: runs after
    such failures, ever. node_losses: runs that ended with their node, or for a
    fault of it. preflight_failures: runs in a row that ended before their first step. lost_s: work of all ended runs
    that no checkpoint keeps; lost_last_s: of the last. excluded: nodes that it is not placed on.
    """

    id: str
    name: str
    team: str
    principal: str
    queue: str
    kind: JobKind = JobKind.BATCH
    priority: int = 50
    phase: Phase
    cluster: str = ""
    attempt: int = 0
    gpu_milli: int = 0
    replicas: int = 0
    nodes: tuple[str, ...] = ()
    slots: tuple[Slot, ...] = ()
    submitted_at: InstantNs = 0
    queued_at: InstantNs = 0
    placed_at: InstantNs = 0
    running_at: InstantNs = 0
    ended_at: InstantNs = 0
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
    checkpointed_at: InstantNs = 0
    slice_ends_at: InstantNs = 0
    reserved_at: InstantNs = 0
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


def job_view(job: Job) -> JobView:
    """A job that was just submitted, before any core said anything of it."""
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
        gpu_milli=spec.gpu_milli_total,
        replicas=sum(group.replicas for group in spec.task_groups),
        submitted_at=job.submitted_at,
        trace=job.trace,
        min_replicas=sum(group.replicas_least for group in spec.task_groups),
        preemptible=spec.preemptible,
        origin=job.origin.title if job.origin is not None else "",
        retries=spec.retries,
    )


class NodeReason(Wire):
    """Why a node, or a device of it, takes nothing new, or soon will not.

    what: "cordoned", "drained" (by a person), "withheld" (by a service; is_held: jobs still hold it), "planned" (it has
    to be free `from_at` on), "lost" or "not-released". by: the person or service. request_id: a service's. device: the
    uuid, "": the node. running: what becomes of jobs there. since: when it was asked.
    """

    what: str
    by: str = ""
    reason: str = ""
    request_id: str = ""
    device: str = ""
    running: RunningJobs | None = None
    since: InstantNs = 0
    from_at: InstantNs = 0
    is_held: bool = False


class NodeView(Wire):
    """One node. usable: released by the scheduler, answering, not withheld. device_domains, group: as in `NodeJoined`.

    gpus: devices that are there now; places of a composable node that have none are not counted. reasons: all that
    speaks against using it or one of its devices, now or later; `reason`: the first that does now, in words.
    condition: the phase that health has it in, "" while it is healthy.
    """

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


class QueueView(Wire):
    """One queue. None: unlimited.

    held: by its jobs and those of the queues below it. share: what it borrows of what can be lent, dominant resource,
    by weight, 0 while it borrows nothing. used_share: the same for all that it held lately, decayed. Only the scheduler
    tells the shares. spec: the queue as it was asked for, with all its knobs.
    """

    name: str
    cluster: str
    parent: str | None = None
    gpu_milli_quota: int | None = None
    gpu_milli_limit: int | None = None
    gpu_milli_held: int = 0
    jobs_queued: int = 0
    jobs_running: int = 0
    closed: bool = False
    quota: dict[str, int] = Field(default_factory=dict)
    borrowing_limit: dict[str, int] = Field(default_factory=dict)
    lending_limit: dict[str, int] = Field(default_factory=dict)
    held: dict[str, int] = Field(default_factory=dict)
    weight: float = 1.0
    order: QueueOrder | None = None
    share: float = 0.0
    used_share: float = 0.0
    spec: QueueSpec | None = None


class ReservationView(Wire):
    """One advance reservation. active: it is being kept now; held_gpu_milli: how much of it is free already."""

    name: str
    cluster: str
    spec: ReservationSpec
    active: bool = False
    next_starts_at: InstantNs = 0
    held_gpu_milli: int = 0


class FactView(Wire):
    """One fact as people see it. body: the payload's JSON."""

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
