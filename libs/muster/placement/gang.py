"""Placement of whole gangs: one replica after the other on the best node, tried on the ledger and undone.

With a topology wish, domains are chosen as Kueue's topology-aware scheduling does (KEP-2724, BestFit): the tightest
domain that holds the gang; within it again the tightest narrower domain that holds all of it; where none does, the
largest first, and the tightest for what is left.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.placement.ledger import Ledger
from muster.placement.ranking import Ranking
from muster.placement.shapes import DEVICE_MILLI, NODE_LEVEL, GangRequest, Hold, Slot, TaskShape
from muster.placement.state import NodeState, count
from muster.placement.topology import Domains, Path, Topology


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a gang under placement, by its index in the request."""

    index: int
    shape: TaskShape
    replicas: int


class GangPlacer:
    """Proposes places for gangs. The ledger is changed only while a proposal is worked out."""

    def __init__(self, ledger: Ledger, ranking: Ranking, topology: Topology) -> None:
        self._ledger = ledger
        self._ranking = ranking
        self._topology = topology
        self._trial: list[Hold] = []

    def place(self, gang: GangRequest) -> tuple[Hold, ...] | None:
        """Holds for every replica, by group and replica, or None if the gang does not fit as a whole."""
        groups = largest_first(gang)
        if any(not self.has_room(group) for group in groups):
            return None
        try:
            if not self._place_as_wished(gang, groups):
                return None
            return tuple(sorted(self._trial, key=lambda hold: (hold.slot.group, hold.slot.replica)))
        finally:
            self._undo(0)

    def place_one(self, shape: TaskShape) -> tuple[Hold, ...] | None:
        """The same for a single replica that may go anywhere; the ledger is not even tried."""
        state = self._ranking.best(shape)
        return None if state is None else (self._hold(shape, state, state.names[0], group=0, replica=0),)

    def has_room(self, group: Group) -> bool:
        """Whether the fleet has room for the group if it were alone and might go anywhere."""
        room = 0
        for state in self._ledger.live:
            room += len(state.names) * count(state.key, group.shape)
            if room >= group.replicas:
                return True
        return False

    def best_domain_room(self, group: Group, level: str) -> int:
        """The most replicas of the group that one domain of the level has room for."""
        return max((self._room(names, group.shape) for _, names in self._domains(level)), default=0)

    def _place_as_wished(self, gang: GangRequest, groups: Sequence[Group]) -> bool:
        wish = gang.topology
        if wish is not None:
            levels = [*self._topology.levels(), NODE_LEVEL]
            widest_first = levels[: levels.index(wish.level) + 1] if wish.level in levels else []
            allowed = widest_first[-1:] if wish.required else reversed(widest_first)
            for level in allowed:
                if self._place_in_one(self._domains(level), levels[levels.index(level) + 1 : -1], groups):
                    return True
            if wish.required:
                return False
        return all(self._place_anywhere(group) for group in groups)

    def _domains(self, level: str) -> Domains:
        if level != NODE_LEVEL:
            return self._topology.domains(level)
        # Nodes in the same state are as good as each other: one of each is enough to choose from.
        return [((("node", state.names[0]),), state.names[:1]) for state in self._ledger.live]

    def _place_in_one(self, domains: Domains, narrower: Sequence[str], groups: Sequence[Group]) -> bool:
        """Place all groups within one of these domains, the tightest first."""
        able: list[tuple[int, int, Path, list[str]]] = []
        for path, names in domains:
            room = [self._room(names, group.shape) for group in groups]
            if all(have >= group.replicas for have, group in zip(room, groups, strict=True)):
                able.append((room[0], self._idle_milli(names), path, names))
        mark = len(self._trial)
        for _, _, _, names in sorted(able):
            if self._fill(names, narrower, groups):
                return True
            self._undo(mark)
        return False

    def _fill(self, names: list[str], narrower: Sequence[str], groups: Sequence[Group]) -> bool:
        """Place all groups on these nodes, in as narrow a domain as can be."""
        if narrower:
            parts = self._topology.split(names, narrower[0])
            if self._place_in_one(parts, narrower[1:], groups):
                return True
        return all(self._spread(names, narrower, group, range(group.replicas)) for group in groups)

    def _spread(self, names: list[str], narrower: Sequence[str], group: Group, replicas: range) -> bool:
        """Place these replicas on these nodes over few narrower domains: the largest first, then the tightest."""
        if not narrower:
            return self._place_on(names, group, replicas)
        parts = [
            (room, self._idle_milli(part), path, part)
            for path, part in self._topology.split(names, narrower[0])
            if (room := self._room(part, group.shape))
        ]
        while replicas and parts:
            enough = [part for part in parts if part[0] >= len(replicas)]
            chosen = min(enough) if enough else min(parts, key=lambda part: (-part[0], part[1], part[2]))
            parts.remove(chosen)
            if not self._spread(chosen[3], narrower[1:], group, replicas[: chosen[0]]):
                return False
            replicas = replicas[chosen[0] :]
        return not replicas

    def _place_on(self, names: Iterable[str], group: Group, replicas: range) -> bool:
        by_state = self._ledger.live_named(sorted(names))
        for replica in replicas:
            state = self._ranking.best_of(group.shape, by_state)
            if state is None:
                return False
            name = by_state[state].pop(0)
            if not by_state[state]:
                del by_state[state]
            after = self._try(group, state, name, replica)
            if after is not None:
                by_state.setdefault(after, []).append(name)
                by_state[after].sort()
        return True

    def _place_anywhere(self, group: Group) -> bool:
        for replica in range(group.replicas):
            state = self._ranking.best(group.shape)
            if state is None:
                return False
            self._try(group, state, state.names[0], replica)
        return True

    def _try(self, group: Group, state: NodeState, name: str, replica: int) -> NodeState | None:
        hold = self._hold(group.shape, state, name, group=group.index, replica=replica)
        self._ledger.take(hold)
        self._trial.append(hold)
        return self._ledger.nodes[name].state

    def _undo(self, mark: int) -> None:
        while len(self._trial) > mark:
            self._ledger.give(self._trial.pop())

    def _hold(self, shape: TaskShape, state: NodeState, name: str, *, group: int, replica: int) -> Hold:
        node = self._ledger.nodes[name]
        if shape.full_node:
            devices, share = tuple(range(node.shape.gpu_count)), DEVICE_MILLI if node.shape.gpu_count else 0
            return Hold(node.shape.cpu_milli, node.shape.memory_mib, Slot(group, replica, name, devices, share))
        devices, share = (), 0
        if shape.gpus:
            devices, share = node.devices_idle(DEVICE_MILLI, shape.gpus), DEVICE_MILLI
        elif shape.gpu_milli:
            devices, share = node.devices_idle(self._ranking.share_for(shape, state), 1), shape.gpu_milli
        return Hold(shape.cpu_milli, shape.memory_mib, Slot(group, replica, name, devices, share))

    def _room(self, names: Iterable[str], shape: TaskShape) -> int:
        return sum(len(n) * count(state.key, shape) for state, n in self._ledger.live_named(names).items())

    def _idle_milli(self, names: Iterable[str]) -> int:
        return sum(len(n) * state.key.idle_milli for state, n in self._ledger.live_named(names).items())


def largest_first(gang: GangRequest) -> list[Group]:
    """The groups in the order of placement: whole nodes, then most GPU, most CPU, most memory, then as requested."""
    groups = [Group(index, group.shape, group.replicas) for index, group in enumerate(gang.groups)]
    groups.sort(key=lambda group: (_size(group.shape), -group.index), reverse=True)
    return groups


def _size(shape: TaskShape) -> tuple[bool, int, int, int]:
    return shape.full_node, shape.gpus * DEVICE_MILLI + shape.gpu_milli, shape.cpu_milli, shape.memory_mib
