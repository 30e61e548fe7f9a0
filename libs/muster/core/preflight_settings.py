"""Settings of checks and actions on nodes: which suites there are, who is checked, and how nodes are worked on."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from muster.schemas.base import Name
from muster.schemas.facts.operations import CHECK_S_MAX, CHECKS_MAX, COMMAND_MAX, NodeAction


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CheckSettings(_Section):
    """One check of a suite.

    check: its name in the library (`muster preflight list`). limit_s: None: as the library says. parameters:
    thresholds and sizes that differ from the library's. command: of check `command`.
    """

    check: str
    limit_s: Annotated[float, Field(gt=0, le=CHECK_S_MAX)] | None = None
    parameters: dict[str, str] = {}
    command: Annotated[tuple[str, ...], Field(max_length=COMMAND_MAX)] = ()


class SuiteSettings(_Section):
    """Checks under one name.

    name: as jobs say it; a suite that comes with Muster is replaced by one of its name. checks: in the order in which
    they run. limit_s: of all checks together, from the start of the pods. cannot_run_passes: checks that could not run
    let the job pass, with a warning.
    """

    name: Name
    checks: Annotated[tuple[CheckSettings, ...], Field(min_length=1, max_length=CHECKS_MAX)]
    limit_s: Annotated[float, Field(gt=0, le=CHECK_S_MAX)] = 600.0
    cannot_run_passes: bool = True


class SimulatedWorkSettings(_Section):
    """How checks and actions go on a simulated cluster; every draw is a function of the simulation's seed.

    check_s, action_s: medians of log-normal times, of a whole suite and of an action. check_fail_share,
    check_cannot_run_share: of nodes that are checked. action_fail_share: of actions. bad_nodes: check that fails on a
    node, by its name, until the node was reset, rebooted or replaced.
    """

    check_s: Annotated[float, Field(ge=0)] = 2.0
    action_s: Annotated[float, Field(ge=0)] = 20.0
    check_fail_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    check_cannot_run_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    action_fail_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    bad_nodes: dict[str, str] = {}


class NodeActionSettings(_Section):
    """How one kind of action is done to a node of Kubernetes.

    by: job: a Job pinned to the node runs `command`. annotation: the node is annotated with `set`, and somebody else
    acts on it. label: the same with a label. set: keys and values; `{version}`, `{device}`, `{request}` are filled in,
    also in the command, where an option for an empty one is left out. done: keys of the same sort whose values then say
    that it is done; none: it is when they are set. failed: whose values say that it failed. after: keys and values once
    it is over. command, image: of the Job; a line `version=...` of its termination message is the version that the node
    has now. privileged: the Job's container may do to the node what root can, with its file system at /host. restarts:
    it is done when the node is ready after another boot.
    """

    by: Literal["job", "annotation", "label"] = "job"
    set: dict[str, str] = {}
    done: dict[str, str] = {}
    failed: dict[str, str] = {}
    after: dict[str, str] = {}
    image: str = ""
    command: Annotated[tuple[str, ...], Field(max_length=COMMAND_MAX)] = ()
    privileged: bool = False
    restarts: bool = False


class NodeWorkSettings(_Section):
    """How nodes of Kubernetes are checked and worked on outside of jobs.

    namespace: of the Jobs. image: of those that name none, and of checks. actions: how each is done; what stands not
    here cannot be done, and is told so. service_account: of the Jobs. kept_s: Jobs that ended are kept for so long.
    """

    namespace: Name = "muster-nodes"
    image: str = ""
    service_account: str = ""
    actions: dict[NodeAction, NodeActionSettings] = {}
    kept_s: Annotated[int, Field(ge=0)] = 3600


class PreflightSettings(_Section):
    """Checks before the first step of jobs, and work on nodes.

    default: the suite of jobs that name none; None: those are not checked. gpus_least: jobs of fewer whole GPUs get the
    default suite not. suites: beside those that come with Muster. image: of the containers that check, on Kubernetes;
    "": the checks of jobs cannot run, since what a job's own image reports proves nothing. Required with `default`.
    simulated: how it goes on a simulated cluster. nodes: how nodes of Kubernetes are worked on.
    """

    default: Name | None = None
    gpus_least: Annotated[int, Field(ge=0)] = 1
    suites: tuple[SuiteSettings, ...] = ()
    image: str = ""
    simulated: SimulatedWorkSettings = SimulatedWorkSettings()
    nodes: NodeWorkSettings = NodeWorkSettings()
