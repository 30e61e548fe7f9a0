"""What a node's description says of devices that its driver publishes: the port `describing.Devices`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.agent.core.kubernetes.cpus import CpuLayout, CpuSetError, socket_cpu_milli
from muster.agent.core.kubernetes.describing import DescribedDevices
from muster.agent.core.kubernetes.holders import Holders
from muster.agent.core.kubernetes.slices import Device, DeviceIndex, describe
from muster.agent.core.kubernetes.views import NodeView
from muster.schemas.facts.node import NodeJoined

_NOTHING: tuple[tuple[str, ...], tuple[int, ...]] = ((), ())


@dataclass(slots=True, eq=False)
class PublishedDevices:
    """Implements `describing.Devices`. told: descriptions as the log has them, so that devices keep their places.

    models: our name by what drivers say. reserved: CPUs kept for the system on every node. threads: of a core.
    misfits: nodes whose CPUs do not divide into their sockets, so that nothing is said of them.
    """

    index: DeviceIndex
    holders: Holders
    models: Mapping[str, str] = field(default_factory=dict)
    reserved: frozenset[int] = frozenset()
    threads: int = 2
    told: Mapping[str, NodeJoined] = field(default_factory=dict)
    misfits: set[str] = field(default_factory=set)

    def of_node(self, node: NodeView, *, cpu_milli: int) -> DescribedDevices | None:
        """See `Devices`. A device that a claim of others holds is not there for us, as long as it does."""
        if not self.index.publishes(node.name):
            return None
        told = self.told.get(node.name)
        before = _NOTHING if told is None or told.kubelet_picks else (told.gpu_uuids, told.absent)
        devices = self.index.devices(node.name)
        if devices is None:  # its driver is replacing its slices: what was known stands until it is done
            return _as_told(told)
        ours = [device for device in devices if not self.holders.foreign([device.place])]
        said = describe(ours, models=self.models, before=before)
        return DescribedDevices(
            gpu_uuids=said.gpu_uuids,
            gpu_model=said.gpu_model,
            absent=said.absent,
            device_domains=said.device_domains,
            memory_uuids=told.memory_uuids if told is not None else (),
            socket_cpu_milli=self._sockets(node, devices, cpu_milli),
        )

    def _sockets(self, node: NodeView, devices: tuple[Device, ...], cpu_milli: int) -> tuple[int, ...]:
        """As many as the devices name; () if they name none, or if that cannot be."""
        sockets = 1 + max((device.numa for device in devices), default=-1)
        if not sockets:
            return ()
        try:
            layout = CpuLayout(node.capacity_cpu_milli // 1000, sockets, self.threads)
        except CpuSetError:
            self.misfits.add(node.name)
            return ()
        self.misfits.discard(node.name)
        return socket_cpu_milli(layout, reserved=self.reserved, cpu_milli=cpu_milli)


def _as_told(told: NodeJoined | None) -> DescribedDevices:
    if told is None or told.kubelet_picks:
        return DescribedDevices()
    return DescribedDevices(
        gpu_uuids=told.gpu_uuids,
        gpu_model=told.gpu_model,
        absent=told.absent,
        device_domains=told.device_domains,
        memory_uuids=told.memory_uuids,
        socket_cpu_milli=told.socket_cpu_milli,
    )
