"""The fleet as the scheduler knows it: nodes, their holds, and placements of gangs."""

from collections.abc import Collection, Mapping

from muster.placement.demand import Demand
from muster.placement.gang import GangPlacer
from muster.placement.ledger import Ledger
from muster.placement.ranking import Ranking
from muster.placement.rooms import Rooms
from muster.placement.shapes import GangRequest, GpuTotals, Hold, HoldError, NodeShape, Shortage, TaskShape
from muster.placement.shortage import Explainer
from muster.placement.timeline import Nodes
from muster.placement.topology import Topology

ANSWERS_MAX = 8_192
"""Gangs whose refusal, or possibility, is cached; beyond it the cache is cleared."""


class Fleet:
    """Nodes and holds, changed only by these methods; every answer is a function of the calls so far.

    Methods that get an unknown node or device raise HoldError and change nothing.
    """

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._topology = Topology()
        self._ranking = Ranking(self._ledger, Demand({}))
        self._placer = GangPlacer(self._ledger, self._ranking, self._topology)
        self._explainer = Explainer(self._ledger, self._placer, self._topology)
        self.rooms = Rooms(self._ledger, self._topology)
        self._misses: dict[GangRequest, tuple[int, Shortage]] = {}
        self._possible: dict[GangRequest, Shortage | None] = {}
        self._empty: Fleet | None = None
        self._table: Nodes | None = None

    @property
    def version(self) -> int:
        """Grows whenever capacity is freed: a gang that did not fit at this version still does not."""
        return self._ledger.version

    @property
    def ledger(self) -> Ledger:
        """The ledger, to count over all nodes. Read-only."""
        return self._ledger

    @property
    def device_levels(self) -> Collection[str]:
        """Topology levels that nodes declare inside themselves, such as "socket"."""
        return self._topology.device_levels

    def table(self) -> Nodes:
        """Return all usable nodes as arrays. Costs what changed since the last call, and a copy."""
        touched, self._ledger.touched = self._ledger.touched, set()
        known = self._table.renewed(self._ledger, touched) if self._table is not None else None
        self._table = Nodes(self._ledger) if known is None else known
        return self._table

    @property
    def totals(self) -> dict[str, GpuTotals]:
        """Milli-GPUs by model."""
        return self._ledger.totals()

    def add_node(self, node: NodeShape) -> None:
        """Add an empty, usable node. Raise HoldError if the name is taken."""
        if node.name in self._ledger.nodes:
            raise HoldError(f"node {node.name} is already in the fleet: remove it first")
        self._ledger.add(node, self._topology.add(node))
        self.rooms.renew()
        if self._empty is not None:
            self._empty.add_node(node)
        self._possible.clear()

    def remove_node(self, name: str) -> None:
        """Remove a node. Raise HoldError while something is held on it."""
        self._ledger.remove(name)
        self._topology.remove(name)
        self.rooms.restart()
        self.rooms.renew()
        if self._empty is not None:
            self._empty.remove_node(name)
        self._possible.clear()

    def set_usable(self, name: str, usable: bool, *, ill: bool = True) -> None:
        """Set whether a node takes new holds (not if cordoned, drained or down). Its present holds stay.

        `ill` is False for a healthy node that joins or leaves: no shortage is attributed to it.
        """
        if self._ledger.set_usable(name, usable, ill=ill):
            self._misses.clear()

    def set_device_usable(self, name: str, index: int, usable: bool, *, ill: bool = True) -> None:
        """Set whether a device takes new holds. Its present holds stay. `ill` is as in `set_usable`."""
        if self._ledger.set_device_usable(name, index, usable, ill=ill):
            self._misses.clear()

    def set_demand(self, demand: Mapping[TaskShape, float]) -> None:
        """Set the typical tasks and their frequencies, on which the fragmentation score is based.

        Only the 64 most frequent count. All rankings are computed again, which costs as much as some hundred decisions:
        call it when the mix has changed, not for every job.
        """
        classes = Demand(demand)
        if classes.classes != self._ranking.demand.classes:
            self._ranking.set_demand(classes)

    def hold(self, hold: Hold) -> None:
        """Enter a hold, on an unusable node too. Raise HoldError if anything would be held twice."""
        self._ledger.take(hold)

    def release(self, hold: Hold) -> None:
        """Undo a hold. Raise HoldError if the node does not hold that much."""
        self._ledger.give(hold)
        self._ledger.version += 1

    def withdraw(self, hold: Hold) -> None:
        """Undo a hold because of which no gang was refused: nothing counts as freed. Raise HoldError as `release`."""
        self._ledger.give(hold)

    def place(self, gang: GangRequest) -> tuple[Hold, ...] | Shortage:
        """Return a place for every replica of a gang, or why it does not fit. The fleet is unchanged.

        Exact for gangs of one group. Several groups are placed one after the other, largest shape first, without trying
        other orders, so that a nearly full fleet may refuse a gang for which a better search finds room. A shortage has
        the numbers of when it was found; it is searched again once `version` has grown.
        """
        if self._misses:
            known = self._misses.get(gang)
            if known is not None and known[0] == self._ledger.version:
                return known[1]
        holds = self.find(gang)
        return self.shortage(gang) if holds is None else holds

    def find(self, gang: GangRequest) -> tuple[Hold, ...] | None:
        """Return the places as `place` does, or None; do not search for the shortage."""
        groups = gang.groups
        if len(groups) == 1 and groups[0].replicas == 1 and gang.topology is None and groups[0].topology is None:
            # A gang of one replica has one model in any case.
            return self._placer.place_one(groups[0].shape)
        return self._placer.place(gang)

    def shortage(self, gang: GangRequest) -> Shortage:
        """Return why a gang does not fit, for a gang that does not; cached until `version` grows."""
        if self._misses:
            known = self._misses.get(gang)
            if known is not None and known[0] == self._ledger.version:
                return known[1]
        shortage = self._explainer.explain(gang)
        if len(self._misses) >= ANSWERS_MAX:
            self._misses.clear()
        self._misses[gang] = (self._ledger.version, shortage)
        return shortage

    def explain(self, gang: GangRequest) -> Shortage:
        """Return the shortage for the temporary state of the fleet, without caching it."""
        return self._explainer.explain(gang)

    def could_ever_fit(self, gang: GangRequest) -> Shortage | None:
        """Return None if the gang would fit on these nodes if all were empty and usable, else why not."""
        if gang in self._possible:
            return self._possible[gang]
        if self._empty is None:
            self._empty = Fleet()
            for node in self._ledger.nodes.values():
                self._empty.add_node(node.shape)
        answer = self._empty.place(gang)
        if len(self._possible) >= ANSWERS_MAX:
            self._possible.clear()
        self._possible[gang] = shortage = answer if isinstance(answer, Shortage) else None
        return shortage

    def fragmentation(self) -> float:
        """Return the fraction of idle milli-GPUs that a task of the typical demand is expected not to be able to use.

        0 while no demand is set.
        """
        demand = self._ranking.demand
        if not demand:
            return 0.0
        idle = fragmented = 0.0
        for state in self._ledger.live:
            idle += len(state.names) * state.key.idle_milli
            fragmented += len(state.names) * demand.fragmented_milli(state.key)
        return fragmented / idle if idle else 0.0
