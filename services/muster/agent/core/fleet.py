"""Nodes of the simulated cluster: a regular fleet, the machines of an openb node list, and nodes of groups."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.core.settings import GroupSettings
from muster.fabric.layout import device_uuids, machine_id, node_name
from muster.openb.trace import parse_nodes
from muster.schemas.facts.node import NodeJoined

GPUS_OF_A_PAIR, GPUS_OF_TWO_SOCKETS = 2, 4

Fleet = dict[str, NodeJoined]
"""Descriptions by node name, in joining order."""


def regular_fleet(
    *, nodes: int, gpus_per_node: int, gpu_model: str, cpu_milli: int, memory_mib: int, rack_size: int,
    racks_per_block: int, nvlink_size: int = 0, kubelet_picks: bool = False, share_milli: tuple[int, ...] | None = None,
    prefix: str = "gpu",
) -> Fleet:  # fmt: skip
    """Return `nodes` equal nodes `<prefix>-0001`, ... in racks of `rack_size` and blocks of `racks_per_block` racks.

    `nvlink_size` nodes of a rack share an NVLink domain, 0 for none; it divides `rack_size`. With `kubelet_picks` the
    scheduler only counts GPUs, and nodes have no inner topology. `share_milli` lists the possible shares; None: any.
    """
    fleet: Fleet = {}
    inside = () if kubelet_picks else device_domains(gpus_per_node)
    for index in range(nodes):
        name = f"{prefix}-{index + 1:04d}"
        rack = index // rack_size
        domains = [("block", f"b{rack // racks_per_block}"), ("rack", f"r{rack}")]
        if nvlink_size:
            domains.append(("nvlink", f"v{index // nvlink_size}"))
        fleet[name] = NodeJoined(
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
            gpu_model=gpu_model if gpus_per_node else "",
            gpu_uuids=device_uuids(name, gpus_per_node),
            domains=tuple(domains),
            device_domains=inside,
            kubelet_picks=kubelet_picks,
            share_milli=share_milli,
        )
    return fleet


def openb_fleet(text: str, *, file: str) -> Fleet:
    """Return the machines of an openb node table, which has no topology.

    Raises muster.openb.trace.OpenbFormatError.
    """
    return {
        node.name: NodeJoined(
            cpu_milli=node.cpu_milli,
            memory_mib=node.memory_mib,
            gpu_model=node.gpu_model,
            gpu_uuids=device_uuids(node.name, node.gpus),
        )
        for node in parse_nodes(text, file=file)
    }


def device_domains(gpus: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the inner domains of a typical server: two sockets from four GPUs on, and pairs within each socket."""
    if gpus < GPUS_OF_A_PAIR:
        return ()
    sockets = tuple(2 * index // gpus for index in range(gpus)) if gpus >= GPUS_OF_TWO_SOCKETS else (0,) * gpus
    pairs: list[int] = []
    for socket in sorted(set(sockets)):
        first = pairs[-1] + 1 if pairs else 0
        pairs += [first + place // GPUS_OF_A_PAIR for place in range(sockets.count(socket))]
    pair = ("pair", tuple(pairs))
    return (("socket", sockets), pair) if gpus >= GPUS_OF_TWO_SOCKETS else (pair,)


def node_of(group: GroupSettings, name: str, *, scale: str = "") -> NodeJoined:
    """Return a new node of the group; `scale` is the scaling decision, "" for an initial node.

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
    """All node groups; `visible_s` is the delay from attaching a device until its node shows it."""

    by_name: Mapping[str, GroupSettings] = field(default_factory=dict)
    visible_s: float = 10.0

    def first_nodes(self) -> dict[str, NodeJoined]:
        """Return the initial nodes, in joining order."""
        return {
            (name := node_name(group.name, index)): node_of(group, name)
            for group in self.by_name.values()
            for index in range(1, group.nodes + 1)
        }

    def is_shaped_by_facts(self, node: NodeJoined) -> bool:
        """Return whether facts define the node instead of settings: it was added, or its devices come and go."""
        group = self.by_name.get(node.group)
        return group is not None and (group.composable or bool(node.scale))
