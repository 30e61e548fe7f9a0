"""Facts of operating a fleet: what is done to a node or checked on it, and pre-flight verdicts of jobs.

Who wants something done to a node appends `action-requested` or `checks-requested`; the agent alone carries it out and
reports how it went.
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
    """Whom a check concerns. node: each node by itself. gang: all nodes of the gang together, as an all-reduce."""

    NODE = "node"
    GANG = "gang"


class CheckOrder(Wire):
    """One check to run. check: which, of the library of checks, or `command`. limit_s: then it is ended and could not
    run. parameters: its thresholds and sizes by name ("gb_per_s_min": "100"). command: of check `command` alone.
    """

    check: Label
    scope: CheckScope = CheckScope.NODE
    limit_s: Annotated[float, Field(gt=0, le=CHECK_S_MAX)] = 60.0
    parameters: dict[Label, Text] = Field(default_factory=dict)
    command: Annotated[tuple[Text, ...], Field(max_length=COMMAND_MAX)] = ()


class PreflightPlan(Wire):
    """What is checked before the first step of a run, as its `placed` says. suite: its name, for people.

    limit_s: for all checks together, counted from the start of the pods. if_cannot_run: whether checks that could not
    run let the job pass.
    """

    suite: Label
    checks: Annotated[tuple[CheckOrder, ...], Field(min_length=1, max_length=CHECKS_MAX)]
    limit_s: Annotated[float, Field(gt=0, le=CHECK_S_MAX)] = 600.0
    cannot_run_passes: bool = True


class CheckOutcome(StrEnum):
    """How a check ended. cannot-run: nobody knows whether the hardware is well; it is no failure, and no pass."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    CANNOT_RUN = "cannot-run"


class CheckResult(Wire):
    """One check on one node. value, unit, least: what was measured and what was asked for, where it measures.

    device: the uuid that failed it, if that is known. code: as the tool names the fault ("DCGM_FR_PCI_REPLAY_RATE").
    """

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

    invasive: they need the node's GPUs to themselves; the requester has had it withheld. reason: periodic, idle,
    validate, verify or person.
    """

    request_id: Label
    checks: Annotated[tuple[CheckOrder, ...], Field(min_length=1, max_length=CHECKS_MAX)]
    limit_s: Annotated[float, Field(gt=0, le=CHECK_S_MAX)] = 600.0
    invasive: bool = False
    reason: Text = ""


class ChecksReported(Payload):
    """`checks-reported` by the agent: of a node (request_id), or of a job's pre-flight (attempt), one node or several.

    is_last: nothing more will come for this request or attempt.
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
    """`preflight-failed` of a job: it is re-queued whole, away from `nodes`, and uses no retry of its own."""

    attempt: int
    suite: Label
    nodes: tuple[Label, ...]
    reason: Text
    failed: Annotated[tuple[CheckResult, ...], Field(max_length=RESULTS_MAX)] = ()
    took_s: Measured = 0.0


@dataclass(slots=True)
class PreflightState(StateRecord):
    """`state-recorded` of a job's pre-flight, by health: an attempt without a verdict."""

    attempt: int
    plan: PreflightPlan
    nodes: tuple[Label, ...]
    """That it is on."""
    cause: str = ""
    """Id of the newest fact of it."""
    started_at: RecordedInstant = NEVER
    """Since when its pods run; 0: not yet."""
    reported_at: RecordedInstant = NEVER
    """When `cause` was."""
    results: tuple[CheckResult, ...] = ()
    is_last: bool = False
    """All is reported."""


class NodeAction(StrEnum):
    """What can be done to a node or to one of its devices.

    reset: of one device (`device`). reboot: of the node. replace: ask whoever owns the machine for another one.
    driver, device-plugin, kubelet, os: bring this component to `version`. command: the given one, on the node.
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
    """`action-requested` of a node, by the service that had it withheld: the agent does it once for each request_id.

    version: that the component shall have afterwards. limit_s: then it failed. for_what: the campaign or the repair.
    """

    request_id: Label
    action: NodeAction
    version: str = ""
    device: str = ""
    command: Annotated[tuple[Text, ...], Field(max_length=COMMAND_MAX)] = ()
    limit_s: Annotated[float, Field(gt=0, le=ACTION_S_MAX)] = 1800.0
    for_what: Text = ""


class ActionOutcome(StrEnum):
    """How an action ended. cannot-run: this cluster has no way to do it."""

    DONE = "done"
    FAILED = "failed"
    CANNOT_RUN = "cannot-run"


class NodeActionEnded(Payload):
    """`action-ended` by the agent. version: of the component as it is now, where it is known."""

    request_id: Label
    outcome: ActionOutcome
    detail: Text = ""
    version: str = ""
    took_s: Measured = 0.0


class NodeWorkState(Payload):
    """`state-recorded` of work, by the agent: an action or checks on a node, as asked; both None: that has ended.

    fact: that asked, at requested_at. ended_at: 0 while it is under way. The newest that ended are kept, so that the
    same request said again is not carried out again. is_repair: an action that ended done and makes a node well.
    """

    node: Label
    request_id: str = ""
    fact: str = ""
    trace: str = ""
    action: NodeActionRequested | None = None
    checks: ChecksRequested | None = None
    requested_at: InstantNs = 0
    ended_at: InstantNs = 0
    is_repair: bool = False


class OperationWish(Wire):
    """What a person asked of a cluster and the federation has not forwarded yet. fact: that asked.

    kind, subject_id, name: of that fact; body: its payload as JSON; cluster: "" for every one.
    """

    fact: str
    kind: str
    subject_id: str
    name: str
    body: str
    cluster: str = ""
    trace: str = ""


class OperationWishes(Payload):
    """`state-recorded` of operations, by the federation: all that is not forwarded yet (subject `asked`), and which
    requests were folded (subject `folded`).
    """

    wishes: tuple[OperationWish, ...] = ()
    folded: tuple[Label, ...] = ()
    """Ids of the newest requests of the gateway, oldest first: the same one again asks for nothing."""


class NodeExcluded(Wire):
    """A node that a job is not placed on again. because: in words. until: 0: while the job lives."""

    node: Label
    because: Text = ""
    until: InstantNs = 0


class JobFault(Payload):
    """`fault-told` of a job, by health: an application fault was seen on a device that it holds; its owner is told.

    code: as the driver says ("xid-31"). nothing is cordoned for it.
    """

    code: Label
    node: Label
    device: str = ""
    detail: Text = ""
    at: InstantNs = 0
    count: int = 1
    team: str = ""
    job_id: JobId | None = None
