"""Facts of health: observed faults, the states of nodes and devices, and the brake on automatic actions. A fault
belongs to a node or to one of its devices, by the scope of its rule. A node or device with open faults of class
degraded or fatal is not healthy: it is drained, repaired, checked, and becomes schedulable only on positive
evidence."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import NEVER, InstantNs, Label, Payload, RecordedInstant, Text, Wire
from muster.schemas.facts.node import GPUS_PER_NODE_MAX, RunningJobs
from muster.schemas.facts.operations import NodeAction
from muster.schemas.record import Listed, StateRecord

OPEN_MAX = 64
MARKS_MAX = 128
TOLD_JOBS_MAX = 64
TOLD_MAX = 32
"""Maximum number of codes remembered per job for which its owner was notified."""
BRAKE_NODES_MAX = 4096


class FaultClass(StrEnum):
    """Severity of a fault. note: recorded for trends. application: caused by the job's program; never drains hardware.

    degraded: the hardware is drained once its jobs end. fatal: at once.
    """

    NOTE = "note"
    APPLICATION = "application"
    DEGRADED = "degraded"
    FATAL = "fatal"

    @property
    def is_hardware(self) -> bool:
        """Return whether the node or device is drained for it."""
        return self in (FaultClass.DEGRADED, FaultClass.FATAL)


class FaultScope(StrEnum):
    """What a fault takes out of service: the whole node, or the device alone."""

    NODE = "node"
    DEVICE = "device"


class HealthPhase(StrEnum):
    """States of a node or device; all except healthy keep new jobs away. See docs/concepts/health.md.

    suspect: a drain is requested, and jobs may still use it. quarantined: it is drained. repairing: an action is
    under way. verifying: checks are under way.
    """

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    QUARANTINED = "quarantined"
    REPAIRING = "repairing"
    VERIFYING = "verifying"


class FaultObserved(Payload):
    """`fault-observed` of a node. code: "xid-79", "watch-pcie", "remap-pending", "gpu-missing", "exporter-hung".
    device: uuid, "" for a fault of the node. more_devices: further devices of the node with the same event at the
    same time, for events that take nothing out of service; count includes them. is_condition: the fault lasts while
    the metrics page shows it; otherwise it is an event, which only repair and checks end. count: occurrences since
    the last report. at: time of the first. jobs, teams: the users of the device. store_only: recorded without
    consequences (dry run, opted out). because: text of the rule. action: repair that the rule requests; None: checks
    alone. running: treatment of running jobs."""

    code: Label
    fault_class: FaultClass
    scope: FaultScope = FaultScope.NODE
    device: str = ""
    more_devices: Annotated[tuple[Label, ...], Field(max_length=GPUS_PER_NODE_MAX)] = ()
    action: NodeAction | None = None
    running: RunningJobs = RunningJobs.FINISH
    is_condition: bool = False
    count: int = 1
    at: InstantNs = 0
    detail: Text = ""
    because: Text = ""
    jobs: Annotated[tuple[str, ...], Field(max_length=TOLD_JOBS_MAX)] = ()
    teams: Annotated[tuple[str, ...], Field(max_length=TOLD_JOBS_MAX)] = ()
    store_only: bool = False


class FaultCleared(Payload):
    """`fault-cleared` of a node: the metrics page shows that a lasting fault is over. evidence: what the page shows."""

    code: Label
    device: str = ""
    evidence: Text = ""
    at: InstantNs = 0


class HealthMoved(Payload):
    """`suspect`, `quarantined`, `repairing`, `verifying`, `healthy` of a node or device.

    node: of a device. codes: of its open faults. incident: number of the incident, from 1. attempt: of repair.
    action: repairing only. work_id: of the requested action or checks. until: their deadline. needs_person:
    automatic actions are exhausted. because: as text. lasted_s: healthy only, time since suspect.
    """

    node: Label
    because: Text = ""
    codes: Annotated[tuple[Label, ...], Field(max_length=OPEN_MAX)] = ()
    incident: int = 0
    attempt: int = 0
    action: NodeAction | None = None
    work_id: str = ""
    until: InstantNs = 0
    needs_person: bool = False
    lasted_s: float = 0.0


class BrakeTripped(Payload):
    """`brake-tripped` (kind health, subject `brake`): too many nodes would be drained in too short a time.

    Automatic actions stop until an operator resets the brake. nodes: number drained within `window_s`; most: the
    limit.
    """

    nodes: int
    most: int
    fleet: int
    window_s: float
    because: Text = ""


class BrakeReset(Payload):
    """`brake-reset` (kind health, subject `brake`): an operator lets health continue.

    skip: faults from the time while it was tripped are dropped; otherwise they are acted on now.
    """

    principal: str = ""
    reason: Text = ""
    skip: bool = False
    fact: str = ""


class BrakeResetRequested(Payload):
    """`brake-reset-requested`, by an operator through the gateway, and `brake-reset-forwarded`. cluster: of the
    brake."""

    principal: str
    cluster: str = ""
    reason: Text = ""
    skip: bool = False


class VerifyRequested(Payload):
    """`verify-requested` of a node, by an operator, and `verify-forwarded`: verify a repaired node.

    trust: skip the checks.
    """

    principal: str
    cluster: str = ""
    reason: Text = ""
    trust: bool = False


class OpenFault(Wire):
    """An open fault. fact: id of its newest report; since: time of the first, seen_at: of the newest observation."""

    told: FaultObserved
    since: InstantNs = 0
    seen_at: InstantNs = 0
    count: int = 1
    fact: str = ""


class FaultMark(Wire):
    """One observation, kept to detect bursts and repetitions."""

    code: Label
    fault_class: FaultClass
    device: str = ""
    at: InstantNs = 0
    count: int = 1
    teams: tuple[str, ...] = ()
    store_only: bool = False


class Reported(Wire):
    """A failed check that was not reported as a fault yet."""

    code: Label
    device: str = ""
    detail: Text = ""
    at: InstantNs = 0
    fact: str = ""


@dataclass(slots=True)
class UnitState(StateRecord):
    """`state-recorded` of a node or device, by health."""

    node: Label
    """The node of the device; for a node, itself."""
    phase: HealthPhase = HealthPhase.HEALTHY
    since: RecordedInstant = NEVER
    """When it entered this phase."""
    began_at: RecordedInstant = NEVER
    """When it became suspect."""
    incident: int = 0
    """Number of the incident, from 1."""
    attempt: int = 0
    """Number of the repair attempt."""
    action: NodeAction | None = None
    """The action while it is being repaired."""
    work_id: str = ""
    """Id of the requested action or checks."""
    until: RecordedInstant = NEVER
    """Deadline of the action or checks."""
    needs_person: bool = False
    """Automatic actions are exhausted."""
    needs_checks: bool = False
    """It returns to service after checks alone."""
    because: Text = ""
    faults: Annotated[dict[tuple[str, str], OpenFault], Listed("told.code", "told.device", most=OPEN_MAX)] = field(
        default_factory=dict
    )
    """Open faults, by code and device."""
    request_id: str = ""
    """Id of the request to drain it; "" for none."""
    running: RunningJobs = RunningJobs.FINISH
    """Treatment of running jobs in the newest request."""
    is_withheld: bool = False
    """The request to drain it was answered."""
    work_done: bool = False
    """The action succeeded or the checks passed, and the next phase is not reported yet."""
    work_failed: Text = ""
    """Why the action or checks failed."""
    marks: Annotated[tuple[FaultMark, ...], Field(max_length=MARKS_MAX)] = ()
    """The newest observations of a node; oldest first."""
    incidents: Annotated[tuple[RecordedInstant, ...], Field(max_length=MARKS_MAX)] = ()
    """When the incidents of a node began; oldest first."""
    moved_fact: str = ""
    """Id of the newest fact that changed it."""
    verify_fact: str = ""
    """Id of the fact by which an operator requested checks."""
    trust: bool = False
    """Skip the checks on an operator's request."""
    checked_at: RecordedInstant = NEVER
    """When the last periodic checks of a node were made."""
    deep_at: RecordedInstant = NEVER
    """When the last deep checks of a node were made."""
    passed: int = 0
    """Number of passed checks in the newest round."""
    withdrawn_id: str = ""
    """Id of the newest request that was withdrawn without an answer."""
    crossed: bool = False
    """The answer of the withdrawn request arrived nevertheless."""
    reported: Annotated[dict[tuple[str, str], Reported], Listed("code", "device", most=OPEN_MAX)] = field(
        default_factory=dict
    )
    """Failed checks of a node that are not reported yet, by code and device."""
    asked_by: Annotated[dict[str, str], Listed()] = field(default_factory=dict)
    """Unanswered drain requests of other services, and the service of each."""
    maintained_by: Annotated[dict[str, str], Listed()] = field(default_factory=dict)
    """Answered drain requests of other services, and the service of each."""


@dataclass(slots=True)
class BrakeState(StateRecord):
    """`state-recorded` of the brake (kind health, subject `brake`)."""

    tripped: BrakeTripped | None = None
    """As reported; None: health may act automatically."""
    tripped_at: RecordedInstant = NEVER
    nodes: Annotated[dict[Label, RecordedInstant], Listed(most=BRAKE_NODES_MAX)] = field(default_factory=dict)
    """Recently drained nodes, and when; oldest first."""
    reset_wish: BrakeResetRequested | None = None
    """An operator's reset that was not carried out yet."""
    reset_fact: str = ""
    """Id of the fact that requested the reset."""


class OwnerToldState(Payload):
    """`state-recorded` of a job, by health: faults of which its owner was notified (code, last time), oldest first."""

    told: Annotated[tuple[tuple[str, InstantNs], ...], Field(max_length=TOLD_MAX)] = ()
