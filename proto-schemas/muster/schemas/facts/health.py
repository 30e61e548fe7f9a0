"""Facts of health: faults that were seen, the states of nodes and devices, and the brake on what health does by itself.

A fault is of a node or of one of its devices, by its rule's scope. What has open faults of class degraded or fatal is
not healthy: it is withheld, repaired, checked, and given back only on positive evidence.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Label, Payload, Text, Wire
from muster.schemas.facts.node import GPUS_PER_NODE_MAX, RunningJobs
from muster.schemas.facts.operations import NodeAction

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


class UnitState(Payload):
    """`state-recorded` of a node or device, by health.

    phase, since, began_at (when it was suspect), incident, attempt, action, work_id, until, needs_person, because: as
    told. needs_checks: it comes back after checks alone. faults: that stand. request_id: under which it was asked to be
    withheld, "" if it was not; running: as asked last; is_withheld: that was answered. work_done: the action ended well
    or the checks passed, and the next state was not told; work_failed: why not. marks: of a node, the newest
    observations, oldest first. incidents: of a node, when its illnesses began. moved_fact: the newest fact that moved
    it. verify_fact: by which a person asked for checks; trust: the person's word stands for them. asked_by: requests of
    other services to withhold it, (request, service); maintained_by: those that were answered: they have it. passed:
    checks of the newest round. withdrawn_id: the newest request that was withdrawn unanswered; crossed: its answer came
    all the same. checked_at, deep_at: of a node, when its last periodic and deep checks were. reported: of a node,
    failed checks that are yet to be told.
    """

    node: Label
    phase: HealthPhase = HealthPhase.HEALTHY
    since: InstantNs = 0
    began_at: InstantNs = 0
    incident: int = 0
    attempt: int = 0
    action: NodeAction | None = None
    work_id: str = ""
    until: InstantNs = 0
    needs_person: bool = False
    needs_checks: bool = False
    because: Text = ""
    faults: Annotated[tuple[OpenFault, ...], Field(max_length=OPEN_MAX)] = ()
    request_id: str = ""
    running: RunningJobs = RunningJobs.FINISH
    is_withheld: bool = False
    work_done: bool = False
    work_failed: Text = ""
    marks: Annotated[tuple[FaultMark, ...], Field(max_length=MARKS_MAX)] = ()
    incidents: Annotated[tuple[InstantNs, ...], Field(max_length=MARKS_MAX)] = ()
    moved_fact: str = ""
    verify_fact: str = ""
    trust: bool = False
    checked_at: InstantNs = 0
    deep_at: InstantNs = 0
    passed: int = 0
    withdrawn_id: str = ""
    crossed: bool = False
    reported: Annotated[tuple[Reported, ...], Field(max_length=OPEN_MAX)] = ()
    asked_by: tuple[tuple[str, str], ...] = ()
    maintained_by: tuple[tuple[str, str], ...] = ()


class BrakeState(Payload):
    """`state-recorded` of the brake (kind health, subject `brake`). nodes: withheld lately, and when."""

    tripped: BrakeTripped | None = None
    tripped_at: InstantNs = 0
    nodes: Annotated[tuple[tuple[Label, InstantNs], ...], Field(max_length=BRAKE_NODES_MAX)] = ()
    reset_wish: BrakeResetRequested | None = None
    reset_fact: str = ""


class OwnerToldState(Payload):
    """`state-recorded` of a job, by health: of which faults its owner was told, (code, when last), oldest first."""

    told: Annotated[tuple[tuple[str, InstantNs], ...], Field(max_length=TOLD_MAX)] = ()
