"""The table of all facts: for each, the stream, the kind, the name, its only writer, and the body.

One writer per (stream, kind, fact name), except the shared names, where the subject's service token is the writer.
NATS permissions, AsyncAPI documents and the reader's checks are derived from this table.
"""

from dataclasses import dataclass
from enum import StrEnum

from muster.schemas.facts import (
    composability,
    control,
    device,
    fabric,
    federation,
    guard,
    health,
    job,
    job_requests,
    node,
    operations,
    queue,
    reservation,
    scale,
    telemetry,
    upgrade,
    workload,
)
from muster.schemas.record import FactBody


class StreamRole(StrEnum):
    """The stream of a fact. LOG: one per cluster; FED: the federation's; FED_UP: reports of clusters."""

    LOG = "log"
    FED = "fed"
    FED_UP = "fedup"


ANY_SERVICE = "*"
SERVICES = (
    "gateway", "federation", "scheduler", "agent", "scaler", "composer", "telemetry", "health", "upgrader", "guard",
    "projector", "notifier", "simulator", "operator",
)  # fmt: skip
RESERVED_CLUSTERS = frozenset({"fed", "fedup", "view", "query"})


@dataclass(frozen=True, slots=True)
class FactType:
    """One row: `name` of a `kind` on `stream`, body `payload`, written by `writer` alone (or any service: shared)."""

    stream: StreamRole
    kind: str
    name: str
    writer: str
    payload: type[FactBody]

    @property
    def ce_type(self) -> str:
        """Return the CloudEvents type. A breaking change is a new fact name, so the version stays 1."""
        return f"muster.{self.kind}.{self.name}.v1"


def _rows(stream: StreamRole, writer: str, kind: str, **names: type[FactBody]) -> list[FactType]:
    return [FactType(stream, kind, name.replace("_", "-"), writer, payload) for name, payload in names.items()]


LOG, FED, FED_UP = StreamRole.LOG, StreamRole.FED, StreamRole.FED_UP
_TERMINAL: dict[str, type[FactBody]] = {
    "succeeded": job.JobFinished,
    "failed": job.JobFinished,
    "cancelled": job.JobFinished,
    "timed_out": job.JobFinished,
}

_FORWARDED_OF_JOBS: dict[str, type[FactBody]] = {
    "routed": job.JobRouted,
    "cancel_forwarded": job.JobCancelRequested,
    "hold_forwarded": job_requests.JobHoldRequested,
    "release_forwarded": job_requests.JobHoldRequested,
    "priority_forwarded": job_requests.JobPriorityRequested,
    "requeue_forwarded": job_requests.JobHoldRequested,
    "edit_forwarded": job_requests.JobEditRequested,
    "refusal_forwarded": workload.JobRefused,
    "recall_forwarded": federation.JobRecalled,
    "drop_forwarded": federation.JobRecalled,
}

TABLE: tuple[FactType, ...] = (
    *_rows(FED, "gateway", "job", submitted=job.JobSubmitted, cancel_requested=job.JobCancelRequested),
    *_rows(
        FED, "gateway", "job",
        hold_requested=job_requests.JobHoldRequested, release_requested=job_requests.JobHoldRequested,
        priority_requested=job_requests.JobPriorityRequested, requeue_requested=job_requests.JobHoldRequested,
        edit_requested=job_requests.JobEditRequested,
    ),
    *_rows(FED, "gateway", "job", refused=workload.JobRefused),
    *_rows(FED, "gateway", "queue", change_requested=queue.QueueChangeRequested),
    *_rows(
        FED, "gateway", "reservation",
        reserve_requested=reservation.ReserveRequested, end_requested=reservation.ReserveEndRequested,
    ),
    *_rows(FED, "federation", "job", **_FORWARDED_OF_JOBS, job_ended=job.JobEnded, cancelled=job.JobFinished),
    *_rows(
        FED, "federation", "job",
        job_returned=federation.JobReturned, job_return_refused=federation.JobReturnRefused,
        reroute_refused=federation.JobRerouteRefused,
    ),
    *_rows(FED, "gateway", "job", reroute_requested=federation.JobRerouteRequested),
    *_rows(
        FED, "gateway", "cluster",
        drain_requested=federation.ClusterDrainRequested, resume_requested=federation.ClusterResumeRequested,
    ),
    *_rows(FED, "gateway", "routing", change_requested=federation.RoutingChangeRequested),
    *_rows(
        FED, "federation", "routing",
        changed=federation.RoutingChanged, change_refused=federation.RoutingChangeRefused,
    ),
    *_rows(
        FED, "federation", "cluster",
        draining=federation.ClusterMoved, drained=federation.ClusterMoved, resumed=federation.ClusterMoved,
        lost=federation.ClusterMoved, returned=federation.ClusterMoved,
        drain_refused=federation.ClusterMoved, resume_refused=federation.ClusterMoved,
        contact_renewed=federation.ContactRenewed,
    ),
    *_rows(LOG, "federation", "cluster", contact_renewed=federation.ContactRenewed),
    *_rows(LOG, "agent", "cluster", contact_lost=federation.ContactLost),
    *_rows(FED, "federation", "queue", change_forwarded=queue.QueueChangeRequested),
    *_rows(FED, "federation", "cluster", cluster_summarised=control.ClusterSummary),
    *_rows(FED, "federation", "log", checkpoint_requested=control.CheckpointRequested),
    *_rows(LOG, "federation", "job", **_FORWARDED_OF_JOBS),
    *_rows(LOG, "federation", "queue", change_forwarded=queue.QueueChangeRequested),
    *(
        row
        for stream in (LOG, FED)
        for row in _rows(
            stream, "federation", "reservation",
            reserve_forwarded=reservation.ReserveRequested, end_forwarded=reservation.ReserveEndRequested,
        )
    ),
    *_rows(
        LOG, "scheduler", "job",
        queued=job.JobQueued, placed=job.JobPlaced, running=job.JobRunning, unschedulable=job.JobUnschedulable,
        stop_requested=job.JobStopRequested, **_TERMINAL,
    ),
    *_rows(
        LOG, "scheduler", "job",
        reserved=job.JobReserved, reservation_lifted=job.JobReservationLifted,
        resize_requested=job.JobResizeRequested, resized=job.JobResized,
    ),
    *_rows(
        LOG, "scheduler", "job",
        held=job_requests.JobHeld, unheld=job_requests.JobHeld, reprioritised=job_requests.JobReprioritised,
        hold_refused=job_requests.JobRequestRefused, release_refused=job_requests.JobRequestRefused,
        priority_refused=job_requests.JobRequestRefused, requeue_refused=job_requests.JobRequestRefused,
        edited=job_requests.JobEdited, edit_refused=job_requests.JobRequestRefused,
    ),
    *_rows(
        LOG, "scheduler", "reservation",
        booked=reservation.Booked, booking_refused=reservation.BookingRefused, ended=reservation.BookingEnded,
    ),
    *_rows(LOG, "scheduler", "node", withheld=node.Withheld, released=node.Released),
    *_rows(LOG, "scheduler", "device", withheld=node.Withheld, released=node.Released),
    *_rows(LOG, "scheduler", "queue", changed=queue.QueueChanged, change_refused=queue.QueueChangeRefused),
    *_rows(LOG, "scheduler", "cluster", summarised=control.ClusterSummary),
    *_rows(LOG, "scheduler", "log", checkpoint_requested=control.CheckpointRequested),
    *_rows(
        LOG, "scheduler", "job",
        returned=federation.JobReturned, return_refused=federation.JobReturnRefused,
    ),
    *_rows(LOG, "agent", "job", pods_started=job.PodsStarted, pods_exited=job.PodsExited),
    *_rows(LOG, "agent", "job", checkpointed=job.JobCheckpointed, pods_resized=job.PodsResized),
    *_rows(
        LOG, "agent", "node",
        joined=node.NodeJoined, lost=node.NodeLost, returned=node.NodeReturned, left=node.NodeLeft,
    ),
    *_rows(LOG, "agent", "node", provision_failed=scale.ProvisionFailed),
    *_rows(
        LOG, "agent", "node",
        action_ended=operations.NodeActionEnded, checks_reported=operations.ChecksReported,
    ),
    *_rows(LOG, "agent", "job", checks_reported=operations.ChecksReported),
    *_rows(
        LOG, "health", "job",
        preflight_passed=operations.PreflightPassed, preflight_failed=operations.PreflightFailed,
        fault_told=operations.JobFault,
    ),
    *(
        row
        for kind in ("node", "device")
        for row in _rows(
            LOG, "health", kind,
            suspect=health.HealthMoved, quarantined=health.HealthMoved, repairing=health.HealthMoved,
            verifying=health.HealthMoved, healthy=health.HealthMoved,
        )
    ),
    *_rows(LOG, "health", "node", fault_observed=health.FaultObserved, fault_cleared=health.FaultCleared),
    *_rows(LOG, "health", "health", brake_tripped=health.BrakeTripped, brake_reset=health.BrakeReset),
    *_rows(FED, "gateway", "health", brake_reset_requested=health.BrakeResetRequested),
    *_rows(FED, "gateway", "node", verify_requested=health.VerifyRequested),
    *(
        row
        for stream in (LOG, FED)
        for row in (
            *_rows(stream, "federation", "health", brake_reset_forwarded=health.BrakeResetRequested),
            *_rows(stream, "federation", "node", verify_forwarded=health.VerifyRequested),
        )
    ),
    *_rows(LOG, "agent", "cluster", described=control.ClusterDescribed),
    *_rows(
        LOG, "agent", "workload",
        submit_requested=workload.WorkloadSubmitRequested, cancel_requested=workload.WorkloadCancelRequested,
        rejected=workload.WorkloadRejected, settled=workload.WorkloadSettled,
    ),
    *_rows(LOG, "telemetry", "job", use_reported=telemetry.JobUseReported),
    *_rows(LOG, "guard", "advice", raised=guard.AdviceRaised, cleared=guard.AdviceCleared),
    *_rows(LOG, "guard", "flow", applied=guard.FlowApplied, drifted=guard.FlowDrifted),
    *_rows(
        LOG, "agent", "composability",
        compose_requested=composability.ComposeRequested, decompose_requested=composability.DecomposeRequested,
    ),
    *_rows(LOG, "agent", "fabric", operator_seen=fabric.OperatorSeen),
    *_rows(
        LOG, "agent", "autoscaler",
        node_wanted=scale.AutoscalerSignal, node_refused=scale.AutoscalerSignal, node_unneeded=scale.AutoscalerSignal,
        removal_blocked=scale.AutoscalerSignal, settled=scale.AutoscalerSignal,
    ),
    *_rows(LOG, "scaler", "scale", gpu_attach_chosen=scale.ScaleChosen, node_add_chosen=scale.ScaleChosen),
    *_rows(LOG, "scaler", "scale", gpu_remove_chosen=scale.ScaleChosen, node_remove_chosen=scale.ScaleChosen),
    *_rows(LOG, "scaler", "scale", nothing_chosen=scale.NothingChosen, ended=scale.ScaleEnded),
    *_rows(
        FED, "gateway", "composability",
        compose_requested=composability.ComposeRequested, decompose_requested=composability.DecomposeRequested,
    ),
    *_rows(FED, "gateway", "device", detach_requested=composability.DetachRequested),
    *_rows(
        FED, "gateway", "node",
        cordon_requested=node.CordonRequested, drain_requested=node.CordonRequested,
        resume_requested=node.CordonRequested,
    ),
    *(
        row
        for stream in (LOG, FED)
        for row in (
            *_rows(
                stream, "federation", "composability",
                compose_forwarded=composability.ComposeRequested, decompose_forwarded=composability.DecomposeRequested,
            ),
            *_rows(stream, "federation", "device", detach_forwarded=composability.DetachRequested),
            *_rows(
                stream, "federation", "node",
                cordon_forwarded=node.CordonRequested, drain_forwarded=node.CordonRequested,
                resume_forwarded=node.CordonRequested,
            ),
        )
    ),
    *_rows(
        LOG, "composer", "composability",
        accepted=composability.RequestAccepted, refused=composability.RequestRefused, moved=composability.RequestMoved,
        ended=composability.RequestEnded,
    ),
    *_rows(
        LOG, "composer", "attachment",
        requested=device.AttachmentRequested, attaching=device.CallStarted, attach_failed=device.CallFailed,
        attached=device.DeviceAttached, visible=device.DeviceVisible, online=device.DeviceOnline,
        detach_wanted=device.DetachWanted, detach_given_up=device.DetachGivenUp, detaching=device.CallStarted,
        detach_failed=device.CallFailed, detached=device.DeviceDetached, failed=device.AttachmentFailed,
    ),
    *_rows(
        LOG, "composer", "fabric",
        surveyed=fabric.FabricSurveyed, breaker_opened=fabric.BreakerOpened, breaker_closed=fabric.BreakerClosed,
        orphan_found=fabric.OrphanFound, orphan_returned=fabric.OrphanReturned,
    ),
    *_rows(FED_UP, "scheduler", "job", **_TERMINAL),
    *_rows(
        FED_UP, "scheduler", "job",
        returned=federation.JobReturned, return_refused=federation.JobReturnRefused,
    ),
    *_rows(FED_UP, "scheduler", "cluster", summarised=control.ClusterSummary),
    *(
        row
        for stream in (LOG, FED)
        for row in (
            *_rows(stream, "operator", "log", voided=control.Voided),
            *_rows(stream, ANY_SERVICE, "log", term_started=control.TermStarted, fence=control.Fence),
        )
    ),
    *(
        row
        for service in ("health", "upgrader")
        for row in _rows(
            LOG, service, "node",
            action_requested=operations.NodeActionRequested, checks_requested=operations.ChecksRequested,
        )
    ),
    *_rows(
        FED, "gateway", "campaign",
        start_requested=upgrade.CampaignStartRequested, pause_requested=upgrade.CampaignChangeRequested,
        resume_requested=upgrade.CampaignChangeRequested, abort_requested=upgrade.CampaignChangeRequested,
    ),
    *(
        row
        for stream in (LOG, FED)
        for row in _rows(
            stream, "federation", "campaign",
            start_forwarded=upgrade.CampaignStartRequested, pause_forwarded=upgrade.CampaignChangeRequested,
            resume_forwarded=upgrade.CampaignChangeRequested, abort_forwarded=upgrade.CampaignChangeRequested,
        )
    ),
    *_rows(
        LOG, "upgrader", "campaign",
        accepted=upgrade.CampaignAccepted, refused=upgrade.CampaignRefused, paused=upgrade.CampaignChanged,
        resumed=upgrade.CampaignChanged, stopped=upgrade.CampaignStopped, aborted=upgrade.CampaignChanged,
        ended=upgrade.CampaignEnded,
    ),
    *_rows(LOG, "upgrader", "node", upgrade_stepped=upgrade.NodeStepped),
    *_rows(LOG, ANY_SERVICE, "node", withhold_requested=node.WithholdRequested),
    *_rows(LOG, ANY_SERVICE, "device", withhold_requested=node.WithholdRequested),
    *_rows(LOG, ANY_SERVICE, "node", withhold_withdrawn=node.WithholdWithdrawn),
    *_rows(LOG, ANY_SERVICE, "device", withhold_withdrawn=node.WithholdWithdrawn),
)  # fmt: skip

STATE_NAME = "state-recorded"
STATE_TABLE: tuple[FactType, ...] = (
    *_rows(FED, "federation", "job", state_recorded=job.RoutedState),
    *_rows(FED, "federation", "cluster", state_recorded=control.ClusterSummary),
    *_rows(FED, "federation", "member", state_recorded=federation.MemberState),
    *_rows(FED, "federation", "routing", state_recorded=federation.RoutingState),
    *_rows(FED, "federation", "queue", state_recorded=queue.PendingQueueChanges),
    *_rows(FED, "federation", "reservation", state_recorded=reservation.ReservationState),
    *_rows(FED, "federation", "operations", state_recorded=operations.PendingOperations),
    *_rows(FED, "federation", "workload", state_recorded=workload.RefusalState),
    *_rows(LOG, "scheduler", "reservation", state_recorded=reservation.ReservationState),
    *_rows(LOG, "scheduler", "cluster", state_recorded=control.ClusterState),
    *_rows(LOG, "scheduler", "job", state_recorded=job.JobState),
    *_rows(LOG, "scheduler", "queue", state_recorded=queue.QueueState),
    *_rows(LOG, "scheduler", "node", state_recorded=node.GrantState),
    *_rows(LOG, "scheduler", "device", state_recorded=node.GrantState),
    *_rows(LOG, "agent", "node", state_recorded=node.NodeState),
    *_rows(LOG, "agent", "group", state_recorded=node.GroupState),
    *_rows(LOG, "agent", "work", state_recorded=operations.NodeWorkState),
    *_rows(LOG, "health", "preflight", state_recorded=operations.PreflightState),
    *_rows(LOG, "agent", "job", state_recorded=job.PodsState),
    *_rows(LOG, "agent", "cluster", state_recorded=control.ClusterDescribed),
    *_rows(LOG, "agent", "workload", state_recorded=workload.WorkloadState),
    *_rows(LOG, "telemetry", "job", state_recorded=telemetry.JobUseState),
    *_rows(LOG, "telemetry", "usage", state_recorded=telemetry.DayUseState),
    *_rows(LOG, "guard", "advice", state_recorded=guard.AdviceState),
    *_rows(LOG, "guard", "flow", state_recorded=guard.FlowState),
    *_rows(LOG, "health", "node", state_recorded=health.UnitState),
    *_rows(LOG, "health", "device", state_recorded=health.UnitState),
    *_rows(LOG, "health", "health", state_recorded=health.BrakeState),
    *_rows(LOG, "health", "job", state_recorded=health.OwnerToldState),
    *_rows(LOG, "scaler", "scale", state_recorded=scale.ScaleState),
    *_rows(LOG, "scaler", "scaler", state_recorded=scale.ScalerState),
    *_rows(LOG, "composer", "composability", state_recorded=composability.RequestState),
    *_rows(LOG, "composer", "attachment", state_recorded=device.AttachmentState),
    *_rows(LOG, "composer", "fabric", state_recorded=fabric.FabricState),
    *_rows(FED, "federation", "composability", state_recorded=composability.PendingDeviceRequests),
    *_rows(LOG, "upgrader", "campaign", state_recorded=upgrade.CampaignState),
    *_rows(LOG, "upgrader", "node", state_recorded=upgrade.NodeTurnsState),
)
"""State facts (`muster.state.v1`): only checkpoints hold them; one writer per row, so no two parts overlap."""

_BY_WRITER = {(row.stream, row.writer, row.kind, row.name): row for row in (*TABLE, *STATE_TABLE)}
_KNOWN_NAMES = {(row.stream, row.kind, row.name) for row in (*TABLE, *STATE_TABLE)}
assert len(_BY_WRITER) == len(TABLE) + len(STATE_TABLE), "a row stands twice in the table of facts"


def fact_type(stream: StreamRole, writer: str, kind: str, name: str) -> FactType | None:
    """Return the row of a fact by `writer`, or None if that writer may not write it or the fact is unknown."""
    return _BY_WRITER.get((stream, writer, kind, name)) or _BY_WRITER.get((stream, ANY_SERVICE, kind, name))


def is_known(stream: StreamRole, kind: str, name: str) -> bool:
    """Return whether any writer may write this fact: then a refusal by `fact_type` means that the writer is wrong."""
    return (stream, kind, name) in _KNOWN_NAMES


def written_by(service: str) -> tuple[FactType, ...]:
    """Return all rows that `service` may write, including shared ones; state facts are not appended to a log."""
    return tuple(row for row in TABLE if row.writer in (service, ANY_SERVICE) and row.stream is not FED_UP)
