"""What a gang's wishes come to in this fleet: plans, in which every wish speaks of nodes.

A wish for a level inside nodes becomes part of the shape of each replica (`TaskShape.within`); a wish for one GPU model
becomes one plan per model. So whoever places, counts or explains has to know neither.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from muster.placement.shapes import DEVICE_MILLI, GangRequest, GroupRequest, TaskShape, TopologyWish


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a gang under placement, by its index in the request.

    replicas: how many are wanted at once. most: up to which it may grow. wish: of its own replicas.
    """

    index: int
    shape: TaskShape
    replicas: int
    most: int
    wish: TopologyWish | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The groups in the order of placement, each with its least, and the wish that holds for all of them together.

    model: the one on which all groups with devices are put; None if any will do, or each its own.
    """

    groups: tuple[Group, ...]
    wish: TopologyWish | None = None
    model: str | None = None

    @property
    def is_elastic(self) -> bool:
        """Whether it may come to more than the least."""
        return any(group.replicas < group.most for group in self.groups)

    def with_most(self) -> "Plan":
        """The same, with all replicas or nothing."""
        return self.with_counts([group.most for group in self.groups])

    def with_counts(self, counts: Sequence[int]) -> "Plan":
        """The same, with exactly so many replicas of each group, in the plan's order."""
        groups = zip(self.groups, counts, strict=True)
        return replace(self, groups=tuple([replace(group, replicas=n, most=n) for group, n in groups]))


def plans(gang: GangRequest, device_levels: Collection[str], models: Sequence[str]) -> Iterator[Plan]:
    """The ways to place a gang. device_levels: declared inside nodes. models: of the fleet's devices."""
    gang_wish = gang.topology
    inside = gang_wish if gang_wish is not None and gang_wish.level in device_levels else None
    groups = [_group(index, group, inside, device_levels=device_levels) for index, group in enumerate(gang.groups)]
    # Whole nodes, then most GPU, most CPU, most memory, then as requested.
    groups.sort(key=lambda group: (_size(group.shape), -group.index), reverse=True)
    plan = Plan(tuple(groups), None if inside is not None else gang_wish)
    if not gang.same_model or not any(group.shape.holds_devices for group in groups):
        yield plan
        return
    for model in models:
        chosen = _on_model(plan, model)
        if chosen is not None:
            yield chosen


def shapes_of(gang: GangRequest, device_levels: Collection[str]) -> list[TaskShape]:
    """What a replica of each group asks, with its own and the gang's wishes for a level inside nodes."""
    wish = gang.topology
    inside = wish if wish is not None and wish.level in device_levels else None
    return [_group(0, group, inside, device_levels=device_levels).shape for group in gang.groups]


def _group(index: int, request: GroupRequest, inside: TopologyWish | None, *, device_levels: Collection[str]) -> Group:
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
