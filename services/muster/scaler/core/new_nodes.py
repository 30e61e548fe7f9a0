"""Whether new nodes of a group are enough: added in thought, and the placement engine is asked for the gang."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from muster.core.settings import GroupSettings
from muster.placement import Fleet, Hold, NodeShape
from muster.placement.state import allows
from muster.scaler.core import cost
from muster.scaler.core.autoscaler import expected_domains
from muster.scaler.core.demand import Waiting
from muster.scaler.core.enlarge import places_of
from muster.scaler.core.groups import free_node_names, shown_spec
from muster.scaler.core.options import Lack, Option
from muster.scaler.core.state import State
from muster.schemas.facts.scale import ScalePart


def nodes_enough(state: State, waiting: Waiting, group: GroupSettings, count: int) -> Option | Lack:
    """Up to `count` nodes of the group for this gang, or why they do not help. The fleet is left as it was.

    A node of a composable group comes without GPUs: the fixed spec must fit, and the pool must have those that the gang
    would then hold on it, which are kept until they are attached.
    """
    names = free_node_names(group, state.members(group.name), count)
    if len(names) < count:
        words = f"{len(state.members(group.name))} of at most {group.nodes_max} nodes are there or on their way"
        return Lack("limits", f"group {group.name}: {words}, {count} more asked")
    lack = Lack("spec", f"the gang does not fit with {count} more nodes of group {group.name}")
    for model in _models(group, waiting):
        shapes = [_spec(state, group, name, model) for name in names]
        with standing(state.fleet, shapes):
            holds = state.fleet.find(waiting.ask)
        if holds is None:
            continue
        option = _option(state, group, names, model, holds)
        if isinstance(option, Option):
            return option
        lack = option
    return lack


@contextmanager
def standing(fleet: Fleet, shapes: list[NodeShape]) -> Iterator[None]:
    """For a while these nodes are there, empty and usable."""
    added = list[str]()
    try:
        for shape in shapes:
            fleet.add_node(shape)
            added.append(shape.name)
        yield
    finally:
        for name in reversed(added):
            fleet.remove_node(name)


def _models(group: GroupSettings, waiting: Waiting) -> list[str]:
    """Models that the nodes may get, best first; of an ordinary group, which has no choice, any one."""
    if not group.composable:
        return [""]
    shapes = [one.shape for one in waiting.ask.groups if one.shape.holds_devices]
    wished = [model for shape in shapes for model in shape.gpu_models if model in group.gpu_models]
    models = dict.fromkeys([*wished, *group.gpu_models])
    return [model for model in models if not shapes or any(allows(shape, model) for shape in shapes)]


def _spec(state: State, group: GroupSettings, name: str, model: str) -> NodeShape:
    shape = shown_spec(group, state.actual_node(group.name), name=name, model=model)
    return replace(shape, domains=expected_domains(state, group, name))


def _option(state: State, group: GroupSettings, names: list[str], model: str, holds: tuple[Hold, ...]) -> Option | Lack:
    used, devices = set[str](), dict[str, set[int]]()
    for hold in holds:
        if hold.slot.node in names:
            used.add(hold.slot.node)
            devices.setdefault(hold.slot.node, set()).update(hold.slot.devices)
    nodes = tuple(name for name in names if name in used)
    if not nodes:
        return Lack("spec", f"the gang would not use the new nodes of group {group.name}")
    parts = tuple(
        ScalePart(node=name, count=len(devices[name]), fabric=group.fabric, device_model=model)
        for name in nodes
        if group.composable and devices[name]
    )
    asked, left = sum(part.count for part in parts), state.pool_left(group.fabric, model) if parts else 0
    if asked > left:
        words = f"group {group.name} would fit the gang on {len(nodes)} more, which need {asked} {model}"
        return Lack("pool", f"{words}; the pool of {group.fabric} has {left} that are kept for nobody")
    return Option(
        parts=parts,
        nodes=nodes,
        group=group.name,
        places=places_of(holds),
        watts=cost.added_watts(state.config, group, len(nodes), parts),
        ready_s=cost.added_s(state.config, group, parts),
    )
