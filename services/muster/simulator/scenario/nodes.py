"""Nodes of a scenario, written out."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.fabric.layout import device_uuids
from muster.schemas.facts.node import NodeJoined
from muster.simulator.errors import InputError
from muster.simulator.scenario import model
from muster.simulator.scenario.units import cpu_milli, memory_mib, names_of

LEVELS = ("region", "zone", "datacenter", "hall", "block", "spine", "superpod", "pod", "row", "rack", "leaf", "nvlink")
"""Known topology levels, widest first; others come after them, in the order of their first mention."""


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """One node. name: as the fleet knows it."""

    name: str
    description: NodeJoined
    state: model.NodeState
    bad_gpus: tuple[int, ...]


def planned_nodes(nodes: Sequence[model.Node]) -> dict[str, PlannedNode]:
    """By name, in their order. Raises InputError."""
    order = {level: rank for rank, level in enumerate(LEVELS)}
    for node in nodes:
        for level in node.labels:
            order.setdefault(level, len(order))
    found: dict[str, PlannedNode] = {}
    for index, node in enumerate(nodes):
        at = f"nodes[{index}]"
        for name in names_of(node.name, node.count):
            if name in found:
                raise InputError(f"{at}.name", f"there is a node {name} already; names are distinct")
            domains = tuple(sorted(node.labels.items(), key=lambda label: order[label[0]]))
            description = NodeJoined(
                cpu_milli=cpu_milli(node.cpu, at),
                memory_mib=memory_mib(node.memory_gib, at),
                gpu_model=node.model if node.gpus else "",
                gpu_uuids=device_uuids(name, node.gpus),
                domains=domains,
                device_domains=_device_domains(node, at),
            )
            found[name] = PlannedNode(name, description, node.state, node.bad_gpus)
    return found


def _device_domains(node: model.Node, at: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    levels: dict[str, tuple[int, ...]] = {}
    if "node" in node.labels:
        raise InputError(f"{at}.labels.node", "every node is a domain of its own already; call the level otherwise")
    if node.sockets is not None:
        if node.gpus % node.sockets:
            raise InputError(f"{at}.sockets", f"{node.gpus} GPUs do not split evenly; use device_domains instead")
        each = node.gpus // node.sockets
        levels["socket"] = tuple(index // each for index in range(node.gpus)) if each else ()
    for level, of_gpus in node.device_domains.items():
        if len(of_gpus) != node.gpus:
            raise InputError(f"{at}.device_domains.{level}", f"names {len(of_gpus)} domains for {node.gpus} GPUs")
        levels[level] = of_gpus
    for device in node.bad_gpus:
        if not 0 <= device < node.gpus:
            raise InputError(f"{at}.bad_gpus", f"there is no GPU {device}: they are 0 to {node.gpus - 1}")
    return tuple(sorted(levels.items(), key=lambda level: len(set(level[1]))))
