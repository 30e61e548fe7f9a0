"""Facts of operations: actions and checks on nodes, and pre-flight results of jobs.

A service that needs an action on a node appends `action-requested` or `checks-requested`; only the agent carries it
out and reports the result.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import NEVER, InstantNs, JobId, Label, Payload, RecordedInstant, Text, Wire
from muster.schemas.record import StateRecord
from muster.schemas.telemetry import Measured

CHECKS_MAX = 32
RESULTS_MAX = 512
COMMAND_MAX = 64
CHECK_S_MAX = 4 * 3600.0
ACTION_S_MAX = 24 * 3600.0


class CheckScope(StrEnum):
    """Scope of a check. node: each node by itself. gang: all nodes of the gang together, as an all-reduce."""

    NODE = "node"
    GANG = "gang"


class CheckOrder(Wire):
    """One check to run. check: name in the library of checks, or `command`. limit_s: timeout; then the check could
    not run. parameters: its thresholds and sizes by name ("gb_per_s_min": "100"). command: for check `command` only."""

    check: Label
    scope: CheckScope = CheckScope.NODE
    limit_s: Annotated[float, Field(gt=0, le=CHECK_S_MAX)] = 60.0
    parameters: dict[Label, Text] = Field(default_factory=dict)
    command: Annotated[tuple[Text, ...], Field(max_length=COMMAND_MAX)] = ()


class PreflightPlan(Wire):
    """The checks before the first step of an attempt, from its `placed`. suite: name of the suite.

    limit_s: for all checks together, from the start of the pods. if_cannot_run: whether the job passes if checks
    could not run.
    """

    suite: Label
    checks: Annotated[tuple[CheckOrder, ...], Field(min_length=1, max_length=CHECKS_MAX)]
    limit_s: Annotated[float, Field(gt=0, le=CHECK_S_MAX)] = 600.0
    cannot_run_passes: bool = True


class CheckOutcome(StrEnum):
    """The outcome of a check. cannot-run: the state of the hardware is unknown; neither a failure nor a pass."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    CANNOT_RUN = "cannot-run"


class CheckResult(Wire):
    """One check on one node. value, unit, least: the measured value and the required minimum, for checks that
    measure. device: uuid of the device that failed, if known. code: the fault as the tool names it
    ("DCGM_FR_PCI_REPLAY_RATE")."""

    node: Label
    check: Label
    outcome: CheckOutcome
    value: Measured | None = None
    least: Measured | None = None
    unit: str = ""
    device: str = ""
    code: str = ""
    detail: Text = ""
    took_s: Measured = 0.0


class ChecksRequested(Payload):
    """`checks-requested` of a node: periodic, deep or validating checks, outside of any job.

    invasive: they need the node's GPUs exclusively; the requester has drained it. reason: periodic, idle, validate,
    verify or person.
    """

    request_id: Label
    checks: Annotated[tuple[CheckOrder, ...], Field(min_length=1, max_length=CHECKS_MAX)]
    limit_s: Annotated[float, Field(gt=0, le=CHECK_S_MAX)] = 600.0
    invasive: bool = False
    reason: Text = ""


class ChecksReported(Payload):
    """`checks-reported` by the agent: of a node (request_id), or of a job's pre-flight (attempt) on any of its nodes.

    is_last: no further results follow for this request or attempt.
    """

    request_id: str = ""
    attempt: int = 0
    results: Annotated[tuple[CheckResult, ...], Field(max_length=RESULTS_MAX)] = ()
    is_last: bool = True


class PreflightPassed(Payload):
    """`preflight-passed` of a job: its first step may begin. warned: checks that could not run, or were slow."""

    attempt: int
    suite: Label
    warned: tuple[Text, ...] = ()
    took_s: Measured = 0.0


class PreflightFailed(Payload):
    """`preflight-failed` of a job: it is requeued as a whole, away from `nodes`, without using a retry."""

    attempt: int
    suite: Label
    nodes: tuple[Label, ...]
    reason: Text
    failed: Annotated[tuple[CheckResult, ...], Field(max_length=RESULTS_MAX)] = ()
    took_s: Measured = 0.0


@dataclass(slots=True)
class PreflightState(StateRecord):
    """`state-recorded` of a job's pre-flight, by health: an attempt without a result."""

    attempt: int
    plan: PreflightPlan
    nodes: tuple[Label, ...]
    """The nodes of the attempt."""
    cause: str = ""
    """Id of its newest fact."""
    started_at: RecordedInstant = NEVER
    """Since when its pods run; 0: not yet."""
    reported_at: RecordedInstant = NEVER
    """Time of `cause`."""
    results: tuple[CheckResult, ...] = ()
    is_last: bool = False
    """All results were reported."""


class NodeAction(StrEnum):
    """Actions on a node or on one of its devices.

    reset: one device (`device`). reboot: the node. replace: request another machine from its owner. driver,
    device-plugin, kubelet, os: bring this component to `version`. command: run the given command on the node.
    """

    RESET = "reset"
    REBOOT = "reboot"
    REPLACE = "replace"
    DRIVER = "driver"
    DEVICE_PLUGIN = "device-plugin"
    KUBELET = "kubelet"
    OS = "os"
    COMMAND = "command"


class NodeActionRequested(Payload):
    """`action-requested` of a node, by the service that drained it: the agent runs it once for each request_id.
    version: target version of the component. limit_s: timeout; then the action failed. for_what: the campaign or the
    repair."""

    request_id: Label
    action: NodeAction
    version: str = ""
    device: str = ""
    command: Annotated[tuple[Text, ...], Field(max_length=COMMAND_MAX)] = ()
    limit_s: Annotated[float, Field(gt=0, le=ACTION_S_MAX)] = 1800.0
    for_what: Text = ""


class ActionOutcome(StrEnum):
    """The outcome of an action. cannot-run: this cluster cannot carry it out."""

    DONE = "done"
    FAILED = "failed"
    CANNOT_RUN = "cannot-run"


class NodeActionEnded(Payload):
    """`action-ended` by the agent. version: present version of the component, if known."""

    request_id: Label
    outcome: ActionOutcome
    detail: Text = ""
    version: str = ""
    took_s: Measured = 0.0


class NodeWorkState(Payload):
    """`state-recorded` of work, by the agent: an action or checks on a node, as requested; both None: it has ended.
    fact: id of the request, made at requested_at. ended_at: 0 while it is under way. The newest ended ones are kept,
    so that a repeated request is not carried out again. is_repair: a successful action that makes a node healthy."""

    node: Label
    request_id: str = ""
    fact: str = ""
    trace: str = ""
    action: NodeActionRequested | None = None
    checks: ChecksRequested | None = None
    requested_at: InstantNs = 0
    ended_at: InstantNs = 0
    is_repair: bool = False


class PendingOperation(Wire):
    """An operator's request for a cluster that the federation has not forwarded yet. fact: id of its fact.

    kind, subject_id, name: of that fact; body: its payload as JSON; cluster: "" for every cluster.
    """

    fact: str
    kind: str
    subject_id: str
    name: str
    body: str
    cluster: str = ""
    trace: str = ""


class PendingOperations(Payload):
    """`state-recorded` of operations, by the federation: requests that are not forwarded yet (subject `asked`).
    Subject `folded` has the ids of the requests that were folded."""

    wishes: tuple[PendingOperation, ...] = ()
    folded: tuple[Label, ...] = ()
    """Ids of the newest requests of the gateway, oldest first: a repeated request has no effect."""


class NodeExcluded(Wire):
    """A node that a job is not placed on again. because: as text. until: 0: while the job lives."""

    node: Label
    because: Text = ""
    until: InstantNs = 0


class JobFault(Payload):
    """`fault-told` of a job, by health: an application fault on a device that it uses; its owner is notified.

    code: as the driver reports it ("xid-31"). Nothing is drained for it.
    """

    code: Label
    node: Label
    device: str = ""
    detail: Text = ""
    at: InstantNs = 0
    count: int = 1
    team: str = ""
    job_id: JobId | None = None
