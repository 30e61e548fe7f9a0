"""Describe the devices of nodes that a driver publishes: the port `describing.Devices`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from muster.agent.core.kubernetes.claims import Holders
from muster.agent.core.kubernetes.cpus import CpuLayout, CpuSetError, socket_cpu_milli
from muster.agent.core.kubernetes.describing import DescribedDevices
from muster.agent.core.kubernetes.slices import Described, Device, DeviceIndex, describe
from muster.agent.core.kubernetes.views import NodeView
from muster.schemas.facts.node import GPUS_PER_NODE_MAX, NodeJoined
from muster.schemas.job import MODELS_MAX


@dataclass(slots=True, eq=False)
class PublishedDevices:
    """Published devices of nodes."""

    index: DeviceIndex
    holders: Holders
    models: Mapping[str, str] = field(default_factory=dict)
    """Muster's model name by the driver's."""
    reserved: frozenset[int] = frozenset()
    """CPUs reserved for the system on every node."""
    threads: int = 2
    """Threads of a core."""
    told: Mapping[str, NodeJoined] = field(default_factory=dict)
    """Descriptions in the log, by which devices keep their indexes."""
    misfits: set[str] = field(default_factory=set)
    """Nodes whose CPUs do not divide into their sockets, so that sockets are left out."""
    _places: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def of_node(self, node: NodeView, *, cpu_milli: int) -> DescribedDevices | None:
        """Return the devices of a node; those of foreign claims are left out."""
        told = self.told.get(node.name)
        if told is not None and told.kubelet_picks:
            told = None
        if not self.index.publishes(node.name):
            return self._silent(node.name, told)
        devices = self.index.devices(node.name)
        if devices is None:  # its driver replaces its slices: keep the old description
            return _as_told(told)
        ours = [device for device in devices if not self.holders.foreign([device.place])]
        held = frozenset(device.uuid for device in devices if device.tainted and self.holders.ours(device.place))
        before = self._places.get(node.name) or (told.gpu_uuids if told is not None else ())
        said = describe(ours, models=self.models, before=before, held=held)
        self._remember(node.name, before, said)
        return DescribedDevices(
            gpu_uuids=said.gpu_uuids,
            gpu_model=said.gpu_model,
            absent=said.absent,
            device_domains=said.device_domains,
            memory_uuids=told.memory_uuids if told is not None else (),
            socket_cpu_milli=self._sockets(node, devices, cpu_milli),
        )

    def follows_claims(self, node: str) -> bool:
        """Return whether Muster's claims affect the description: the driver is silent, or has tainted devices."""
        return not self.index.publishes(node) or self.index.has_taints(node)

    def _silent(self, node: str, told: NodeJoined | None) -> DescribedDevices | None:
        """Return the devices of a silent driver, which removes its slices when it restarts.

        While Muster's pods hold devices, none is available, also not by a device plugin, and devices keep their
        indexes.
        """
        if told is None or not told.gpu_uuids or not self.holders.hold_at(node):
            return None
        known = _as_told(told)
        return replace(known, absent=tuple(range(len(known.gpu_uuids))))

    def _remember(self, node: str, before: tuple[str, ...], said: Described) -> None:
        """Remember the last device at each index: one that returns gets its index again, if it is free."""
        now = tuple("" if place in said.absent else uuid for place, uuid in enumerate(said.gpu_uuids))
        longer = max(len(now), len(before))
        self._places[node] = tuple(
            (now[place] if place < len(now) else "") or (before[place] if place < len(before) else "")
            for place in range(longer)
        )[:GPUS_PER_NODE_MAX]

    def _sockets(self, node: NodeView, devices: tuple[Device, ...], cpu_milli: int) -> tuple[int, ...]:
        """Return cores by the sockets that devices name; () if they name none, or if the layout is invalid."""
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


class DescribedNodes(Protocol):
    """Nodes in the log; `told_changes` grows with every change of `told`."""

    told_changes: int

    @property
    def told(self) -> Mapping[str, NodeJoined]:
        """Return descriptions by name."""
        ...


@dataclass(slots=True, eq=False)
class ModelsByClaims:
    """GPU models allocated by claims, where kubelets of other nodes pick GPUs; () where it does not matter.

    A model on both kinds of nodes is included: the scheduler cannot tell the nodes apart by models, and leaving it out
    would exclude usable nodes.
    """

    nodes: DescribedNodes
    _at: int = -1
    _models: tuple[str, ...] = ()

    def __call__(self) -> tuple[str, ...]:
        """Return the models; recomputed only after a description changed."""
        if self._at != self.nodes.told_changes:
            self._at, self._models = self.nodes.told_changes, _models_by_claims(self.nodes.told.values())
        return self._models


def _models_by_claims(nodes: Iterable[NodeJoined]) -> tuple[str, ...]:
    with_gpus = [node for node in nodes if len(node.gpu_uuids) > len(node.absent)]
    by_claims = tuple(sorted({node.gpu_model for node in with_gpus if not node.kubelet_picks and node.gpu_model}))
    is_mixed = any(node.kubelet_picks for node in with_gpus)
    return by_claims if is_mixed and len(by_claims) <= MODELS_MAX else ()


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
