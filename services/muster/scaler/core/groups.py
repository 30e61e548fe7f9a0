"""Node groups: what scaling may do with them, and which node spec they show.

An ordinary group shows the spec of an actual node. A composable group always shows the fixed spec with the most GPUs
that a node can have ("spec-fixed"), because its nodes differ: one node is no model for the next.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice

from muster.core.settings import ComposerSettings, GroupSettings, ModelSettings, ScalingSettings
from muster.fabric.layout import node_name
from muster.placement import NodeShape
from muster.scaler.core.limits import GROUPS_MAX

SPEC_FIXED = "spec-fixed"
"""The spec shown by a composable group. An ordinary one shows `SPEC_ACTUAL`, or `SPEC_SET` while it has no node."""
SPEC_ACTUAL = "spec-actual"
SPEC_SET = "spec-set"


class ScalingConfigError(ValueError):
    """Settings that contradict each other. `field` is a path such as `scaling.groups[NAME].gpus_max`."""

    def __init__(self, field_name: str, problem: str) -> None:
        super().__init__(f"{field_name}: {problem}")
        self.field = field_name


_OTHER_MODEL = ModelSettings()
"""Settings of GPU models that are not configured."""


def check_group(group: GroupSettings) -> None:
    """Raise ScalingConfigError if fields of the group contradict each other."""
    if group.nodes > group.nodes_max:
        raise _error(group, "nodes", f"{group.nodes} at the start are above nodes_max {group.nodes_max}")
    if not 0 <= group.nodes_min <= group.nodes_max:
        raise _error(group, "nodes_min", f"{group.nodes_min} is not within 0 and nodes_max {group.nodes_max}")
    if group.composable:
        _check_composable(group)
    else:
        _check_ordinary(group)
    if len(set(group.gpu_models)) < len(group.gpu_models):
        raise _error(group, "gpu_models", f"each model may be listed once, got {', '.join(group.gpu_models)}")
    most = group.nodes_max * group.gpus_most
    if group.warm_gpus > most:
        words = f"{group.warm_gpus} is more than the {most} GPUs that {group.nodes_max} nodes (nodes_max) can have"
        raise _error(group, "warm_gpus", words)


def _check_composable(group: GroupSettings) -> None:
    if not group.fabric:
        raise _error(group, "fabric", "a composable group needs the fabric that attaches its GPUs: set fabric")
    if not group.gpu_models:
        raise _error(group, "gpu_models", "a composable group needs at least one GPU model: set gpu_models")
    if group.gpus_max < 1:
        raise _error(group, "gpus_max", f"{group.gpus_max} is too low: a composable group needs at least 1")
    for name, value in (("gpus_min", group.gpus_min), ("gpus", group.gpus)):
        if not 0 <= value <= group.gpus_max:
            raise _error(group, name, f"{value} is not within 0 and gpus_max {group.gpus_max}")


def _check_ordinary(group: GroupSettings) -> None:
    if group.fabric:
        raise _error(group, "fabric", f"{group.fabric} attaches GPUs to composable groups only: set composable to true")
    if group.gpus_min or group.gpus_max:
        raise _error(group, "gpus_max", "gpus_min and gpus_max are for composable groups: set gpus, or composable")
    if bool(group.gpus) != bool(group.gpu_models):
        words = f"{len(group.gpu_models)} models for {group.gpus} GPUs per node: set both or neither"
        raise _error(group, "gpu_models", words)
    if len(group.gpu_models) > 1:
        raise _error(group, "gpu_models", "nodes of an ordinary group have one GPU model: name one")


def _error(group: GroupSettings, name: str, problem: str) -> ScalingConfigError:
    return ScalingConfigError(f"scaling.groups[{group.name}].{name}", problem)


@dataclass(frozen=True, slots=True)
class ScalingConfig:
    """The configuration of the scaler, checked as a whole. Raises ScalingConfigError, which names the field."""

    settings: ScalingSettings = field(default_factory=ScalingSettings)
    fabrics: frozenset[str] = frozenset()
    """Names of the fabrics."""
    composer: ComposerSettings = field(default_factory=ComposerSettings)
    """Time limits of attaching and detaching, after which a choice has failed."""
    groups: Mapping[str, GroupSettings] = field(init=False, repr=False, compare=False)
    """The groups of the settings, by name."""

    def __post_init__(self) -> None:
        groups = {group.name: group for group in self.settings.groups}
        object.__setattr__(self, "groups", groups)
        names = [group.name for group in self.settings.groups]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            words = f"two groups are named {', '.join(twice)}: give each its own name"
            raise ScalingConfigError("scaling.groups", words)
        if len(groups) > GROUPS_MAX:
            raise ScalingConfigError("scaling.groups", f"{len(groups)} groups, at most {GROUPS_MAX}")
        for group in groups.values():
            check_group(group)
            if group.composable and group.fabric not in self.fabrics:
                known = (
                    f"the fabrics are {', '.join(sorted(self.fabrics))}" if self.fabrics else "no fabric is configured"
                )
                raise _error(group, "fabric", f"there is no fabric {group.fabric}, {known}: add it to fabrics")
        for rule in self.settings.may_not_coexist:
            if len(set(rule)) < 2:
                words = f"{rule[0] if rule else 'an empty rule'} alone excludes nothing: name at least two models"
                raise ScalingConfigError("scaling.may_not_coexist", words)

    def model(self, name: str) -> ModelSettings:
        """Return the power and times of a model; the defaults if the settings do not name it."""
        return self.settings.models.get(name, _OTHER_MODEL)

    def may_stand_together(self, models: Iterable[str]) -> bool:
        """Return whether one node may have devices of all these models, of any type."""
        present = frozenset(models)
        return all(len(present.intersection(rule)) <= 1 for rule in self.settings.may_not_coexist)

    def takes(self, group: GroupSettings, model: str, *, present: Iterable[str] = ()) -> bool:
        """Return whether a node of this group with devices of the models `present` may get a GPU of this model.

        A node has GPUs of one model at a time: the models of its group exclude each other without a rule.
        """
        carried = frozenset(present) - {""}
        if model not in group.gpu_models or any(other in group.gpu_models for other in carried - {model}):
            return False
        return self.may_stand_together(carried | {model})

    def composable_of(self, fabric: str) -> tuple[GroupSettings, ...]:
        """Return the groups whose nodes get GPUs from this fabric."""
        return tuple(group for group in self.groups.values() if group.composable and group.fabric == fabric)


def shown_spec(group: GroupSettings, actual: NodeShape | None = None, *, name: str = "", model: str = "") -> NodeShape:
    """Return the spec that one more node of the group is assumed to have.

    `actual` is any existing node of an ordinary group; without one the settings apply. `name` is the name of the new
    node. `model` is the GPU model of a composable node, by default the group's first. The topology is not included: the
    caller knows where the node would be and adds it.
    """
    name = name or node_name(group.name, 0)
    if group.composable:
        return NodeShape(name, group.cpu_milli, group.memory_mib, group.gpus_max, model or group.gpu_models[0])
    if actual is not None:
        return replace(actual, name=name, domains=())
    first = group.gpu_models[0] if group.gpu_models else ""
    return NodeShape(name, group.cpu_milli, group.memory_mib, group.gpus, first)


def spec_text(group: GroupSettings, actual: NodeShape | None = None) -> str:
    """Return the name of the shown spec, for reasons."""
    if group.composable:
        return SPEC_FIXED
    return SPEC_SET if actual is None else SPEC_ACTUAL


def free_node_names(group: GroupSettings, taken: Iterable[str], count: int) -> list[str]:
    """Return the lowest `count` names of the group that no node has; fewer if nodes_max does not allow so many."""
    used, known = frozenset(taken), _names(group.name)
    while len(known) < group.nodes_max and len(known) < len(used) + count:
        known.append(node_name(group.name, len(known) + 1))
    left = max(0, min(count, group.nodes_max - len(used)))  # nodes of a real cluster have names of its own
    return list(islice((name for name in known[: group.nodes_max] if name not in used), left))


@lru_cache(maxsize=GROUPS_MAX)
def _names(group: str) -> list[str]:
    """Return the list of a group's first names, which is extended as needed."""
    return [node_name(group, 1)]
