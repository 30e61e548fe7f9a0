"""Devices that Muster chooses one by one (DRA): the facade for the cluster and its sink."""

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
"""How long Muster keeps a node after its driver's slices disappeared: a restarting driver removes them first."""


@dataclass(frozen=True, slots=True)
class DevicePolicy:
    """Settings for devices."""

    driver: str = "gpu.nvidia.com"
    """Driver whose devices are chosen."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Muster's model name by the driver's."""
    reserved: frozenset[int] = frozenset()
    """CPUs reserved for the system on every node."""
    threads: int = 2
    """Threads of a core."""
    own_nodes: bool = True
    """Whether nodes with devices are reserved for Muster."""
    namespace: str = "muster"
    """Muster's own namespace, which has the list for the admission policies."""


class ChosenDevices(AuxiliaryObjects, Devices):
    """Auxiliary objects of pods, with or without devices, and the devices of nodes.

    Call `belongs_to` once the cluster is created. Without any ResourceSlice, kubelets pick the devices, and only the
    gangs' Services remain. `on_claim` and `on_claim_gone` are called for other users of claims.
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
        """Set the nodes of the devices."""
        self._nodes = nodes
        self.needs.names = nodes
        self._published.told = nodes.told

    @property
    def nodes(self) -> frozenset[str]:
        """Return the nodes whose driver publishes devices."""
        return self._index.nodes

    def slice_seen(self, view: SliceView) -> None:
        """Handle a new state of a ResourceSlice."""
        self._changed(self._index.put(view))

    def slice_gone(self, name: str) -> None:
        """Handle a deleted ResourceSlice."""
        self._changed(self._index.remove(name))

    def claim_seen(self, view: ClaimView, now: Instant) -> None:
        """Handle a new state of a ResourceClaim, in watch order. Devices of foreign claims are unavailable."""
        before = self._holders.claims.get(view.key)
        self.needs.claim_seen(view, now)
        self.on_claim(view)
        if before is None or before.places != view.places:
            self._moved(before, view)

    def claim_gone(self, key: Key, now: Instant) -> None:
        """Handle a deleted ResourceClaim."""
        before = self._holders.claims.get(key)
        self.needs.claim_gone(key, now)
        if before is not None:
            self.on_claim_gone(before)
            self._moved(before, None)

    def settle(self, now: Instant) -> None:
        """After a batch: reserve the nodes with devices for Muster, once all nodes and slices were seen."""
        if self.own_nodes is None or self._nodes is None or not self._nodes.is_synced:
            return
        if self._is_dirty or self._silent:
            self._is_dirty = False
            self.own_nodes.want(self._own(now) & self._nodes.views.keys())
        self.own_nodes.settle(now)

    def _own(self, now: Instant) -> frozenset[str]:
        """Return the nodes whose driver publishes devices, or did recently, or whose devices Muster's pods hold."""
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
        """Forget everything, to be seen again."""
        self._index.clear()
        self._holders.clear()
        self.needs.clear()
        self._spoke = frozenset()
        self._silent.clear()
        if self.own_nodes is not None:
            self.own_nodes.clear()

    def _moved(self, before: ClaimView | None, after: ClaimView | None) -> None:
        """Mark nodes whose claims changed: foreign claims remove devices, Muster's keep them in the description."""
        is_others = any(view is not None and not view.job for view in (before, after))
        nodes = _pools(before) | _pools(after)
        self._changed(nodes if is_others else frozenset(filter(self._published.follows_claims, nodes)))

    def _changed(self, nodes: frozenset[str]) -> None:
        self._is_dirty = self._is_dirty or bool(nodes)
        if self._nodes is not None:
            for node in nodes:
                self._nodes.devices_changed(node)


def _pools(view: ClaimView | None) -> frozenset[str]:
    """Return the pools of a claim, which are named like their nodes."""
    return frozenset(place.pool for place in view.places) if view is not None else frozenset()
