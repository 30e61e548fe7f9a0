"""Describe what a node offers: allocatable resources, less use by foreign pods and reserved CPUs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.agent.core.kubernetes.machines import NO_DEVICES, CountedDevices
from muster.agent.core.kubernetes.resources import NO_PARTS, parts_of
from muster.agent.core.kubernetes.views import NO_REQUESTS, NodeView, Requests
from muster.schemas.facts.node import GPUS_PER_NODE_MAX, NodeJoined


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """Settings by which nodes are described."""

    resource: str = "nvidia.com/gpu"
    """Extended resource of a GPU."""
    model_label: str = "nvidia.com/gpu.product"
    """Node label of the GPU model."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Muster's model name by that label's value."""
    levels: tuple[tuple[str, str], ...] = ()
    """(level, node label), widest first."""
    group_label: str = "muster.dev/node-group"
    """Node label of the node group."""
    machine_annotation: str = "cluster-manager.cdi.io/machine"
    """Node annotation with the fabric's name of the machine."""
    machine_is_node: bool = False
    """Whether that name is the node's."""
    reserved_cpus: int = 0
    """Number of CPUs reserved for the system."""
    sharing: Mapping[str, int] = field(default_factory=dict)
    """Thousandths of a GPU by extended resource."""

    @property
    def labels(self) -> frozenset[str]:
        """Return the node labels that must be kept."""
        return frozenset({self.model_label, self.group_label, *(label for _, label in self.levels)})


@dataclass(frozen=True, slots=True)
class DescribedDevices:
    """GPUs of a node with known uuids; fields of `NodeJoined`."""

    gpu_uuids: tuple[str, ...] = ()
    gpu_model: str = ""
    absent: tuple[int, ...] = ()
    device_domains: tuple[tuple[str, tuple[int, ...]], ...] = ()
    memory_uuids: tuple[str, ...] = ()
    socket_cpu_milli: tuple[int, ...] = ()


class Devices:
    """The published devices of nodes; this base class is for clusters with device plugins, which publish none."""

    def of_node(self, node: NodeView, *, cpu_milli: int) -> DescribedDevices | None:  # noqa: ARG002 - the port
        """Return the devices; None if none are published, and the kubelet picks. `cpu_milli` is the node's offer."""
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
    """Return the node's description. `used` is the use by foreign pods, `scale` the scaling decision that added it.

    `attached` returns, by name and capacity, what a fabric attached to a node whose kubelet picks.
    """
    offer = node.allocatable
    # a kubelet with reserved CPUs has subtracted them already: use the capacity
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
            "share_milli": (),  # device plugins serve shared GPUs on other nodes
        }
        return common.model_copy(update=update)
    return common.model_copy(update=_counted(node, used, policy, attached))


def _counted(
    node: NodeView, used: Requests, policy: NodePolicy, attached: Callable[[str, int], CountedDevices]
) -> dict[str, object]:
    """Return the GPUs that the kubelet picks: a number, and names of indexes. Foreign pods' GPUs are left out.

    Attached devices have known uuids and come first, because they are requested by uuid. A node without whole GPUs may
    have shares.
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
