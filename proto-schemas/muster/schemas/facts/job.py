"""Facts of a job, from submission to its one terminal fact."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

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


class RunCounts(Protocol):
    """How the runs of a job ended, as its record and its row count them."""

    preemptions: int
    retries_used: int
    failures_in_row: int
    node_losses: int
    preflight_failures: int


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

    def count_run(self, counts: RunCounts) -> None:
        """Count how the run ended after which the job waits again."""
        reason = self.reason
        counts.preemptions += reason is QueuedReason.PREEMPTED
        counts.retries_used += reason is QueuedReason.RETRY
        counts.node_losses += reason is QueuedReason.NODE_LOST
        counts.preflight_failures += reason is QueuedReason.PREFLIGHT_FAILED
        if self.failures_in_row is not None:
            counts.failures_in_row = self.failures_in_row
        else:
            counts.failures_in_row += reason is QueuedReason.RETRY


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


@dataclass(slots=True)
class JobState(StateRecord):
    """`state-recorded` of a job in a cluster: all that any core needs of it to go on."""

    job: Job
    phase: Phase
    attempt: int = 1
    """Number of its run, from 1; while it waits, of the next one."""
    retries_used: int = 0
    """Runs after its own failures, ever."""
    queue: str = ""
    slots: tuple[Slot, ...] = ()
    """What it has been placed on; empty while it waits."""
    queued_at: InstantNs = 0
    """When it was queued last."""
    placed_at: InstantNs = 0
    """When its run was placed; 0 while it waits."""
    running_at: InstantNs = 0
    """When its run began; 0 before."""
    ended_at: InstantNs = 0
    stop_reason: StopReason | None = None
    """Why its run is being stopped; None if it is not."""
    cancel_requested: bool = False
    ran_s: float = 0.0
    """Run time of all ended runs."""
    exit_code: int = 0
    """Of the run that ended last."""
    reason: str = ""
    """Why it waits, in the fixed vocabulary, or why it ended."""
    detail: str = ""
    """`reason` in words, with numbers."""
    preflight: str = ""
    """The policy by which its run passed pre-flight."""
    last_fact: str = ""
    """Id of the newest fact that moved it."""
    routed_seq: int = 0
    """Sequence in the log of the fact that brought it."""
    node_losses: int = 0
    """Runs that ended with their node."""
    explained_at: InstantNs = 0
    """When `reason` was last said."""
    cancel_fact: str = ""
    """Id of the fact that asked for its cancellation."""
    started_fact: str = ""
    """Id of the fact that its pods started; empty once the run is over."""
    exited: PodsExited | None = None
    """How its pods ended, as long as no fact of the scheduler answers that."""
    exited_fact: str = ""
    """Id of the fact that told `exited`."""
    queued_reason: QueuedReason | None = None
    """As the newest `queued` said."""
    queued_detail: str = ""
    """As the newest `queued` said."""
    checkpointed_at: InstantNs = 0
    """When it wrote its newest checkpoint."""
    total_run_time_s: float | None = None
    """Within what its queue allows; None: as the job says."""
    min_slice_s: float | None = None
    """Within what its queue allows; None: as the job says."""
    rank: int | None = None
    """Its place in line, in nanoseconds: the earlier, the sooner. None: `routed_seq`."""
    reserved: JobReserved | None = None
    """What is kept for it while it waits, as the newest `reserved` said."""
    resize: JobResizeRequested | None = None
    """The resize that is under way."""
    resized_fact: str = ""
    """Id of the fact that its pods are as `resize` asks, as long as no fact of the scheduler answers that."""
    resized_at: InstantNs = 0
    """When its run got the size it has; 0: it has it since its start."""
    made_way_for: str = ""
    """Id of the job for which it stops or shrinks."""
    preemptions: int = 0
    """Runs that ended to make way for others."""
    held: JobHeld | None = None
    """By whom and why it is held, while it is not to be started."""
    priority: Priority | None = None
    """As asked last; None: as the job says."""
    wishes: tuple[JobWish, ...] = ()
    """Requests that were not answered."""
    picked: tuple[str, ...] = ()
    """UUIDs of devices that the kubelet picked for its run, as far as they were observed."""
    assignment: int = 1
    """As `routed` said."""
    lost_after_s: float = 0.0
    """As `routed` said."""
    recall: JobRecalled | None = None
    """The request to give it back to the federation, as long as it is not answered."""
    recall_drops: bool = False
    """Whether `recall` asks for it whatever it is doing."""
    recall_fact: str = ""
    """Id of the fact that asked for `recall`."""
    stop_detail: Text = ""
    """As the newest `stop-requested` said."""
    preflight_plan: PreflightPlan | None = None
    """What is checked before the first step of its run."""
    preflight_fact: str = ""
    """Id of the fact that its run passed pre-flight."""
    preflight_failed: PreflightFailed | None = None
    """How its run failed pre-flight."""
    preflight_failed_fact: str = ""
    """Id of the fact that told `preflight_failed`."""
    preflight_failures: int = 0
    """Runs in a row, up to now, that failed pre-flight."""
    excluded: tuple[NodeExcluded, ...] = ()
    """Nodes that it is not placed on."""
    lost_s: float = 0.0
    """Work of all ended runs that no checkpoint keeps."""
    lost_last_s: float = 0.0
    """Work of the last run that no checkpoint keeps."""
    started_at: InstantNs = 0
    """When the pods of its run were reported to run."""
    exited_at: InstantNs = 0
    """When the pods of its run were reported to have ended."""
    losses_in_row: int = 0
    """The newest ones of `node_losses`, between which no run made progress."""
    failures_in_row: int | None = None
    """Its own failures, between which no run made progress, which `spec.retries` bounds; None: `retries_used`."""


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
