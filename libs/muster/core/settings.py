"""Settings sections that cores take directly: composer, simulation, scaling, checks, and actions on nodes."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from muster.schemas.base import Name
from muster.schemas.facts.operations import CHECK_S_MAX, CHECKS_MAX, COMMAND_MAX, NodeAction


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ComposerSettings(_Section):
    """Time limits and retries of attaching and detaching devices."""

    attach_s_max: Annotated[float, Field(gt=0)] = 600.0
    """Deadline of one attachment, for all its calls together."""
    detach_s_max: Annotated[float, Field(gt=0)] = 600.0
    """Deadline of one detachment, for all its calls together."""
    visible_s_max: Annotated[float, Field(gt=0)] = 300.0
    """Maximum time from attached to visible on the node."""
    withhold_s_max: Annotated[float, Field(gt=0)] = 600.0
    """How long a device may take to drain before its removal is given up."""
    attempts_max: Annotated[int, Field(ge=1, le=100)] = 5
    """Maximum calls for one attachment or detachment."""
    backoff_s: Annotated[float, Field(gt=0)] = 2.0
    """Backoff after the first failure; doubles up to `backoff_s_max`."""
    backoff_s_max: Annotated[float, Field(gt=0)] = 60.0
    """Maximum backoff before the next attempt."""
    breaker_failures: Annotated[int, Field(ge=1)] = 5
    """Failures in a row that open the fabric's circuit breaker."""
    breaker_s: Annotated[float, Field(gt=0)] = 30.0
    """How long the breaker stays open the first time."""
    survey_s: Annotated[float, Field(gt=0)] = 30.0
    """Interval of surveys of a fabric's inventory."""
    orphan_s: Annotated[float, Field(ge=0)] = 600.0
    """How long a device that belongs to no request is watched before it is returned."""


Share = Annotated[float, Field(ge=0, le=1)]
"""A fraction, from 0 to 1."""


class SimulationSettings(_Section):
    """How simulated pods and nodes behave. Every random number is a function of the seed and of its purpose."""

    seed: int = 1
    """Random seed."""
    start_s: Annotated[float, Field(ge=0)] = 0.5
    """Median time from placed to started."""
    run_s: Annotated[float, Field(gt=0)] = 45.0
    """Median run time of jobs without a label `sim.muster.dev/run-s` (`sim.muster.dev/exit-code` sets the exit
    code)."""
    run_sigma: Annotated[float, Field(ge=0)] = 0.5
    """Deviation of the logarithm of the run times."""
    job_failure_share: Share = 0.02
    """Fraction of jobs without a label for the exit code that fail."""
    node_failures_per_day: Annotated[float, Field(ge=0)] = 0.0
    """Failures per node."""
    node_repair_s: Annotated[float, Field(gt=0)] = 120.0
    """Time until a lost node rejoins."""
    provision_failure_share: Share = 0.0
    """Fraction of nodes added by the scaler whose provision fails."""
    telemetry_interval_s: Annotated[float, Field(ge=0)] = 10.0
    """Interval of the readings of a node's GPU exporter; 0: there are no exporters."""
    output_interval_s: Annotated[float, Field(ge=0)] = 10.0
    """Interval of the lines that a job prints; 0: it prints none."""


class FabricBehaviour(_Section):
    """How a simulated fabric answers calls. Every random number is a function of the seed and of its purpose."""

    seed: int = 1
    """Random seed."""
    switch_median_s: Annotated[float, Field(ge=0)] = 10.0
    """Median of the log-normal time of one attachment or detachment."""
    switch_sigma: Annotated[float, Field(ge=0)] = 0.4
    """Deviation of the logarithm of that time."""
    refuse_share: Share = 0.0
    """Fraction of calls that are answered with 5xx and do nothing."""
    drop_share: Share = 0.0
    """Fraction of calls that do their work and are never answered."""
    half_share: Share = 0.0
    """Fraction of calls that end half done."""
    nonsense_share: Share = 0.0
    """Fraction of calls with an invalid answer."""
    twice_share: Share = 0.0
    """Fraction of delivered requests that are carried out twice."""
    limit: Annotated[int, Field(ge=1)] = 64
    """Maximum concurrent operations."""

    @model_validator(mode="after")
    def _at_most_every_call(self) -> Self:
        names = [name for name in FabricBehaviour.model_fields if name.endswith("_share")]
        total = sum(getattr(self, name) for name in names)
        if total > 1.0 + 1e-9:
            raise ValueError(f"{', '.join(names)}: the sum must be at most 1, not {total:g}")
        return self


class SimulatedFabricSettings(FabricBehaviour):
    """A simulated fabric manager (`muster serve fabric-simulator`)."""

    pool: dict[str, Annotated[int, Field(ge=0, le=100_000)]] = {}
    """GPUs in the pool at the start, by model."""
    memory_pool: dict[str, Annotated[int, Field(ge=0, le=100_000)]] = {}
    """Memory devices in the pool at the start, by model."""
    memory_mib: Annotated[int, Field(ge=1)] = 131_072
    """Size of one memory device."""
    token_s: Annotated[float, Field(gt=0)] = 300.0
    """Lifetime of a token of the manager."""


class GroupSettings(_Section):
    """One node group. Nodes of an ordinary group are all alike; a composable group shows the fixed spec with the most
    GPUs that a node can have, while its nodes differ.
    """

    name: Name
    """Prefix of the names of its nodes."""
    composable: bool = False
    """Whether its nodes take GPUs from a pool."""
    nodes: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Nodes at the start."""
    nodes_min: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Minimum nodes that scaling keeps."""
    nodes_max: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Maximum nodes that scaling may add up to."""
    gpus: Annotated[int, Field(ge=0, le=64)] = 0
    """GPUs of an ordinary node, or attached to each composable node at the start."""
    gpus_min: Annotated[int, Field(ge=0, le=64)] = 0
    """Minimum GPUs of a composable node."""
    gpus_max: Annotated[int, Field(ge=0, le=64)] = 0
    """Maximum GPUs of a composable node."""
    gpu_models: tuple[str, ...] = ()
    """GPU models that its nodes take, best first."""
    warm_gpus: Annotated[int, Field(ge=0)] = 0
    """Idle attached GPUs that are kept in the group."""
    cpu_milli: Annotated[int, Field(ge=1)] = 64_000
    """CPU of each node, in thousandths of a core."""
    memory_mib: Annotated[int, Field(ge=1)] = 524_288
    """Memory of each node."""
    rack_size: Annotated[int, Field(ge=1)] = 8
    """Nodes per rack."""
    fabric: str = ""
    """The fabric that attaches its GPUs."""
    idle_w: Annotated[float, Field(ge=0)] = 250.0
    """Power of an idle node without its GPUs."""
    busy_w: Annotated[float, Field(ge=0)] = 600.0
    """Power of a busy node without its GPUs."""
    provision_s: Annotated[float, Field(ge=0)] = 600.0
    """Time from the request to the node."""
    deprovision_s: Annotated[float, Field(ge=0)] = 60.0
    """Time until a removed node is gone."""
    kubelet_picks: bool = False
    """Whether kubelets pick the devices, as in the fleet's settings."""

    @property
    def gpus_most(self) -> int:
        """Maximum GPUs of one of its nodes."""
        return self.gpus_max if self.composable else self.gpus

    @property
    def round_trip_s(self) -> float:
        """Minimum time that a node is away if it is removed and then needed again, in seconds."""
        return self.provision_s + self.deprovision_s


class ModelSettings(_Section):
    """One GPU model."""

    idle_w: Annotated[float, Field(ge=0)] = 60.0
    """Power of an idle GPU."""
    busy_w: Annotated[float, Field(ge=0)] = 350.0
    """Power of a busy GPU."""
    attach_s: Annotated[float, Field(ge=0)] = 50.0
    """Time from the request until the GPU may be used."""
    detach_s: Annotated[float, Field(ge=0)] = 45.0
    """Time until the GPU is back in the pool."""


class ScalingSettings(_Section):
    """Limits of the scaler."""

    mode: Literal["embedded", "cluster-autoscaler", "off"] = "embedded"
    """The autoscaler whose requests for nodes the scaler follows: its own, the Cluster Autoscaler, or none."""
    groups: tuple[GroupSettings, ...] = ()
    """Node groups that may grow and shrink."""
    models: dict[str, ModelSettings] = {}
    """Power and times of GPU models that differ from the defaults."""
    may_not_coexist: tuple[tuple[str, ...], ...] = ()
    """Lists of models of which a node has at most one."""
    gpu_idle_s: Annotated[float, Field(ge=0)] = 600.0
    """A GPU that was idle this long goes back to the pool."""
    node_unneeded_s: Annotated[float, Field(ge=0)] = 600.0
    """As the Cluster Autoscaler's `--scale-down-unneeded-time`."""
    delay_after_add_s: Annotated[float, Field(ge=0)] = 600.0
    """As the Cluster Autoscaler's `--scale-down-delay-after-add`."""
    delay_after_failure_s: Annotated[float, Field(ge=0)] = 180.0
    """As the Cluster Autoscaler's `--scale-down-delay-after-failure`."""
    node_provision_s_max: Annotated[float, Field(gt=0)] = 900.0
    """As the Cluster Autoscaler's `--max-node-provision-time`."""
    withhold_s: Annotated[float, Field(gt=0)] = 30.0
    """How long a node or device may take to drain before its removal is given up."""
    visible_s: Annotated[float, Field(ge=0)] = 10.0
    """Time after which simulated nodes show an attached device."""


class CheckSettings(_Section):
    """One check of a suite."""

    check: str
    """Name of the check in the library (`muster preflight list`)."""
    limit_s: Annotated[float, Field(gt=0, le=CHECK_S_MAX)] | None = None
    """Time limit; None: that of the library."""
    parameters: dict[str, str] = {}
    """Thresholds and sizes that differ from the library's."""
    command: Annotated[tuple[str, ...], Field(max_length=COMMAND_MAX)] = ()
    """Command of the check `command`."""


class SuiteSettings(_Section):
    """A named suite of checks."""

    name: Name
    """The name that jobs use; a suite that comes with Muster is replaced by one of the same name."""
    checks: Annotated[tuple[CheckSettings, ...], Field(min_length=1, max_length=CHECKS_MAX)]
    """Checks in the order in which they run."""
    limit_s: Annotated[float, Field(gt=0, le=CHECK_S_MAX)] = 600.0
    """Time limit of all checks together, from the start of the pods."""
    cannot_run_passes: bool = True
    """Whether a job passes with a warning if checks could not run."""


class SimulatedWorkSettings(_Section):
    """How checks and actions run on a simulated cluster. Random numbers are functions of the simulation's seed."""

    check_s: Annotated[float, Field(ge=0)] = 2.0
    """Median of the log-normal time of a suite."""
    action_s: Annotated[float, Field(ge=0)] = 20.0
    """Median of the log-normal time of an action."""
    check_fail_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Fraction of checked nodes that fail."""
    check_cannot_run_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Fraction of checked nodes on which the checks cannot run."""
    action_fail_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Fraction of actions that fail."""
    bad_nodes: dict[str, str] = {}
    """By node name, the check that fails there until the node is reset, rebooted or replaced."""


class NodeActionSettings(_Section):
    """How one kind of action is carried out on a Kubernetes node."""

    by: Literal["job", "annotation", "label"] = "job"
    """`job`: a Job pinned to the node runs `command`. `annotation`, `label`: the node gets `set`, and another
    controller acts on it."""
    set: dict[str, str] = {}
    """Keys and values to set. `{version}`, `{device}` and `{request}` are replaced here and in the command, where an
    option with an empty value is left out."""
    done: dict[str, str] = {}
    """Keys and values on the node that show completion; empty: the action is complete when `set` is applied."""
    failed: dict[str, str] = {}
    """Keys and values on the node that show failure."""
    after: dict[str, str] = {}
    """Keys and values to set after the action."""
    image: str = ""
    """Image of the Job."""
    command: Annotated[tuple[str, ...], Field(max_length=COMMAND_MAX)] = ()
    """Command of the Job; a line `version=...` of its termination message is the node's new version."""
    privileged: bool = False
    """Whether the Job's container has root access to the node, with the node's file system at /host."""
    restarts: bool = False
    """Whether the action is complete when the node is ready after another boot."""


class NodeWorkSettings(_Section):
    """How Kubernetes nodes are checked and maintained outside of jobs."""

    namespace: Name = "muster-nodes"
    """Namespace of the Jobs."""
    image: str = ""
    """Image of checks, and of Jobs whose action has none."""
    service_account: str = ""
    """Service account of the Jobs."""
    actions: dict[NodeAction, NodeActionSettings] = {}
    """How each action is carried out; an action that is not listed is reported as not possible."""
    kept_s: Annotated[int, Field(ge=0)] = 3600
    """How long Jobs are kept after they ended."""


class PreflightSettings(_Section):
    """Checks before the first step of jobs, and actions on nodes."""

    default: Name | None = None
    """Suite of jobs that name none; None: these jobs are not checked."""
    gpus_least: Annotated[int, Field(ge=0)] = 1
    """Minimum whole GPUs of a job that gets the default suite."""
    suites: tuple[SuiteSettings, ...] = ()
    """Suites in addition to those that come with Muster."""
    image: str = ""
    """Image of the containers that check, on Kubernetes. Required with `default`. Empty: checks of jobs cannot run,
    since the report of a job's own image proves nothing."""
    simulated: SimulatedWorkSettings = SimulatedWorkSettings()
    """How checks and actions run on a simulated cluster."""
    nodes: NodeWorkSettings = NodeWorkSettings()
    """How Kubernetes nodes are maintained."""
