"""A gang's topology and model requests in this fleet: plans, in which every request is about nodes.

A request for a level inside nodes becomes part of the shape of each replica (`TaskShape.within`); a request for one GPU
model becomes one plan per model. So placing, counting and explaining need not know either.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from muster.placement.shapes import DEVICE_MILLI, GangRequest, GroupRequest, TaskShape, TopologyRequest


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a gang under placement, by its index in the request."""

    index: int
    shape: TaskShape
    replicas: int
    """Replicas to place at once."""
    most: int
    """Maximum to which it may grow."""
    wish: TopologyRequest | None = None
    """The topology request of its own replicas."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The groups in the order of placement, each with its minimum, and the common topology request."""

    groups: tuple[Group, ...]
    wish: TopologyRequest | None = None
    model: str | None = None
    """The model of all groups with devices; None if any will do, or each its own."""

    @property
    def is_elastic(self) -> bool:
        """Whether more than the minimum may be placed."""
        return any(group.replicas < group.most for group in self.groups)

    def with_most(self) -> "Plan":
        """Return the plan with all replicas or none."""
        return self.with_counts([group.most for group in self.groups])

    def with_counts(self, counts: Sequence[int]) -> "Plan":
        """Return the plan with exactly these replicas per group, in the plan's order."""
        groups = zip(self.groups, counts, strict=True)
        return replace(self, groups=tuple([replace(group, replicas=n, most=n) for group, n in groups]))


def plans(gang: GangRequest, device_levels: Collection[str], models: Sequence[str]) -> Iterator[Plan]:
    """Yield the plans to place a gang. `device_levels` are inside nodes, `models` are of the fleet's devices."""
    gang_request = gang.topology
    inside = gang_request if gang_request is not None and gang_request.level in device_levels else None
    groups = [_group(index, group, inside, device_levels=device_levels) for index, group in enumerate(gang.groups)]
    # Whole nodes, then most GPU, most CPU, most memory, then as requested.
    groups.sort(key=lambda group: (_size(group.shape), -group.index), reverse=True)
    plan = Plan(tuple(groups), None if inside is not None else gang_request)
    if not gang.same_model or not any(group.shape.holds_devices for group in groups):
        yield plan
        return
    for model in models:
        chosen = _on_model(plan, model)
        if chosen is not None:
            yield chosen


def shapes_of(gang: GangRequest, device_levels: Collection[str]) -> list[TaskShape]:
    """Return the request of a replica of each group, including requests for a level inside nodes."""
    request = gang.topology
    inside = request if request is not None and request.level in device_levels else None
    return [_group(0, group, inside, device_levels=device_levels).shape for group in gang.groups]


def _group(
    index: int, request: GroupRequest, inside: TopologyRequest | None, *, device_levels: Collection[str]
) -> Group:
    shape, own = request.shape, request.topology
    if own is not None and own.level in device_levels:
        # One level per replica: the group's own, unless only the gang's is required.
        inside = inside if inside is not None and inside.required and not own.required else own
        own = None
    if inside is not None and not shape.within:
        shape = replace(shape, within=inside.level, within_required=inside.required)
    return Group(index, shape, request.replicas_least, request.replicas, own)


def _on_model(plan: Plan, model: str) -> Plan | None:
    groups = []
    for group in plan.groups:
        shape = group.shape
        if shape.holds_devices:
            if model in shape.models_excluded or (shape.gpu_models and model not in shape.gpu_models):
                return None
            group = replace(group, shape=replace(shape, gpu_models=(model,), models_excluded=()))  # noqa: PLW2901
        groups.append(group)
    return replace(plan, groups=tuple(groups), model=model)


def _size(shape: TaskShape) -> tuple[bool, int, int, int]:
    return shape.full_node, shape.gpus * DEVICE_MILLI + shape.gpu_milli, shape.cpu_milli, shape.memory_mib
