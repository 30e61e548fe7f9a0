"""Node groups of the simulated cluster: what their nodes are like."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.agent.core.fleet import device_domains
from muster.core.settings import GroupSettings
from muster.fabric.layout import device_uuids, machine_id, node_name
from muster.schemas.facts.node import NodeJoined


def node_of(group: GroupSettings, name: str, *, scale: str = "") -> NodeJoined:
    """Describe a node of the group as it is when it comes. scale: by which choice; "": on the first day.

    A composable node that is added later has no devices of its own.
    """
    gpus = 0 if group.composable and scale else group.gpus
    return NodeJoined(
        cpu_milli=group.cpu_milli,
        memory_mib=group.memory_mib,
        gpu_model=group.gpu_models[0] if gpus and group.gpu_models else "",
        gpu_uuids=device_uuids(name, gpus),
        domains=(("rack", f"{group.name}-r{_rack(group, name)}"),),
        device_domains=() if group.composable or group.kubelet_picks else device_domains(gpus),
        group=group.name,
        machine=machine_id(name) if group.composable else "",
        scale=scale,
        kubelet_picks=group.kubelet_picks,
    )


def _rack(group: GroupSettings, name: str) -> int:
    number = name.rpartition("-")[2]
    return (int(number) - 1) // group.rack_size if number.isdecimal() and int(number) else 0


@dataclass(frozen=True, slots=True)
class Groups:
    """All groups by name. visible_s: from when a device is attached until its node shows it."""

    by_name: Mapping[str, GroupSettings] = field(default_factory=dict)
    visible_s: float = 10.0

    def first_nodes(self) -> dict[str, NodeJoined]:
        """Those of the first day, in the order in which they join."""
        return {
            (name := node_name(group.name, index)): node_of(group, name)
            for group in self.by_name.values()
            for index in range(1, group.nodes + 1)
        }

    def is_shaped_by_facts(self, node: NodeJoined) -> bool:
        """Whether facts, not the settings, say what the node is like: it was added, or its devices come and go."""
        group = self.by_name.get(node.group)
        return group is not None and (group.composable or bool(node.scale))
