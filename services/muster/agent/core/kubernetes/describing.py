"""What a node offers to jobs: its allocatable resources, less what pods of others use, less what the system keeps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.agent.core.kubernetes.machines import NO_DEVICES, CountedDevices
from muster.agent.core.kubernetes.resources import NO_PARTS, parts_of
from muster.agent.core.kubernetes.views import NO_REQUESTS, NodeView, Requests
from muster.schemas.facts.node import GPUS_PER_NODE_MAX, NodeJoined


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """The part of a cluster's settings by which nodes are described.

    resource: what the device plugin calls a GPU. model_label: node label with the GPUs' model; models: our name by its
    value. levels: (level, node label), widest first. group_label: with the node group. machine_annotation: what the
    fabric calls the machine; machine_is_node: as the node is called. reserved_cpus: how many CPUs are kept for the
    system. sharing: thousandths of a GPU by
    extended resource.
    """

    resource: str = "nvidia.com/gpu"
    model_label: str = "nvidia.com/gpu.product"
    models: Mapping[str, str] = field(default_factory=dict)
    levels: tuple[tuple[str, str], ...] = ()
    group_label: str = "muster.dev/node-group"
    machine_annotation: str = "cluster-manager.cdi.io/machine"
    machine_is_node: bool = False
    reserved_cpus: int = 0
    sharing: Mapping[str, int] = field(default_factory=dict)

    @property
    def labels(self) -> frozenset[str]:
        """Of nodes, that must be kept."""
        return frozenset({self.model_label, self.group_label, *(label for _, label in self.levels)})


@dataclass(frozen=True, slots=True)
class DescribedDevices:
    """GPUs of a node whose uuids are known, as `NodeJoined` has them."""

    gpu_uuids: tuple[str, ...] = ()
    gpu_model: str = ""
    absent: tuple[int, ...] = ()
    device_domains: tuple[tuple[str, tuple[int, ...]], ...] = ()
    memory_uuids: tuple[str, ...] = ()
    socket_cpu_milli: tuple[int, ...] = ()


class Devices:
    """Knows the devices of nodes, where their drivers publish them; by itself, of a cluster of device plugins."""

    def of_node(self, node: NodeView, *, cpu_milli: int) -> DescribedDevices | None:  # noqa: ARG002 - the port
        """None: the node's driver publishes none, and its kubelet picks. cpu_milli: that the node gives to jobs."""
        return None


def described(
    node: NodeView,
    *,
    used: Requests = NO_REQUESTS,
    policy: NodePolicy,
    devices: Devices,
    scale: str = "",
    attached: Callable[[str, int], CountedDevices] = lambda *_: NO_DEVICES,
) -> NodeJoined:
    """The node as jobs see it. used: by pods of others. scale: the scaler's choice by which it was added.

    attached: knows what a fabric attached to a node whose kubelet picks, by its name and capacity.
    """
    offer = node.allocatable
    # a kubelet told to reserve CPUs has taken them off already: capacity says how many there were
    cpu = min(offer.cpu_milli, node.capacity_cpu_milli - 1000 * policy.reserved_cpus)
    cpu_milli = max(0, cpu - used.cpu_milli)
    known = devices.of_node(node, cpu_milli=cpu_milli)
    common = NodeJoined(
        cpu_milli=cpu_milli,
        memory_mib=max(0, offer.memory_mib - used.memory_mib),
        domains=tuple((level, node.label(label)) for level, label in policy.levels if node.label(label)),
        group=node.label(policy.group_label),
        machine=node.name if policy.machine_is_node else node.annotation(policy.machine_annotation),
        scale=scale,
        address=node.address,
    )
    if known is not None:
        update = {
            "gpu_uuids": known.gpu_uuids,
            "gpu_model": known.gpu_model,
            "absent": known.absent,
            "device_domains": known.device_domains,
            "memory_uuids": known.memory_uuids,
            "socket_cpu_milli": known.socket_cpu_milli,
            "share_milli": (),  # what is shared is given by a device plugin, on nodes of its own
        }
        return common.model_copy(update=update)
    return common.model_copy(update=_counted(node, used, policy, attached))


def _counted(
    node: NodeView, used: Requests, policy: NodePolicy, attached: Callable[[str, int], CountedDevices]
) -> dict[str, object]:
    """GPUs that the kubelet picks: a number, and names of places. What pods of others hold is not there.

    Of what a fabric attached the uuids are known: they stand before the places, for they are asked for by name. A node
    without whole GPUs may have parts of them.
    """
    have, gone = dict(node.allocatable.extended), dict(used.extended)
    capacity = 0 if policy.resource in policy.sharing else have.get(policy.resource, 0)
    parts = parts_of(have, policy.sharing) if not capacity else NO_PARTS
    known = attached(node.name, capacity)
    free = capacity - known.gone - gone.get(policy.resource, 0)
    free = max(0, min(GPUS_PER_NODE_MAX, parts.places or free))
    uuids = known.uuids[:free]
    model = node.label(policy.model_label) or known.model
    return {
        "gpu_uuids": (*uuids, *(f"{node.name}/gpu-{place}" for place in range(free - len(uuids)))),
        "gpu_model": policy.models.get(model, model) if free else "",
        "kubelet_picks": True,
        "share_milli": (parts.milli,) if parts.places else (),
        "parts_only": bool(parts.places),
    }
