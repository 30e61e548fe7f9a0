"""Facts of a job, from submission to its one terminal fact."""

from dataclasses import dataclass
from enum import StrEnum

from muster.schemas.base import InstantNs, JobId, Payload, Text
from muster.schemas.facts.federation import Assignment, JobRecalled, Reroute
from muster.schemas.facts.job_wishes import JobHeld, JobWish
from muster.schemas.facts.operations import NodeExcluded, PreflightFailed, PreflightPlan
from muster.schemas.job import Job, Phase, Priority, Slot
from muster.schemas.record import StateRecord


class JobSubmitted(Payload):
    """`submitted`: the gateway accepted the job; from here on it is never lost."""

    job: Job


class JobRouted(Payload):
    """`routed`: federation chose the cluster; carries the whole job, so a cluster needs nothing else.

    assignment: counts the clusters that the job was given to. lost_after_s: so long after the cluster's last contact
    with the federation the job is given to another one; 0: never. age_s: how long it waited elsewhere before, which
    counts for its place in line. rule: by which it goes there, in words.
    """

    job: Job
    cluster: str
    assignment: int = 1
    lost_after_s: float = 0.0
    age_s: float = 0.0
    rule: Text = ""


class JobEnded(Payload):
    """`job-ended`: a cluster's terminal fact as it came back to the federation.

    source_seq: sequence of the copied fact in FED_UP; copying goes on after the greatest one. assignment: which of the
    job's it ended; another one than the job has now counts for nothing.
    """

    cluster: str
    phase: Phase
    ended_at: InstantNs
    reason: Text = ""
    source_seq: int = 0
    assignment: int = 1


class JobCancelRequested(Payload):
    """`cancel-requested` and `cancel-forwarded`: somebody no longer wants the job."""

    principal: str
    reason: Text = ""


class QueuedReason(StrEnum):
    """Why a job waits (again)."""

    SUBMITTED = "submitted"
    RETRY = "retry"
    NODE_LOST = "node-lost"
    PREEMPTED = "preempted"
    PREFLIGHT_FAILED = "preflight-failed"


class JobQueued(Payload):
    """`queued`: the job waits in `queue`. attempt: number of the run that it waits for, from 1.

    total_run_time_s, min_slice_s: after the queue's defaults and maxima; None: as the job says. excluded: nodes that it
    is not placed on from now on. failures_in_row: of the job itself, without progress between them, up to now; None: as
    before, and one more after a failure of its own.
    """

    queue: str
    attempt: int
    reason: QueuedReason = QueuedReason.SUBMITTED
    detail: Text = ""
    total_run_time_s: float | None = None
    min_slice_s: float | None = None
    excluded: tuple[NodeExcluded, ...] = ()
    failures_in_row: int | None = None

    def failures_after(self, before: int) -> int:
        """The job's own failures in a row from now on. before: up to now."""
        if self.failures_in_row is not None:
            return self.failures_in_row
        return before + (self.reason is QueuedReason.RETRY)


class JobPlaced(Payload):
    """`placed`: the whole gang has its slots; they are held until `queued` again or a terminal fact.

    slice_s: how long the run is not preempted, counted from `running`. preflight: what is checked before its first
    step; None: nothing, it runs when its pods do.
    """

    attempt: int
    slots: tuple[Slot, ...]
    slice_s: float = 0.0
    preflight: PreflightPlan | None = None


class JobReserved(Payload):
    """`reserved`: the job gets these slots at `starts_at`; until then only what ends before may use them.

    victims: jobs that were asked to stop to make way (their `stop-requested` stand beside this fact). basis: what the
    moment rests on, in words. The newest one counts; `reservation-lifted`, `held`, `placed` and the end of the job end
    it.
    """

    attempt: int
    slots: tuple[Slot, ...]
    starts_at: InstantNs
    victims: tuple[JobId, ...] = ()
    basis: Text = ""


class JobReservationLifted(Payload):
    """`reservation-lifted`: what was reserved for the job is free for others. reason: why."""

    attempt: int
    reason: Text = ""


class JobResizeRequested(Payload):
    """`resize-requested`: an elastic job shall run with exactly these slots, more or fewer than it has.

    What is new is held from here on; what is given up stays held until `resized`. made_way_for: for whom it shrinks.
    """

    attempt: int
    slots: tuple[Slot, ...]
    grace_s: float = 0.0
    made_way_for: str = ""


class PodsResized(Payload):
    """`pods-resized`: exactly the pods of the newest `resize-requested` run; slots: how many."""

    attempt: int
    slots: int


class JobResized(Payload):
    """`resized`: the job has these slots, and nothing else."""

    attempt: int
    slots: tuple[Slot, ...]


class JobRunning(Payload):
    """`running`: all pods started and pre-flight passed. preflight: which policy said so."""

    attempt: int
    preflight: str = "null"


class JobUnschedulable(Payload):
    """`unschedulable`: no place now, or the shortage changed. reason: fixed vocabulary; detail: with numbers."""

    reason: str
    detail: Text = ""


class StopReason(StrEnum):
    """Why running pods are asked to end."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed-out"
    NODE_LOST = "node-lost"
    PREEMPTED = "preempted"


class JobStopRequested(Payload):
    """`stop-requested`: the agent tells the pods of this attempt, and ends them after `grace_s`.

    made_way_for: the job for which this one is preempted. detail: why this one, with numbers.
    """

    attempt: int
    reason: StopReason
    grace_s: float = 0.0
    made_way_for: str = ""
    detail: Text = ""


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

    reason: in words, where the cluster says more than that: why a pod was refused, or could not be started.
    """

    attempt: int
    outcome: PodsOutcome
    exit_code: int = 0
    ran_s: float = 0.0
    node: str = ""
    reason: Text = ""


class JobCheckpointed(Payload):
    """`checkpointed`: the job could resume from here."""

    attempt: int


class JobFinished(Payload):
    """The terminal facts `succeeded`, `failed`, `cancelled`, `timed-out`. assignment: as `routed` said."""

    attempt: int = 0
    exit_code: int = 0
    reason: Text = ""
    ran_s: float = 0.0
    assignment: int = 1


class JobState(Payload):
    """`state-recorded` of a job in a cluster: all that any core needs of it to go on.

    retries_used: runs after its own failures, ever. stop_reason: set while stopping. ran_s: over all ended runs.
    last_fact: id of the newest fact that moved it. routed_seq: its place in the line of its queue.
    node_losses: runs that ended with their node. explained_at: when `reason` was last said.
    queued_reason, queued_detail: as the newest `queued` said.
    What was observed and not yet answered by the scheduler: cancel_fact, started_fact, exited (told by exited_fact),
    resized_fact. checkpointed_at: newest checkpoint. total_run_time_s, min_slice_s: as `queued` said.
    rank: place in line, see the scheduler. reserved: as the newest one said, None without; resize: under way.
    resized_at: when the run got the size it has, 0 if it has it since its start.
    made_way_for: while stopping or shrinking for another job. preemptions: runs that ended so.
    held: as the newest one said, while it is. priority: as asked last, None: as the job says. wishes: not yet answered.
    picked: devices that the kubelet picked for the run, as far as they were observed. assignment, lost_after_s: as
    `routed` said. recall: that it be given back, as asked by recall_fact and not answered; recall_drops: whatever it is
    doing. stop_detail: as the newest `stop-requested` said. preflight_plan: of the run; preflight_fact: it passed;
    preflight_failed (told by preflight_failed_fact): it did not. preflight_failures: in a row, up to now. excluded:
    nodes that it is not placed on. lost_s: work of all ended runs that no checkpoint keeps; lost_last_s: of the last.
    started_at, exited_at: when the pods of the run were told to run, to have ended. losses_in_row: of `node_losses`,
    the newest ones, between which no run made progress. failures_in_row: of the job itself, the same, which
    `spec.retries` bounds; None: as retries_used.
    """

    job: Job
    phase: Phase
    attempt: int = 1
    retries_used: int = 0
    queue: str = ""
    slots: tuple[Slot, ...] = ()
    queued_at: InstantNs = 0
    placed_at: InstantNs = 0
    running_at: InstantNs = 0
    ended_at: InstantNs = 0
    stop_reason: StopReason | None = None
    cancel_requested: bool = False
    ran_s: float = 0.0
    exit_code: int = 0
    reason: str = ""
    detail: str = ""
    preflight: str = ""
    last_fact: str = ""
    routed_seq: int = 0
    node_losses: int = 0
    explained_at: InstantNs = 0
    cancel_fact: str = ""
    started_fact: str = ""
    exited: PodsExited | None = None
    exited_fact: str = ""
    queued_reason: QueuedReason | None = None
    queued_detail: str = ""
    checkpointed_at: InstantNs = 0
    total_run_time_s: float | None = None
    min_slice_s: float | None = None
    rank: int | None = None
    reserved: JobReserved | None = None
    resize: JobResizeRequested | None = None
    resized_fact: str = ""
    resized_at: InstantNs = 0
    made_way_for: str = ""
    preemptions: int = 0
    held: JobHeld | None = None
    priority: Priority | None = None
    wishes: tuple[JobWish, ...] = ()
    picked: tuple[str, ...] = ()
    assignment: int = 1
    lost_after_s: float = 0.0
    recall: JobRecalled | None = None
    recall_drops: bool = False
    recall_fact: str = ""
    stop_detail: Text = ""
    preflight_plan: PreflightPlan | None = None
    preflight_fact: str = ""
    preflight_failed: PreflightFailed | None = None
    preflight_failed_fact: str = ""
    preflight_failures: int = 0
    excluded: tuple[NodeExcluded, ...] = ()
    lost_s: float = 0.0
    lost_last_s: float = 0.0
    started_at: InstantNs = 0
    exited_at: InstantNs = 0
    losses_in_row: int = 0
    failures_in_row: int | None = None


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
    """Id of the fact that asked for it."""
    wishes: tuple[JobWish, ...] = ()
    """What else was asked of it and is not yet forwarded."""
    assignment: int = 0
    """Number of its newest assignment to a cluster, as `routed` said; 0: it never had one."""
    lost_after_s: float = 0.0
    """As `routed` said."""
    rule: str = ""
    """As `routed` said."""
    routed_at: InstantNs = 0
    reroute: Reroute | None = None
    """The move to another cluster that is under way."""
    standing: tuple[JobWish, ...] = ()
    """What was asked of it and forwarded, for the next cluster."""
    owed: tuple[Assignment, ...] = ()
    """Assignments that clusters were told to drop and have not said that they did."""


@dataclass(slots=True)
class PodsState(StateRecord):
    """`state-recorded` of one attempt's pods, as the agent knows them."""

    attempt: int
    job_id: JobId
    placed_at: InstantNs = 0
    started_at: InstantNs = 0
    """When all of them ran; 0: they did not yet."""
    ending_at: InstantNs = 0
    """Since when they are asked to end, by a stop or by the loss of `lost_node`; 0: they are not."""
    lost_node: str = ""
    exited: bool = False
    """Whether they are gone; then only `attempt` and `resumed_s` are told beside."""
    last_fact: str = ""
    """Id of the newest fact that moved them: the cause of what they do next."""
    grace_s: float = 0.0
    """As the stop said."""
    lost_at: InstantNs = 0
    """When `lost_node` was lost, if they had been asked to end before; else 0."""
    checkpointed_at: InstantNs = 0
    """When this attempt wrote its newest checkpoint."""
    resumed_s: float = 0.0
    """Seconds of work of earlier attempts that checkpoints keep; of an attempt that exited its own included."""
    slots: tuple[Slot, ...] = ()
    """Where they run. In a checkpoint only once a resize was asked for: else the job's own state says it."""
    resizing: JobResizeRequested | None = None
    """The resize that is under way."""
    resizing_at: InstantNs = 0
    """When it was asked for."""
    resize_fact: str = ""
    """Id of the fact that asked for the newest resize, also for one that is done."""
    evict: bool = False
    """Whether they end to make way for others."""
    preflight: PreflightPlan | None = None
    """What is checked before their first step."""
    is_checked: bool = False
    """Whether all results of these checks were reported."""
    opened_at: InstantNs = 0
    """When they were told to begin their first step; 0 before that, and if nothing is checked."""
