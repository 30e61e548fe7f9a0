"""Node groups and what scaling may do with them.

An ordinary group shows the spec of an actual node. A composable one always shows the fixed spec with the most GPUs
that a node can have ("spec-fixed"), because its nodes really differ: what one of them has says nothing about the next.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from itertools import islice

from muster.fabric.layout import node_name
from muster.placement import NodeShape
from muster.scaler.core.limits import GROUPS_MAX

SPEC_FIXED = "spec-fixed"
"""How a composable group shows its nodes; an ordinary one does so as `SPEC_ACTUAL`, or as set while it has none."""
SPEC_ACTUAL = "spec-actual"
SPEC_SET = "spec-set"


class ScalingConfigError(ValueError):
    """Settings that contradict themselves. field: which one, `scaling.groups[NAME].gpus_max`."""

    def __init__(self, field_name: str, problem: str) -> None:
        super().__init__(f"{field_name}: {problem}")
        self.field = field_name


class Mode(StrEnum):
    """Whose wishes for nodes the scaler follows: its own autoscaler's, the Cluster Autoscaler's, or nobody's."""

    EMBEDDED = "embedded"
    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One GPU model: watts idle and busy, seconds from the wish until it may be used, and back to the pool."""

    name: str
    idle_w: float = 60.0
    busy_w: float = 350.0
    attach_s: float = 50.0
    detach_s: float = 45.0


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """One node group; the fields are those of the settings of the same name.

    gpus: of each ordinary node. gpus_min, gpus_max: of each composable one. idle_w, busy_w: without GPUs.
    """

    name: str
    composable: bool = False
    nodes_min: int = 0
    nodes_max: int = 0
    gpus: int = 0
    gpus_min: int = 0
    gpus_max: int = 0
    gpu_models: tuple[str, ...] = ()
    warm_gpus: int = 0
    cpu_milli: int = 64_000
    memory_mib: int = 524_288
    rack_size: int = 8
    fabric: str = ""
    idle_w: float = 250.0
    busy_w: float = 600.0
    provision_s: float = 600.0
    deprovision_s: float = 60.0

    def __post_init__(self) -> None:
        self._check_nodes()
        if self.composable:
            self._check_composable()
        else:
            self._check_ordinary()
        if len(set(self.gpu_models)) < len(self.gpu_models):
            raise self._error("gpu_models", f"a model stands there twice: {', '.join(self.gpu_models)}")
        most = self.nodes_max * self.gpus_most
        if self.warm_gpus > most:
            words = f"{self.warm_gpus} idle GPUs cannot be kept where {self.nodes_max} nodes have at most {most}"
            raise self._error("warm_gpus", words)

    @property
    def gpus_most(self) -> int:
        """GPUs that one of its nodes can have."""
        return self.gpus_max if self.composable else self.gpus

    @property
    def round_trip_s(self) -> float:
        """Seconds that a node is away at least if it is removed and then needed again."""
        return self.provision_s + self.deprovision_s

    def _check_nodes(self) -> None:
        if not 0 <= self.nodes_min <= self.nodes_max:
            raise self._error("nodes_min", f"{self.nodes_min} is not within 0 and nodes_max {self.nodes_max}")

    def _check_composable(self) -> None:
        if not self.fabric:
            raise self._error("fabric", "a composable group names the fabric that attaches its GPUs")
        if not self.gpu_models:
            raise self._error("gpu_models", "a composable group names at least one GPU model")
        if self.gpus_max < 1:
            raise self._error("gpus_max", "a composable group's nodes can have at least one GPU")
        for name, value in (("gpus_min", self.gpus_min), ("gpus", self.gpus)):
            if not 0 <= value <= self.gpus_max:
                raise self._error(name, f"{value} is not within 0 and gpus_max {self.gpus_max}")

    def _check_ordinary(self) -> None:
        if self.fabric:
            raise self._error("fabric", f"{self.fabric} attaches GPUs to composable groups only: set composable")
        if self.gpus_min or self.gpus_max:
            raise self._error("gpus_max", "only a composable group's nodes differ in GPUs: set gpus, or composable")
        if bool(self.gpus) != bool(self.gpu_models):
            raise self._error("gpu_models", f"{len(self.gpu_models)} models for {self.gpus} GPUs of each node")
        if len(self.gpu_models) > 1:
            raise self._error("gpu_models", "an ordinary group's nodes are all alike: name one model")

    def _error(self, name: str, problem: str) -> ScalingConfigError:
        return ScalingConfigError(f"scaling.groups[{self.name}].{name}", problem)


@dataclass(frozen=True, slots=True)
class ScalingConfig:
    """What the scaler may do, checked as a whole. Raises ScalingConfigError.

    fabrics: names of those that there are. may_not_coexist: of each rule's models a node has at most one.
    Times are those of the settings of the same name, in seconds; the last three are the composer's.
    """

    mode: Mode = Mode.EMBEDDED
    groups: Mapping[str, NodeGroup] = field(default_factory=dict)
    models: Mapping[str, GpuModel] = field(default_factory=dict)
    fabrics: frozenset[str] = frozenset()
    may_not_coexist: tuple[frozenset[str], ...] = ()
    gpu_idle_s: float = 600.0
    node_unneeded_s: float = 600.0
    delay_after_add_s: float = 600.0
    delay_after_failure_s: float = 180.0
    node_provision_s_max: float = 900.0
    withhold_s: float = 30.0
    attach_s_max: float = 600.0
    detach_s_max: float = 600.0
    visible_s_max: float = 300.0

    def __post_init__(self) -> None:
        if len(self.groups) > GROUPS_MAX:
            raise ScalingConfigError("scaling.groups", f"{len(self.groups)} groups, at most {GROUPS_MAX}")
        for name, group in self.groups.items():
            if name != group.name:
                raise ScalingConfigError("scaling.groups", f"{name} is the key of a group named {group.name}")
            if group.composable and group.fabric not in self.fabrics:
                known = f"only {', '.join(sorted(self.fabrics))}" if self.fabrics else "nor any other"
                raise ScalingConfigError(
                    f"scaling.groups[{name}].fabric", f"there is no fabric {group.fabric}, {known}: add it to fabrics"
                )
        for rule in self.may_not_coexist:
            if len(rule) < 2:
                raise ScalingConfigError(
                    "scaling.may_not_coexist", f"{', '.join(rule) or 'an empty rule'} alone excludes nothing: name two"
                )

    def model(self, name: str) -> GpuModel:
        """Watts and seconds of a model; of one that the settings do not name, the defaults."""
        return self.models.get(name) or GpuModel(name)

    def may_stand_together(self, models: Iterable[str]) -> bool:
        """Whether one node may carry devices of all these models, whatever their type."""
        present = frozenset(models)
        return all(len(rule & present) <= 1 for rule in self.may_not_coexist)

    def takes(self, group: NodeGroup, model: str, *, present: Iterable[str] = ()) -> bool:
        """Whether a node of this group that carries `present` may get a GPU of this model.

        present: models of all its devices. A node carries GPUs of one model at a time: those of its group's models
        exclude each other without a rule.
        """
        carried = frozenset(present) - {""}
        if model not in group.gpu_models or any(other in group.gpu_models for other in carried - {model}):
            return False
        return self.may_stand_together(carried | {model})

    def composable_of(self, fabric: str) -> tuple[NodeGroup, ...]:
        """Groups whose nodes get GPUs from this fabric."""
        return tuple(group for group in self.groups.values() if group.composable and group.fabric == fabric)


def shown_spec(group: NodeGroup, actual: NodeShape | None = None, *, name: str = "", model: str = "") -> NodeShape:
    """What a node of the group is taken to be when one more is thought of.

    actual: any node of an ordinary group that is there; without one the settings say. name: of the node thought of.
    model: of a composable node's GPUs, by default the group's first. The topology is not part of it: who knows where
    the node would stand adds it.
    """
    name = name or node_name(group.name, 0)
    if group.composable:
        return NodeShape(name, group.cpu_milli, group.memory_mib, group.gpus_max, model or group.gpu_models[0])
    if actual is not None:
        return replace(actual, name=name, domains=())
    first = group.gpu_models[0] if group.gpu_models else ""
    return NodeShape(name, group.cpu_milli, group.memory_mib, group.gpus, first)


def spec_word(group: NodeGroup, actual: NodeShape | None = None) -> str:
    """How a group shows its nodes, for reasons."""
    if group.composable:
        return SPEC_FIXED
    return SPEC_SET if actual is None else SPEC_ACTUAL


def free_node_names(group: NodeGroup, taken: Iterable[str], count: int) -> list[str]:
    """The lowest `count` names of the group that no node has, fewer if nodes_max does not leave so many."""
    used, known = frozenset(taken), _names(group.name)
    while len(known) < group.nodes_max and len(known) < len(used) + count:
        known.append(node_name(group.name, len(known) + 1))
    left = max(0, min(count, group.nodes_max - len(used)))  # nodes of a real cluster have names of its own
    return list(islice((name for name in known[: group.nodes_max] if name not in used), left))


@lru_cache(maxsize=GROUPS_MAX)
def _names(group: str) -> list[str]:
    """The first names of a group, the first one to begin with: as far as they were needed, they are kept."""
    return [node_name(group, 1)]
