"""Where a gang may be put: anywhere, in one domain, on one node, or on the nodes that belong to no domain.

A region is judged by the states of its nodes, not by its nodes, so that judging all racks of a fleet costs little.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from muster.placement.ledger import Ledger
from muster.placement.shapes import NODE_LEVEL, TaskShape
from muster.placement.state import NodeState, count
from muster.placement.topology import Domain, Path, Topology
from muster.placement.wishes import Group


class Region(Protocol):
    """Usable nodes, as they are now. path: its place in the topology."""

    @property
    def path(self) -> Path:
        """Level and name of the domains that hold it, widest first, and its own."""

    def first(self, state: NodeState) -> str | None:
        """The first of its nodes in this state."""

    def items(self) -> Iterable[tuple[NodeState, int]]:
        """Each state with the number of its nodes."""


class Everywhere:
    """All usable nodes."""

    path: Path = ()

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def first(self, state: NodeState) -> str | None:
        """The first node in this state."""
        return state.names[0] if state.names else None

    def items(self) -> Iterator[tuple[NodeState, int]]:
        """Each state with the number of its nodes."""
        return ((state, len(state.names)) for state in self._ledger.live)


class OneNode:
    """One usable node."""

    def __init__(self, ledger: Ledger, topology: Topology, name: str) -> None:
        self._node = ledger.nodes[name]
        self._name = name
        self._topology = topology

    @property
    def path(self) -> Path:
        """Its domains, and itself."""
        return (*self._topology.path(self._name), (NODE_LEVEL, self._name))

    def first(self, state: NodeState) -> str | None:
        """The node, if it is in this state."""
        return self._name if self._node.state is state else None

    def items(self) -> Iterator[tuple[NodeState, int]]:
        """Its state."""
        if self._node.state is not None:
            yield self._node.state, 1


class Rest:
    """The nodes of a region that are in no domain of a narrower level."""

    def __init__(self, ledger: Ledger, around: Path, names: Iterable[str]) -> None:
        self._ledger = ledger
        self._names = frozenset(names)
        self.path = around

    def first(self, state: NodeState) -> str | None:
        """The first of them in this state."""
        return next((name for name in state.names if name in self._names), None)

    def items(self) -> Iterator[tuple[NodeState, int]]:
        """Each state with the number of its nodes."""
        found: dict[NodeState, int] = {}
        for name in sorted(self._names):
            state = self._ledger.nodes[name].state
            if state is not None:
                found[state] = found.get(state, 0) + 1
        return iter(found.items())


class Regions:
    """The regions of a fleet, how they lie within each other, and what they have room for."""

    def __init__(self, ledger: Ledger, topology: Topology) -> None:
        self._ledger = ledger
        self._topology = topology
        self.everywhere = Everywhere(ledger)

    def levels(self) -> list[str]:
        """All levels of nodes, widest first, down to the node itself."""
        return [*self._topology.levels(), NODE_LEVEL]

    def widening(self, level: str, region: Region) -> list[str]:
        """From this level up to the widest within the region; empty if the region is no wider than the level."""
        levels = self.levels()
        if level not in levels or is_within(region, level):
            return []
        inner = [at for at, known in enumerate(levels) if is_within(region, known)]
        return levels[max(inner, default=-1) + 1 : levels.index(level) + 1][::-1]

    def within(self, region: Region, level: str) -> Sequence[Region]:
        """The domains of a level in a region; of nodes one per state, as they are as good as each other."""
        if level == NODE_LEVEL:
            names = [name for state, _ in region.items() if (name := region.first(state)) is not None]
            return [OneNode(self._ledger, self._topology, name) for name in names]
        if region is self.everywhere:
            return self._topology.domains(level)
        if isinstance(region, Domain):
            return sorted(region.within(level), key=lambda domain: domain.path)
        return ()

    def parts(self, region: Region) -> Sequence[Region]:
        """The domains of the next narrower level in it, and what is in none; empty if there is no such level."""
        if region is not self.everywhere and not isinstance(region, Domain):
            return ()
        levels = self._topology.levels()
        depth = levels.index(region.level) + 1 if isinstance(region, Domain) else 0
        if depth >= len(levels):
            return ()
        parts = list(self._topology.domains(levels[depth]) if not depth else self.within(region, levels[depth]))
        nodes = region.nodes if isinstance(region, Domain) else len(self._ledger.nodes)
        if sum([part.nodes for part in parts if isinstance(part, Domain)]) < nodes:
            names = [name for state, _ in region.items() for name in self._names(region, state)]
            loose = [name for name in names if all(level != levels[depth] for level, _ in self._topology.path(name))]
            parts.append(Rest(self._ledger, region.path, loose))
        return parts

    def room(self, region: Region, shape: TaskShape) -> int:
        """How many replicas fit on the nodes of a region."""
        return sum([nodes * count(state.key, shape) for state, nodes in region.items()])

    def has_room(self, region: Region, shape: TaskShape, replicas: int) -> bool:
        """Whether so many fit, found without looking further than needed."""
        room = 0
        for state, nodes in region.items():
            room += nodes * count(state.key, shape)
            if room >= replicas:
                return True
        return False

    def room_as_wished(self, region: Region, group: Group) -> int:
        """How many replicas of a group fit in a region, in one domain of its own wish if that is required."""
        wish = group.wish
        if wish is None or not wish.required or is_within(region, wish.level):
            return self.room(region, group.shape)
        return max([self.room(domain, group.shape) for domain in self.within(region, wish.level)], default=0)

    def idle_milli(self, region: Region) -> int:
        """The idle milli-GPUs of a region."""
        return sum([nodes * state.key.idle_milli for state, nodes in region.items()])

    @staticmethod
    def _names(region: Region, state: NodeState) -> Sequence[str]:
        return region.states[state] if isinstance(region, Domain) else state.names


def is_within(region: Region, level: str) -> bool:
    """Whether the region lies in one domain of the level, or is one."""
    return any(known == level for known, _ in region.path)
