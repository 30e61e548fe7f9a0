"""What a node's description says of devices that its driver publishes: the port `describing.Devices`."""

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
    _places: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def of_node(self, node: NodeView, *, cpu_milli: int) -> DescribedDevices | None:
        """See `Devices`. A device that a claim of others holds is not there for us, as long as it does."""
        told = self.told.get(node.name)
        if told is not None and told.kubelet_picks:
            told = None
        if not self.index.publishes(node.name):
            return self._silent(node.name, told)
        devices = self.index.devices(node.name)
        if devices is None:  # its driver is replacing its slices: what was known stands until it is done
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
        """Whether claims of ours decide what is told of it: its driver is silent, or wants devices left alone."""
        return not self.index.publishes(node) or self.index.has_taints(node)

    def _silent(self, node: str, told: NodeJoined | None) -> DescribedDevices | None:
        """A driver that starts anew wipes its slices. As long as pods of ours hold devices there, nothing is to be had,
        above all not by a device plugin beside it, and devices keep their places.
        """
        if told is None or not told.gpu_uuids or not self.holders.hold_at(node):
            return None
        known = _as_told(told)
        return replace(known, absent=tuple(range(len(known.gpu_uuids))))

    def _remember(self, node: str, before: tuple[str, ...], said: Described) -> None:
        """Which device was last at each place: one that comes back goes where it was, if nothing else is there."""
        now = tuple("" if place in said.absent else uuid for place, uuid in enumerate(said.gpu_uuids))
        longer = max(len(now), len(before))
        self._places[node] = tuple(
            (now[place] if place < len(now) else "") or (before[place] if place < len(before) else "")
            for place in range(longer)
        )[:GPUS_PER_NODE_MAX]

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


class DescribedNodes(Protocol):
    """Nodes as the log has them. told_changes: grows with every change of `told`."""

    told_changes: int

    @property
    def told(self) -> Mapping[str, NodeJoined]:
        """By name."""
        ...


@dataclass(slots=True, eq=False)
class ModelsByClaims:
    """Models of GPUs that are had by claims, where other nodes' kubelets pick theirs; () where it need not be said.

    Of a model that both sorts of nodes have it says nothing: a scheduler that knows models alone cannot tell them
    apart, and to leave it out would close nodes that can serve.
    """

    nodes: DescribedNodes
    _at: int = -1
    _models: tuple[str, ...] = ()

    def __call__(self) -> tuple[str, ...]:
        """As of now; looked through anew only after a description changed."""
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
