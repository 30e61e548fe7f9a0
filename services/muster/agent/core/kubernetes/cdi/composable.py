"""Composable machines of a cluster behind one port: MachineSets, hot plug, signals of an autoscaler."""

from collections.abc import Iterator

from typing_extensions import override

from muster.agent.core.cluster import (
    AddNode,
    CancelScale,
    NodeEffect,
    NodeObservation,
    NodeSeen,
    RemoveNode,
    WordSeen,
)
from muster.agent.core.kubernetes.cdi.hot_plug import HotPlug
from muster.agent.core.kubernetes.cdi.machine_sets import MachineSets
from muster.agent.core.kubernetes.cdi.operator import Operator
from muster.agent.core.kubernetes.cdi.pool import Pool
from muster.agent.core.kubernetes.cdi.request_book import RequestBook
from muster.agent.core.kubernetes.cdi.requests import Requests
from muster.agent.core.kubernetes.cdi.signals import KIND as AUTOSCALER
from muster.agent.core.kubernetes.cdi.signals import Signals
from muster.agent.core.kubernetes.machines import CountedDevices, Machines, NoMachines
from muster.agent.core.kubernetes.nodes import Nodes
from muster.agent.core.kubernetes.views import NodeView, PodView
from muster.agent.core.kubernetes.worklist import AT_ONCE
from muster.core import Fact, Instant


class ComposableMachines(Machines):
    """Composable machines; `sets` adds and removes nodes, `group_label` is the node label of the node group."""

    def __init__(
        self,
        sets: MachineSets | NoMachines,
        plugs: HotPlug,
        book: RequestBook,
        *,
        signals: Signals | None = None,
        requests: Requests | None = None,
        pool: Pool | None = None,
        operator: Operator | None = None,
        group_label: str = "",
    ) -> None:
        self.sets, self.plugs, self.signals, self.requests, self.pool = sets, plugs, signals, requests, pool
        self.operator = operator
        self.book = book
        self._group_label = group_label

    def belongs_to(self, nodes: Nodes) -> None:
        """Set the nodes that are described by this state."""
        self.plugs.tell = nodes.devices_changed
        if isinstance(self.sets, MachineSets):
            self.sets.tell = nodes.devices_changed

    def apply(self, fact: Fact) -> None:
        """Fold one fact; also on followers."""
        self.book.apply(fact)
        for part in (self.pool, self.operator):
            if part is not None:
                part.apply(fact)

    @override
    def carry_out(self, effect: NodeEffect) -> None:
        if isinstance(effect, AddNode | RemoveNode | CancelScale):
            self.sets.carry_out(effect)
        else:
            self.plugs.carry_out(effect)

    @override
    def acknowledge(self, seen: NodeObservation | WordSeen, at: Instant) -> None:
        match seen:
            case WordSeen(kind=kind) if kind == AUTOSCALER:
                if self.signals is not None:
                    self.signals.acknowledge(seen)
            case WordSeen():
                for part in (self.requests, self.pool, self.operator):
                    if part is not None:
                        part.acknowledge(seen)
            case _:
                self.sets.acknowledge(seen, at)
                if isinstance(seen, NodeSeen):
                    self.plugs.described(seen.node, seen.description.gpu_uuids)

    @override
    def node_seen(self, view: NodeView) -> None:
        self.sets.node_seen(view)
        self.plugs.node_seen(view.name)
        if self.signals is not None:
            self.signals.node_seen(view, view.label(self._group_label))

    @override
    def node_gone(self, name: str) -> None:
        self.sets.node_gone(name)
        self.plugs.node_gone(name)
        if self.signals is not None:
            self.signals.node_gone(name)

    @override
    def plugin_seen(self, view: PodView) -> None:
        self.plugs.pod_seen(view)

    @override
    def plugin_gone(self, view: PodView) -> None:
        self.plugs.pod_gone(view)

    def claim_gone(self, uid: str) -> None:
        """Handle a deleted ResourceClaim."""
        if self.pool is not None:
            self.pool.claim_gone(uid)

    @override
    def devices_of(self, node: str, capacity: int) -> CountedDevices:
        return self.plugs.devices_of(node, capacity)

    @override
    def synced(self) -> None:
        self.sets.synced()
        self.plugs.synced()
        for part in self._parts():
            part.synced()

    @override
    def settle(self, now: Instant) -> None:
        self.sets.settle(now)
        self.plugs.settle(now)
        if self.signals is not None:
            if isinstance(self.sets, MachineSets):
                self.signals.drifts_seen(tuple(self.sets.drifts()))
            self.signals.settle(now)
        for part in (self.requests, self.pool, self.operator):
            if part is not None:
                part.settle(now)

    @override
    def observations(self) -> Iterator[NodeObservation | WordSeen]:
        yield from self.sets.observations()
        for part in self._parts():
            yield from part.observations()

    @override
    def scale_of(self, node: str) -> str:
        return self.sets.scale_of(node)

    @override
    def next_change(self) -> Instant | None:
        parts = self._parts()
        if any(part.has_news for part in parts):
            return AT_ONCE
        moments = (self.sets.next_change(), self.plugs.next_change(), *(part.next_change() for part in parts))
        return min((moment for moment in moments if moment is not None), default=None)

    @override
    def reset(self) -> None:
        self.sets.reset()
        self.plugs.reset()
        for part in self._parts():
            part.reset()

    def _parts(self) -> list[Signals | Requests | Pool | Operator]:
        """Return the configured sources of requests."""
        return [part for part in (self.signals, self.requests, self.pool, self.operator) if part is not None]
