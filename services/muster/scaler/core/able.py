"""Which nodes can get GPUs of which source, and how many each."""

from typing import TYPE_CHECKING, NamedTuple

from muster.schemas.devices import GPU

if TYPE_CHECKING:
    from muster.scaler.core.state import State


class Source(NamedTuple):
    """Where devices come from."""

    fabric: str
    model: str


def able_nodes(state: "State", source: Source) -> dict[str, int]:
    """Usable nodes of the groups that this source serves, and how many more GPUs of it each can have."""
    found = dict[str, int]()
    nodes, config = state.fleet.ledger.nodes, state.config
    model, is_ruled = source.model, any(source.model in rule for rule in config.settings.may_not_coexist)
    for group in config.composable_of(source.fabric):
        if model not in group.gpu_models:
            continue
        gpus_max = group.gpus_max
        for name in state.node_groups.nodes_in(group.name):
            node = nodes.get(name)
            if node is None or node.state is None:
                continue
            shape = node.shape
            standing = shape.gpu_count - len(shape.absent)
            if standing >= gpus_max or (standing and shape.gpu_model != model) or shape.device_domains:
                continue
            if not is_ruled or config.takes(group, model, present=_others(state, name)):
                found[name] = gpus_max - standing
    return found


def able_coming(state: "State", source: Source) -> dict[str, int]:
    """Nodes of those groups that were chosen and have not joined, and how many more GPUs each will be able to get."""
    found = dict[str, int]()
    nodes = state.fleet.ledger.nodes
    for group in state.config.composable_of(source.fabric):
        if source.model not in group.gpu_models:
            continue
        for name in state.nodes_coming(group.name):
            node = nodes.get(name)
            standing = node.shape.device_count if node is not None else 0
            if node is None or node.state is None or standing >= group.gpus_max:
                continue
            if not standing or node.shape.gpu_model == source.model:
                found[name] = group.gpus_max - standing
    return found


def able_on(state: "State", source: Source, name: str) -> int:
    """The same for one node; 0 if it can get none."""
    group, node = state.group_of(name), state.fleet.ledger.nodes.get(name)
    if group is None or group.fabric != source.fabric or source.model not in group.gpu_models:
        return 0
    if node is None or node.state is None or node.shape.device_domains:
        return 0
    standing = node.shape.device_count
    if standing and node.shape.gpu_model != source.model:
        return 0
    if not state.config.takes(group, source.model, present=_others(state, name)):
        return 0
    return max(0, group.gpus_max - standing)


def _others(state: "State", name: str) -> list[str]:
    """Models of devices of other types on a node, or on their way there."""
    return [one.requested.model for one in state.attachments.on.get(name, {}).values() if one.requested.type != GPU]
