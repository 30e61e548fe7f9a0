"""Facts of a job, from submission to its one terminal fact."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from muster.schemas.base import InstantNs, JobId, Payload, Text
from muster.schemas.facts.federation import Assignment, JobRecalled, Reroute
from muster.schemas.facts.job_requests import JobHeld, PendingEdit, PendingJobRequest, PendingRequeue
from muster.schemas.facts.operations import NodeExcluded, PreflightFailed, PreflightPlan
from muster.schemas.job import Job, Phase, Priority, Slot
from muster.schemas.record import StateRecord


class JobSubmitted(Payload):
    """`submitted`: the gateway accepted the job; from here on it is not lost."""

    job: Job


class JobRouted(Payload):
    """`routed`: the federation chose the cluster; carries the whole job, so a cluster needs nothing else.

    assignment: counts the clusters that the job was assigned to. lost_after_s: time after the cluster's last
    contact with the federation after which the job is rerouted; 0: never. age_s: time that it waited elsewhere,
    which counts for its position in the queue. rule: the routing rule, as text.
    """

    job: Job
    cluster: str
    assignment: int = 1
    lost_after_s: float = 0.0
    age_s: float = 0.0
    rule: Text = ""


class JobEnded(Payload):
    """`job-ended`: a cluster's terminal fact, copied by the federation.

    source_seq: sequence of the copied fact in FED_UP; copying continues after the greatest one. assignment: the one
    that ended; ignored unless it is the job's current assignment.
    """

    cluster: str
    phase: Phase
    ended_at: InstantNs
    reason: Text = ""
    source_seq: int = 0
    assignment: int = 1


class JobCancelRequested(Payload):
    """`cancel-requested` and `cancel-forwarded`: the job is to be cancelled."""

    principal: str
    reason: Text = ""


class QueuedReason(StrEnum):
    """Why a job waits (again)."""

    SUBMITTED = "submitted"
    RETRY = "retry"
    NODE_LOST = "node-lost"
    PREEMPTED = "preempted"
    PREFLIGHT_FAILED = "preflight-failed"


REQUEUED = "requeued"
"""Reason that users see of a job that a user requeued. In facts it is `preempted`, which readers before know, too."""


class RunCounts(Protocol):
    """Counters of how the attempts of a job ended, as its record and its row keep them."""

    preemptions: int
    retries_used: int
    failures_in_row: int
    node_losses: int
    preflight_failures: int


class JobQueued(Payload):
    """`queued`: the job waits in `queue`. attempt: number of the attempt that it waits for, from 1.

    total_run_time_s, min_slice_s: after the queue's defaults and maxima; None: as in the job. excluded: nodes that
    it is not placed on from now on. failures_in_row: consecutive failures of the job itself without progress; None:
    unchanged, and one more after a failure of its own. requeued: a user requested it; `reason` is `preempted`, but it
    is no preemption.
    """

    queue: str
    attempt: int
    reason: QueuedReason = QueuedReason.SUBMITTED
    detail: Text = ""
    total_run_time_s: float | None = None
    min_slice_s: float | None = None
    excluded: tuple[NodeExcluded, ...] = ()
    failures_in_row: int | None = None
    requeued: bool = False

    @property
    def shown_reason(self) -> str:
        """Return the reason as users see it."""
        return REQUEUED if self.requeued else self.reason.value

    def count_run(self, counts: RunCounts) -> None:
        """Count how the attempt ended after which the job waits again."""
        reason = self.reason
        counts.preemptions += reason is QueuedReason.PREEMPTED and not self.requeued
        counts.retries_used += reason is QueuedReason.RETRY
        counts.node_losses += reason is QueuedReason.NODE_LOST
        counts.preflight_failures += reason is QueuedReason.PREFLIGHT_FAILED
        if self.failures_in_row is not None:
            counts.failures_in_row = self.failures_in_row
        else:
            counts.failures_in_row += reason is QueuedReason.RETRY


class JobPlaced(Payload):
    """`placed`: the whole gang has its slots; they are held until `queued` again or a terminal fact.

    slice_s: time without preemption, from `running`. preflight: checks before its first step; None: none, it is
    running when its pods are.
    """

    attempt: int
    slots: tuple[Slot, ...]
    slice_s: float = 0.0
    preflight: PreflightPlan | None = None


class JobReserved(Payload):
    """`reserved`: the job gets these slots at `starts_at`; until then only jobs that end before may use them.

    victims: preemption targets (their `stop-requested` are beside this fact). basis: how the time was estimated, as
    text. The newest one counts; `reservation-lifted`, `held`, `placed` and the end of the job end it.
    """

    attempt: int
    slots: tuple[Slot, ...]
    starts_at: InstantNs
    victims: tuple[JobId, ...] = ()
    basis: Text = ""


class JobReservationLifted(Payload):
    """`reservation-lifted`: the job's reservation ended. reason: why."""

    attempt: int
    reason: Text = ""


class JobResizeRequested(Payload):
    """`resize-requested`: an elastic job shall run with exactly these slots, more or fewer than it has. New slots
    are held from here on; removed slots stay held until `resized`. made_way_for: the preemptor for which it shrinks."""

    attempt: int
    slots: tuple[Slot, ...]
    grace_s: float = 0.0
    made_way_for: str = ""


class PodsResized(Payload):
    """`pods-resized`: exactly the pods of the newest `resize-requested` run; slots: their number."""

    attempt: int
    slots: int


class JobResized(Payload):
    """`resized`: the job has exactly these slots."""

    attempt: int
    slots: tuple[Slot, ...]


class JobRunning(Payload):
    """`running`: all pods started and pre-flight passed. preflight: the policy that let it pass."""

    attempt: int
    preflight: str = "null"


class JobUnschedulable(Payload):
    """`unschedulable`: no placement now, or the shortage changed. reason: fixed vocabulary; detail: with numbers."""

    reason: str
    detail: Text = ""


class StopReason(StrEnum):
    """Why running pods are asked to end."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed-out"
    NODE_LOST = "node-lost"
    PREEMPTED = "preempted"


class JobStopRequested(Payload):
    """`stop-requested`: the agent notifies the pods of this attempt, and ends them after `grace_s`.

    made_way_for: the job for which this one is preempted. detail: why this one, with numbers. requeued: a user
    requested that the job is queued again; `reason` is `preempted`, but it is no preemption.
    """

    attempt: int
    reason: StopReason
    grace_s: float = 0.0
    made_way_for: str = ""
    detail: Text = ""
    requeued: bool = False

    @property
    def shown_reason(self) -> str:
        """Return the reason as users see it."""
        return REQUEUED if self.requeued else self.reason.value


class PodsStarted(Payload):
    """`pods-started`: all pods of the gang run. device_uuids: per slot, as observed."""

    attempt: int
    device_uuids: tuple[tuple[str, ...], ...] = ()


class PodsOutcome(StrEnum):
    """How the pods of one attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    NODE_LOST = "node-lost"


class PodsExited(Payload):
    """`pods-exited`: no pod of this attempt runs any more. exit_code: of the first pod that failed, else 0.

    reason: details of the cluster as text: why a pod was refused, or could not be started.
    """

    attempt: int
    outcome: PodsOutcome
    exit_code: int = 0
    ran_s: float = 0.0
    node: str = ""
    reason: Text = ""


class JobCheckpointed(Payload):
    """`checkpointed`: the job can resume from here."""

    attempt: int


class JobFinished(Payload):
    """The terminal facts `succeeded`, `failed`, `cancelled`, `timed-out`. assignment: as in `routed`."""

    attempt: int = 0
    exit_code: int = 0
    reason: Text = ""
    ran_s: float = 0.0
    assignment: int = 1


@dataclass(slots=True)
class JobState(StateRecord):
    """`state-recorded` of a job in a cluster: everything that a core needs of it after a restart."""

    job: Job
    phase: Phase
    attempt: int = 1
    """Number of its attempt, from 1; while it waits, of the next one."""
    retries_used: int = 0
    """Attempts after failures of its own, in total."""
    queue: str = ""
    slots: tuple[Slot, ...] = ()
    """The slots of its placement; empty while it waits."""
    queued_at: InstantNs = 0
    """When it was last queued."""
    placed_at: InstantNs = 0
    """When its attempt was placed; 0 while it waits."""
    running_at: InstantNs = 0
    """When its attempt began to run; 0 before."""
    ended_at: InstantNs = 0
    stop_reason: StopReason | None = None
    """Why its attempt is being stopped; None if it is not."""
    cancel_requested: bool = False
    ran_s: float = 0.0
    """Run time of all ended attempts, in seconds."""
    exit_code: int = 0
    """Exit code of the attempt that ended last."""
    reason: str = ""
    """Why it waits, in the fixed vocabulary, or why it ended."""
    detail: str = ""
    """`reason` as text, with numbers."""
    preflight: str = ""
    """The policy by which its attempt passed pre-flight."""
    last_fact: str = ""
    """Id of the newest fact that changed it."""
    routed_seq: int = 0
    """Sequence in the log of its `routed`."""
    node_losses: int = 0
    """Attempts that ended with their node."""
    explained_at: InstantNs = 0
    """When `reason` was last reported."""
    cancel_fact: str = ""
    """Id of the fact that requested its cancellation."""
    started_fact: str = ""
    """Id of the fact that its pods started; empty once the attempt is over."""
    exited: PodsExited | None = None
    """How its pods ended, until the scheduler answers that."""
    exited_fact: str = ""
    """Id of the fact that reported `exited`."""
    queued_reason: QueuedReason | None = None
    """Reason of the newest `queued`."""
    queued_detail: str = ""
    """Detail of the newest `queued`."""
    checkpointed_at: InstantNs = 0
    """When it wrote its newest checkpoint."""
    total_run_time_s: float | None = None
    """Within the limits of its queue; None: as in the job."""
    min_slice_s: float | None = None
    """Within the limits of its queue; None: as in the job."""
    rank: int | None = None
    """Its position in the queue, in nanoseconds: the smaller, the sooner. None: `routed_seq`."""
    reserved: JobReserved | None = None
    """Its reservation while it waits, from the newest `reserved`."""
    resize: JobResizeRequested | None = None
    """The resize under way."""
    resized_fact: str = ""
    """Id of the fact that its pods match `resize`, until the scheduler answers that."""
    resized_at: InstantNs = 0
    """When its attempt got its present size; 0: at its start."""
    made_way_for: str = ""
    """Id of the job for which it stops or shrinks."""
    preemptions: int = 0
    """Attempts that ended by preemption."""
    held: JobHeld | None = None
    """The hold in effect: by whom, and why."""
    priority: Priority | None = None
    """The newest requested priority; None: as in the job."""
    wishes: tuple[PendingJobRequest, ...] = ()
    """Requests without an answer."""
    picked: tuple[str, ...] = ()
    """UUIDs of devices that the kubelet picked for its attempt, as far as they were observed."""
    assignment: int = 1
    """As in `routed`."""
    lost_after_s: float = 0.0
    """As in `routed`."""
    recall: JobRecalled | None = None
    """The federation's request to hand it back, while it is not answered."""
    recall_drops: bool = False
    """Whether `recall` applies in any phase."""
    recall_fact: str = ""
    """Id of the fact that requested `recall`."""
    stop_detail: Text = ""
    """Detail of the newest `stop-requested`."""
    preflight_plan: PreflightPlan | None = None
    """The checks before the first step of its attempt."""
    preflight_fact: str = ""
    """Id of the fact that its attempt passed pre-flight."""
    preflight_failed: PreflightFailed | None = None
    """How its attempt failed pre-flight."""
    preflight_failed_fact: str = ""
    """Id of the fact that reported `preflight_failed`."""
    preflight_failures: int = 0
    """Consecutive attempts, up to now, that failed pre-flight."""
    excluded: tuple[NodeExcluded, ...] = ()
    """Nodes that it is not placed on."""
    lost_s: float = 0.0
    """Work of all ended attempts that no checkpoint holds, in seconds."""
    lost_last_s: float = 0.0
    """Work of the last attempt that no checkpoint holds, in seconds."""
    started_at: InstantNs = 0
    """When the pods of its attempt were reported as running."""
    exited_at: InstantNs = 0
    """When the pods of its attempt were reported as ended."""
    losses_in_row: int = 0
    """The newest `node_losses` without progress between them."""
    failures_in_row: int | None = None
    """Consecutive failures of its own without progress, which `spec.retries` limits; None: `retries_used`."""
    requeue: PendingRequeue | None = None
    """The request to requeue it, without an answer."""
    requeued: bool = False
    """Whether its attempt is being stopped, or was it last, because a user requeued it."""
    edit: PendingEdit | None = None
    """The request to edit it, without an answer."""


@dataclass(slots=True)
class RoutedState(StateRecord):
    """`state-recorded` of a job in the federation."""

    job: Job
    job_id: JobId
    cluster: str = ""
    """Empty while no cluster has it."""
    phase: Phase = Phase.SUBMITTED
    cancel_requested: bool = False
    cancel_forwarded: bool = False
    last_fact: str = ""
    cancel: JobCancelRequested | None = None
    """The newest cancellation."""
    cancel_fact: str = ""
    """Id of the fact that requested the cancellation."""
    wishes: tuple[PendingJobRequest, ...] = ()
    """Other requests that are not yet forwarded."""
    assignment: int = 0
    """Number of its newest assignment to a cluster, as in `routed`; 0: never assigned."""
    lost_after_s: float = 0.0
    """As in `routed`."""
    rule: str = ""
    """As in `routed`."""
    routed_at: InstantNs = 0
    reroute: Reroute | None = None
    """The reroute under way."""
    standing: tuple[PendingJobRequest, ...] = ()
    """Forwarded requests, to be forwarded to the next cluster, too."""
    owed: tuple[Assignment, ...] = ()
    """Assignments that clusters were told to drop and have not confirmed."""
    requeue: PendingRequeue | None = None
    """The request to requeue it, which is not yet forwarded; only the present cluster gets it."""
    edit: PendingEdit | None = None
    """The request to edit it, which is not yet forwarded."""
    standing_edit: PendingEdit | None = None
    """The forwarded request to edit it, to be forwarded to the next cluster, too."""


@dataclass(slots=True)
class PodsState(StateRecord):
    """`state-recorded` of one attempt's pods, by the agent."""

    attempt: int
    job_id: JobId
    placed_at: InstantNs = 0
    started_at: InstantNs = 0
    """When all of them ran; 0: not yet."""
    ending_at: InstantNs = 0
    """Since when they are asked to end, by a stop or by the loss of `lost_node`; 0: they are not."""
    lost_node: str = ""
    exited: bool = False
    """Whether they are gone; then only `attempt` and `resumed_s` are recorded as well."""
    last_fact: str = ""
    """Id of the newest fact that changed them: the cause of their next fact."""
    grace_s: float = 0.0
    """Grace period of the stop."""
    lost_at: InstantNs = 0
    """When `lost_node` was lost, if they had been asked to end before; else 0."""
    checkpointed_at: InstantNs = 0
    """When this attempt wrote its newest checkpoint."""
    resumed_s: float = 0.0
    """Seconds of work of earlier attempts that checkpoints hold; of an exited attempt, including its own."""
    slots: tuple[Slot, ...] = ()
    """Their slots. In a checkpoint only after a resize was requested: otherwise the job's own state has them."""
    resizing: JobResizeRequested | None = None
    """The resize under way."""
    resizing_at: InstantNs = 0
    """When it was requested."""
    resize_fact: str = ""
    """Id of the fact that requested the newest resize, also a completed one."""
    evict: bool = False
    """Whether they end by preemption."""
    preflight: PreflightPlan | None = None
    """The checks before their first step."""
    is_checked: bool = False
    """Whether all results of these checks were reported."""
    opened_at: InstantNs = 0
    """When they were told to begin their first step; 0 before, and without checks."""
