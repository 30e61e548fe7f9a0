"""Sections of the settings that cores take as they are: composer, simulation, scaling, checks and actions on nodes."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from muster.schemas.base import Name
from muster.schemas.facts.operations import CHECK_S_MAX, CHECKS_MAX, COMMAND_MAX, NodeAction


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ComposerSettings(_Section):
    """Bounds of attaching and detaching.

    attach_s_max, detach_s_max: deadline of one device, all its calls together. visible_s_max: from attached to seen on
    its node. withhold_s_max: how long a device may take to become free before its removal is given up. attempts_max:
    calls for one device and direction. backoff_s: after the first failure; it doubles up to backoff_s_max.
    backoff_s_max: longest wait before the next attempt. breaker_failures: so many in a row, then the fabric is left
    alone. breaker_s: for so long at first. survey_s: between two looks at a fabric's inventory. orphan_s: how long a
    device nobody asked for is watched before it is returned.
    """

    attach_s_max: Annotated[float, Field(gt=0)] = 600.0
    detach_s_max: Annotated[float, Field(gt=0)] = 600.0
    visible_s_max: Annotated[float, Field(gt=0)] = 300.0
    withhold_s_max: Annotated[float, Field(gt=0)] = 600.0
    attempts_max: Annotated[int, Field(ge=1, le=100)] = 5
    backoff_s: Annotated[float, Field(gt=0)] = 2.0
    backoff_s_max: Annotated[float, Field(gt=0)] = 60.0
    breaker_failures: Annotated[int, Field(ge=1)] = 5
    breaker_s: Annotated[float, Field(gt=0)] = 30.0
    survey_s: Annotated[float, Field(gt=0)] = 30.0
    orphan_s: Annotated[float, Field(ge=0)] = 600.0


Share = Annotated[float, Field(ge=0, le=1)]
"""Of all, from 0 to 1."""


class SimulationSettings(_Section):
    """How simulated pods and nodes behave. Every draw is a function of the seed and of what it is for.

    seed: of all draws. start_s: median of the time from placed to started. run_s: median run time where a job says
    nothing (label `sim.muster.dev/run-s`, exit code by `sim.muster.dev/exit-code`). run_sigma: of the log-normal run
    times around it. job_failure_share: of jobs without such a label. node_failures_per_day: per node. node_repair_s:
    until a lost node is back. provision_failure_share: of nodes that the scaler adds. telemetry_interval_s:
    between two readings that a node's exporter makes of its GPUs; 0: there are no exporters. output_interval_s: between
    two lines that a job prints; 0: none.
    """

    seed: int = 1
    start_s: Annotated[float, Field(ge=0)] = 0.5
    run_s: Annotated[float, Field(gt=0)] = 45.0
    run_sigma: Annotated[float, Field(ge=0)] = 0.5
    job_failure_share: Share = 0.02
    node_failures_per_day: Annotated[float, Field(ge=0)] = 0.0
    node_repair_s: Annotated[float, Field(gt=0)] = 120.0
    provision_failure_share: Share = 0.0
    telemetry_interval_s: Annotated[float, Field(ge=0)] = 10.0
    output_interval_s: Annotated[float, Field(ge=0)] = 10.0


class FabricBehaviour(_Section):
    """How a simulated fabric answers calls. Every draw is a function of the seed and of what it is for."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    seed: int = 1
    """Of all draws."""
    switch_median_s: Annotated[float, Field(ge=0)] = 10.0
    """Median of the log-normal time of one attachment or detachment."""
    switch_sigma: Annotated[float, Field(ge=0)] = 0.4
    """Deviation of the logarithm of that time."""
    refuse_share: Share = 0.0
    """Calls that are answered 5xx and do nothing."""
    drop_share: Share = 0.0
    """Calls that do their work and are never answered."""
    half_share: Share = 0.0
    """Calls that end half done."""
    nonsense_share: Share = 0.0
    """Calls whose answer cannot be understood."""
    twice_share: Share = 0.0
    """Delivered requests that are carried out twice."""
    limit: Annotated[int, Field(ge=1)] = 64
    """Operations at a time."""

    @model_validator(mode="after")
    def _at_most_every_call(self) -> Self:
        names = [name for name in FabricBehaviour.model_fields if name.endswith("_share")]
        total = sum(getattr(self, name) for name in names)
        if total > 1.0 + 1e-9:
            raise ValueError(f"{', '.join(names)}: together {total:g}, more than every call")
        return self


class SimulatedFabricSettings(FabricBehaviour):
    """A simulated fabric manager (`muster run fabric-simulator`)."""

    pool: dict[str, Annotated[int, Field(ge=0, le=100_000)]] = {}
    """GPUs that are in the pool at the very start, by model."""
    memory_pool: dict[str, Annotated[int, Field(ge=0, le=100_000)]] = {}
    """Memory devices that are in the pool at the very start, by model."""
    memory_mib: Annotated[int, Field(ge=1)] = 131_072
    """Of one memory device."""
    token_s: Annotated[float, Field(gt=0)] = 300.0
    """How long a token of the manager lives."""


class GroupSettings(_Section):
    """One node group. An ordinary group's nodes are all alike; a composable one shows the fixed spec with the most GPUs
    that a node can have, while its nodes really differ.

    name: its nodes begin with it. composable: its nodes take GPUs from a pool. nodes: there at the very start.
    nodes_min, nodes_max: what scaling may make of it. gpus: of an ordinary node, or attached at the start to each
    composable one. gpus_min, gpus_max: per composable node. warm_gpus: idle attached GPUs that are kept in the group.
    gpu_models: that its nodes take, best first. cpu_milli, memory_mib: of each node. rack_size: nodes of a rack.
    fabric: which attaches them. idle_w, busy_w: of a node without its GPUs. provision_s: from the wish to the node.
    deprovision_s: until it is gone. kubelet_picks: as of the fleet.
    """

    name: Name
    composable: bool = False
    nodes: Annotated[int, Field(ge=0, le=100_000)] = 0
    nodes_min: Annotated[int, Field(ge=0, le=100_000)] = 0
    nodes_max: Annotated[int, Field(ge=0, le=100_000)] = 0
    gpus: Annotated[int, Field(ge=0, le=64)] = 0
    gpus_min: Annotated[int, Field(ge=0, le=64)] = 0
    gpus_max: Annotated[int, Field(ge=0, le=64)] = 0
    gpu_models: tuple[str, ...] = ()
    warm_gpus: Annotated[int, Field(ge=0)] = 0
    cpu_milli: Annotated[int, Field(ge=1)] = 64_000
    memory_mib: Annotated[int, Field(ge=1)] = 524_288
    rack_size: Annotated[int, Field(ge=1)] = 8
    fabric: str = ""
    idle_w: Annotated[float, Field(ge=0)] = 250.0
    busy_w: Annotated[float, Field(ge=0)] = 600.0
    provision_s: Annotated[float, Field(ge=0)] = 600.0
    deprovision_s: Annotated[float, Field(ge=0)] = 60.0
    kubelet_picks: bool = False

    @property
    def gpus_most(self) -> int:
        """GPUs that one of its nodes can have."""
        return self.gpus_max if self.composable else self.gpus

    @property
    def round_trip_s(self) -> float:
        """Seconds that a node is away at least if it is removed and then needed again."""
        return self.provision_s + self.deprovision_s


class ModelSettings(_Section):
    """One GPU model.

    idle_w, busy_w: what one takes. attach_s: from the wish until it may be used. detach_s: and back.
    """

    idle_w: Annotated[float, Field(ge=0)] = 60.0
    busy_w: Annotated[float, Field(ge=0)] = 350.0
    attach_s: Annotated[float, Field(ge=0)] = 50.0
    detach_s: Annotated[float, Field(ge=0)] = 45.0


class ScalingSettings(_Section):
    """What the scaler may do.

    mode: whose wishes for nodes it follows: its own, the Cluster Autoscaler's, or none. groups: of nodes that may grow
    and shrink. models: watts and seconds of GPU models that are not the default's.
    gpu_idle_s: a GPU idle for so long goes back to the pool. node_unneeded_s, delay_after_add_s, delay_after_failure_s,
    node_provision_s_max: as the Cluster Autoscaler's flags. withhold_s: how long a node or device may take to become
    free before its removal is given up. may_not_coexist: models of which a node has at most one. visible_s: simulated
    nodes show a device so long after it was attached.
    """

    mode: Literal["embedded", "cluster-autoscaler", "off"] = "embedded"
    groups: tuple[GroupSettings, ...] = ()
    models: dict[str, ModelSettings] = {}
    may_not_coexist: tuple[tuple[str, ...], ...] = ()
    gpu_idle_s: Annotated[float, Field(ge=0)] = 600.0
    node_unneeded_s: Annotated[float, Field(ge=0)] = 600.0
    delay_after_add_s: Annotated[float, Field(ge=0)] = 600.0
    delay_after_failure_s: Annotated[float, Field(ge=0)] = 180.0
    node_provision_s_max: Annotated[float, Field(gt=0)] = 900.0
    withhold_s: Annotated[float, Field(gt=0)] = 30.0
    visible_s: Annotated[float, Field(ge=0)] = 10.0


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
