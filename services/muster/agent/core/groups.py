"""Node groups of the simulated cluster: what their nodes are like, and how long one takes to come and to go."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from muster.agent.core.fleet import device_domains
from muster.fabric.layout import device_uuids, machine_id, node_name
from muster.schemas.facts.node import NodeJoined


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """nodes: there on the first day. gpus: of an ordinary node, and of each composable one of the first day.

    composable: its machines are on a fabric, and a node that is added later has no devices of its own.
    provision_s: from the wish to the node; deprovision_s: from when nothing is held there until it is gone.
    kubelet_picks: the scheduler says how many of its nodes' GPUs, and no more.
    """

    name: str
    composable: bool = False
    nodes: int = 0
    gpus: int = 0
    gpu_model: str = ""
    cpu_milli: int = 64_000
    memory_mib: int = 524_288
    rack_size: int = 8
    provision_s: float = 600.0
    deprovision_s: float = 60.0
    kubelet_picks: bool = False

    def node(self, name: str, *, scale: str = "") -> NodeJoined:
        """Description of a node of this group, as it is when it comes. scale: by which choice; "": on the first day."""
        gpus = 0 if self.composable and scale else self.gpus
        return NodeJoined(
            cpu_milli=self.cpu_milli,
            memory_mib=self.memory_mib,
            gpu_model=self.gpu_model if gpus else "",
            gpu_uuids=device_uuids(name, gpus),
            domains=(("rack", f"{self.name}-r{self._rack(name)}"),),
            device_domains=() if self.composable or self.kubelet_picks else device_domains(gpus),
            group=self.name,
            machine=machine_id(name) if self.composable else "",
            scale=scale,
            kubelet_picks=self.kubelet_picks,
        )

    def first_nodes(self) -> Iterator[tuple[str, NodeJoined]]:
        """Name and description of each node of the first day."""
        for index in range(1, self.nodes + 1):
            name = node_name(self.name, index)
            yield name, self.node(name)

    def _rack(self, name: str) -> int:
        number = name.rpartition("-")[2]
        return (int(number) - 1) // self.rack_size if number.isdecimal() and int(number) else 0


@dataclass(frozen=True, slots=True)
class Groups:
    """All groups by name. visible_s: from when a device is attached until its node shows it."""

    by_name: Mapping[str, NodeGroup] = field(default_factory=dict)
    visible_s: float = 10.0

    def first_nodes(self) -> dict[str, NodeJoined]:
        """Those of the first day, in the order in which they join."""
        return dict(pair for group in self.by_name.values() for pair in group.first_nodes())

    def is_shaped_by_facts(self, node: NodeJoined) -> bool:
        """Whether facts, not the settings, say what the node is like: it was added, or its devices come and go."""
        group = self.by_name.get(node.group)
        return group is not None and (group.composable or bool(node.scale))
