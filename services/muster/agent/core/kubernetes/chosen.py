"""Devices that Muster chooses one by one (DRA): all parts of it in one, as the cluster and its shell see them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from typing_extensions import override

from muster.agent.core.cluster import CreatePods
from muster.agent.core.kubernetes.claims import ClaimView, Holders, Key
from muster.agent.core.kubernetes.describing import DescribedDevices, Devices
from muster.agent.core.kubernetes.needs import PodNeeds
from muster.agent.core.kubernetes.nodes import Nodes
from muster.agent.core.kubernetes.orders import PodOrders
from muster.agent.core.kubernetes.ownership import OwnNodes
from muster.agent.core.kubernetes.ports import AdoptedPods, AuxiliaryObjects, Watcher
from muster.agent.core.kubernetes.published import PublishedDevices
from muster.agent.core.kubernetes.slices import DeviceIndex, SliceView
from muster.agent.core.kubernetes.views import NodeView
from muster.agent.core.kubernetes.worklist import Worklist
from muster.core import Instant, seconds_between
from muster.schemas.job import Slot

SILENCE_S = 300.0
"""A node stays Muster's alone for so long after its driver's slices went: one that starts anew wipes them first."""


@dataclass(frozen=True, slots=True)
class DevicePolicy:
    """The part of a cluster's settings that devices follow from.

    driver: whose devices. models: our name by what the driver says. reserved: CPUs kept for the system on every node.
    threads: of a core. own_nodes: nodes with devices are Muster's alone. namespace: its own, where the policies' list
    is.
    """

    driver: str = "gpu.nvidia.com"
    models: Mapping[str, str] = field(default_factory=dict)
    reserved: frozenset[int] = frozenset()
    threads: int = 2
    own_nodes: bool = True
    namespace: str = "muster"


class ChosenDevices(AuxiliaryObjects, Devices):
    """Implements `ports.AuxiliaryObjects`, also for pods without devices, and `describing.Devices`.

    After the cluster is made, tell `belongs_to` its nodes. Where no slice is ever seen, no device is published, every
    kubelet picks, and what is left are the gangs' Services. on_claim, on_claim_gone: whoever else follows claims.
    """

    def __init__(self, policy: DevicePolicy, worklist: Worklist, orders: PodOrders, own_pods: AdoptedPods) -> None:
        index, holders = DeviceIndex(policy.driver), Holders()
        self.needs = PodNeeds(worklist, orders, own_pods, index, holders=holders)
        self.own_nodes = OwnNodes(worklist, policy.driver, policy.namespace) if policy.own_nodes else None
        self._published = PublishedDevices(
            index, holders, models=policy.models, reserved=policy.reserved, threads=policy.threads
        )
        self._nodes: Nodes | None = None
        self._index = index
        self._holders = holders
        self._is_dirty = False
        self._spoke: frozenset[str] = frozenset()
        self._silent: dict[str, Instant] = {}
        self.on_claim: Callable[[ClaimView], None] = lambda _: None
        self.on_claim_gone: Callable[[ClaimView], None] = lambda _: None

    def belongs_to(self, nodes: Nodes) -> None:
        """Whose devices these are."""
        self._nodes = nodes
        self.needs.names = nodes
        self._published.told = nodes.told

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes whose driver speaks for them."""
        return self._index.nodes

    def slice_seen(self, view: SliceView) -> None:
        """A ResourceSlice is so."""
        self._changed(self._index.put(view))

    def slice_gone(self, name: str) -> None:
        """A ResourceSlice is no more."""
        self._changed(self._index.remove(name))

    def claim_seen(self, view: ClaimView, now: Instant) -> None:
        """A ResourceClaim is so, in the order of the watch. What others hold is not there for us."""
        before = self._holders.claims.get(view.key)
        self.needs.claim_seen(view, now)
        self.on_claim(view)
        if before is None or before.places != view.places:
            self._moved(before, view)

    def claim_gone(self, key: Key, now: Instant) -> None:
        """A ResourceClaim is no more."""
        before = self._holders.claims.get(key)
        self.needs.claim_gone(key, now)
        if before is not None:
            self.on_claim_gone(before)
            self._moved(before, None)

    def settle(self, now: Instant) -> None:
        """After a batch: the nodes that have devices are Muster's, as soon as all nodes and slices were seen."""
        if self.own_nodes is None or self._nodes is None or not self._nodes.is_synced:
            return
        if self._is_dirty or self._silent:
            self._is_dirty = False
            self.own_nodes.want(self._own(now) & self._nodes.views.keys())
        self.own_nodes.settle(now)

    def _own(self, now: Instant) -> frozenset[str]:
        """Nodes whose driver speaks, or spoke a moment ago - it starts anew - or where pods of ours hold devices."""
        speaking = self._index.nodes
        for node in self._spoke - speaking:
            self._silent.setdefault(node, now)
        for node in tuple(self._silent):
            is_over = seconds_between(self._silent[node], now) >= SILENCE_S and not self._holders.hold_at(node)
            if node in speaking or is_over:
                del self._silent[node]
        self._spoke = speaking | self._silent.keys()
        return self._spoke

    @override
    def of_node(self, node: NodeView, *, cpu_milli: int) -> DescribedDevices | None:
        self._is_dirty = True
        return self._published.of_node(node, cpu_milli=cpu_milli)

    @override
    def watched_by(self, watcher: Watcher) -> None:
        self.needs.watched_by(watcher)

    @override
    def prepare(self, order: CreatePods, slot: Slot, *, name: str, uid: str, now: Instant) -> bool:
        return self.needs.prepare(order, slot, name=name, uid=uid, now=now)

    @override
    def release(self, order: CreatePods, slot: Slot, now: Instant) -> None:
        self.needs.release(order, slot, now)

    @override
    def end(self, order: CreatePods, now: Instant) -> None:
        self.needs.end(order, now)

    def clear(self) -> None:
        """See `AuxiliaryObjects`: everything is to be seen again."""
        self._index.clear()
        self._holders.clear()
        self.needs.clear()
        self._spoke = frozenset()
        self._silent.clear()
        if self.own_nodes is not None:
            self.own_nodes.clear()

    def _moved(self, before: ClaimView | None, after: ClaimView | None) -> None:
        """What others hold is not there for us; what we hold keeps a device in sight that otherwise would not be."""
        is_others = any(view is not None and not view.job for view in (before, after))
        nodes = _pools(before) | _pools(after)
        self._changed(nodes if is_others else frozenset(filter(self._published.follows_claims, nodes)))

    def _changed(self, nodes: frozenset[str]) -> None:
        self._is_dirty = self._is_dirty or bool(nodes)
        if self._nodes is not None:
            for node in nodes:
                self._nodes.devices_changed(node)


def _pools(view: ClaimView | None) -> frozenset[str]:
    """Pools of devices at nodes are called as their nodes."""
    return frozenset(place.pool for place in view.places) if view is not None else frozenset()
