"""Facts of health: faults that were seen, the states of nodes and devices, and the brake on what health does by itself.

A fault is of a node or of one of its devices, by its rule's scope. What has open faults of class degraded or fatal is
not healthy: it is withheld, repaired, checked, and given back only on positive evidence.
"""

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
"""Codes of which one job's owner was told, that are remembered."""
BRAKE_NODES_MAX = 4096


class FaultClass(StrEnum):
    """How bad a fault is. note: kept for trends. application: the owner's program; nothing is ever cordoned for it.

    degraded: the hardware is looked after once the jobs there end. fatal: at once.
    """

    NOTE = "note"
    APPLICATION = "application"
    DEGRADED = "degraded"
    FATAL = "fatal"

    @property
    def is_hardware(self) -> bool:
        """Whether what has it is kept from jobs."""
        return self in (FaultClass.DEGRADED, FaultClass.FATAL)


class FaultScope(StrEnum):
    """What a fault takes out of use: the whole node, or the device alone."""

    NODE = "node"
    DEVICE = "device"


class HealthPhase(StrEnum):
    """States of a node and of a device; each but healthy keeps new jobs away. See docs/concepts/health.md.

    suspect: asked to be withheld, jobs may still hold it. quarantined: nothing is held there. repairing: an action is
    under way. verifying: checks are.
    """

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    QUARANTINED = "quarantined"
    REPAIRING = "repairing"
    VERIFYING = "verifying"


class FaultObserved(Payload):
    """`fault-observed` of a node. code: "xid-79", "watch-pcie", "remap-pending", "gpu-missing", "exporter-hung".

    device: uuid, "" if it is of the node. more_devices: others of the node that showed the same at once, of events that
    take nothing out of use; count is that of all. is_condition: it lasts while the page says so, and the page can show
    its end; else it happened, and only repair and checks end it. count: how often since it was told last. at: when
    first. jobs, teams: who held the device. store_only: recorded, and nothing follows (dry run, opted out). because:
    words of the rule. action: that the rule asks for; None: checks alone. running: what becomes of who holds it.
    """

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
    """`fault-cleared` of a node: the page shows that a lasting fault is over. evidence: what it shows."""

    code: Label
    device: str = ""
    evidence: Text = ""
    at: InstantNs = 0


class HealthMoved(Payload):
    """`suspect`, `quarantined`, `repairing`, `verifying`, `healthy` of a node or device.

    node: of a device. codes: of its open faults. incident: number of this illness of it, from 1. attempt: of repair.
    action: repairing only. work_id: of the action or checks that were asked for. until: when those are given up.
    needs_person: nothing more is tried without one. because: in words. lasted_s: healthy only, since it was suspect.
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
    """`brake-tripped` (kind health, subject `brake`): too much would be withheld in too short a time.

    Nothing more is withheld, repaired or given back by itself until a person resets it. nodes: withheld within
    `window_s`; most: so many may be.
    """

    nodes: int
    most: int
    fleet: int
    window_s: float
    because: Text = ""


class BrakeReset(Payload):
    """`brake-reset` (kind health, subject `brake`): a person looked, and lets health go on.

    skip: faults that came while it was tripped are dropped; else they are acted on now.
    """

    principal: str = ""
    reason: Text = ""
    skip: bool = False
    fact: str = ""


class BrakeResetRequested(Payload):
    """`brake-reset-requested`, by a person through the gateway, and `brake-reset-forwarded`. cluster: whose brake."""

    principal: str
    cluster: str = ""
    reason: Text = ""
    skip: bool = False


class VerifyRequested(Payload):
    """`verify-requested` of a node, by a person, and `verify-forwarded`: it was looked after; check it, give it back.

    trust: the person's word stands for the checks.
    """

    principal: str
    cluster: str = ""
    reason: Text = ""
    trust: bool = False


class OpenFault(Wire):
    """A fault that stands. fact: that told it last; since: when first, seen_at: when last."""

    told: FaultObserved
    since: InstantNs = 0
    seen_at: InstantNs = 0
    count: int = 1
    fact: str = ""


class FaultMark(Wire):
    """One observation, kept for bursts and for what repeats."""

    code: Label
    fault_class: FaultClass
    device: str = ""
    at: InstantNs = 0
    count: int = 1
    teams: tuple[str, ...] = ()
    store_only: bool = False


class Reported(Wire):
    """A failed check that was not told as a fault yet."""

    code: Label
    device: str = ""
    detail: Text = ""
    at: InstantNs = 0
    fact: str = ""


@dataclass(slots=True)
class UnitState(StateRecord):
    """`state-recorded` of a node or device, by health."""

    node: Label
    """Where the device is; of a node, itself."""
    phase: HealthPhase = HealthPhase.HEALTHY
    since: RecordedInstant = NEVER
    """When it came into this phase."""
    began_at: RecordedInstant = NEVER
    """When it was suspect."""
    incident: int = 0
    """Number of this illness of it, from 1."""
    attempt: int = 0
    """Of repair."""
    action: NodeAction | None = None
    """While it is repaired."""
    work_id: str = ""
    """Of the action or checks that were asked for."""
    until: RecordedInstant = NEVER
    """When these are given up."""
    needs_person: bool = False
    """Nothing more is tried without one."""
    needs_checks: bool = False
    """It comes back after checks alone."""
    because: Text = ""
    faults: Annotated[dict[tuple[str, str], OpenFault], Listed("told.code", "told.device", most=OPEN_MAX)] = field(
        default_factory=dict
    )
    """Those that stand, by code and device."""
    request_id: str = ""
    """Under which it was asked to be withheld; "" if it was not."""
    running: RunningJobs = RunningJobs.FINISH
    """What becomes of jobs there, as asked last."""
    is_withheld: bool = False
    """That was answered."""
    work_done: bool = False
    """The action ended well or the checks passed, and the next phase was not told."""
    work_failed: Text = ""
    """Why not."""
    marks: Annotated[tuple[FaultMark, ...], Field(max_length=MARKS_MAX)] = ()
    """Of a node, the newest observations; oldest first."""
    incidents: Annotated[tuple[RecordedInstant, ...], Field(max_length=MARKS_MAX)] = ()
    """Of a node, when its illnesses began; oldest first."""
    moved_fact: str = ""
    """Id of the newest fact that moved it."""
    verify_fact: str = ""
    """Id of the fact by which a person asked for checks."""
    trust: bool = False
    """The person's word stands for the checks."""
    checked_at: RecordedInstant = NEVER
    """Of a node, when its last periodic checks were."""
    deep_at: RecordedInstant = NEVER
    """Of a node, when its last deep checks were."""
    passed: int = 0
    """Checks of the newest round."""
    withdrawn_id: str = ""
    """Of the newest request that was withdrawn unanswered."""
    crossed: bool = False
    """Its answer came all the same."""
    reported: Annotated[dict[tuple[str, str], Reported], Listed("code", "device", most=OPEN_MAX)] = field(
        default_factory=dict
    )
    """Of a node, failed checks that are yet to be told, by code and device."""
    asked_by: Annotated[dict[str, str], Listed()] = field(default_factory=dict)
    """Requests of other services to withhold it that are not answered, and whose they are."""
    maintained_by: Annotated[dict[str, str], Listed()] = field(default_factory=dict)
    """Those that were answered, and which service has it for each."""


@dataclass(slots=True)
class BrakeState(StateRecord):
    """`state-recorded` of the brake (kind health, subject `brake`)."""

    tripped: BrakeTripped | None = None
    """As told; None: health may act by itself."""
    tripped_at: RecordedInstant = NEVER
    nodes: Annotated[dict[Label, RecordedInstant], Listed(most=BRAKE_NODES_MAX)] = field(default_factory=dict)
    """Those that were withheld lately, and when; oldest first."""
    reset_wish: BrakeResetRequested | None = None
    """A person's reset that was not carried out yet."""
    reset_fact: str = ""
    """Id of the fact that asked for it."""


class OwnerToldState(Payload):
    """`state-recorded` of a job, by health: of which faults its owner was told, (code, when last), oldest first."""

    told: Annotated[tuple[tuple[str, InstantNs], ...], Field(max_length=TOLD_MAX)] = ()
