"""Placement of whole gangs: one replica after the other on the best node, tried on the ledger and undone.

With a topology request, domains are chosen as in Kueue's topology-aware scheduling (KEP-2724, BestFit): the tightest
domain that holds the gang; within it again the tightest narrower domain that holds all of it; if none does, the largest
first, and the tightest for the rest. An elastic gang that does not fit as a whole gets the minimum of every group first
and then grows, largest shape first.

A region is where a gang may be placed: anywhere, in one domain, on one node, or on the nodes that belong to no domain.
It is judged by the states of its nodes instead of its nodes, so that judging all racks of a fleet costs little.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import Protocol

from muster.placement.ledger import Ledger
from muster.placement.plans import Group, Plan, plans
from muster.placement.ranking import Ranking
from muster.placement.shapes import (
    DEVICE_MILLI,
    NODE_LEVEL,
    GangRequest,
    Hold,
    Slot,
    TaskShape,
    TopologyRequest,
    share_of,
)
from muster.placement.state import NodeState, count, positions
from muster.placement.topology import Domain, Path, Topology


class Region(Protocol):
    """Usable nodes, as they are now."""

    @property
    def path(self) -> Path:
        """Level and name of the domains around the region, widest first, and of itself."""

    def first(self, state: NodeState) -> str | None:
        """Return the first of its nodes in this state."""

    def items(self) -> Iterable[tuple[NodeState, int]]:
        """Yield each state with the number of its nodes."""


class Everywhere:
    """All usable nodes."""

    path: Path = ()

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def first(self, state: NodeState) -> str | None:
        """Return the first node in this state."""
        return state.names[0] if state.names else None

    def items(self) -> Iterator[tuple[NodeState, int]]:
        """Yield each state with the number of its nodes."""
        return ((state, len(state.names)) for state in self._ledger.live)


class OneNode:
    """One usable node."""

    def __init__(self, ledger: Ledger, topology: Topology, name: str) -> None:
        self._node = ledger.nodes[name]
        self._name = name
        self._topology = topology

    @property
    def path(self) -> Path:
        """The node's domains, and the node itself."""
        return (*self._topology.path(self._name), (NODE_LEVEL, self._name))

    def first(self, state: NodeState) -> str | None:
        """Return the node if it is in this state."""
        return self._name if self._node.state is state else None

    def items(self) -> Iterator[tuple[NodeState, int]]:
        """Yield the node's state."""
        if self._node.state is not None:
            yield self._node.state, 1


class Rest:
    """The nodes of a region that are in no domain of a narrower level."""

    def __init__(self, ledger: Ledger, around: Path, names: Iterable[str]) -> None:
        self._ledger = ledger
        self._names = frozenset(names)
        self.path = around

    def first(self, state: NodeState) -> str | None:
        """Return the first of these nodes in this state."""
        return next((name for name in state.names if name in self._names), None)

    def items(self) -> Iterator[tuple[NodeState, int]]:
        """Yield each state with the number of its nodes."""
        found: dict[NodeState, int] = {}
        for name in sorted(self._names):
            state = self._ledger.nodes[name].state
            if state is not None:
                found[state] = found.get(state, 0) + 1
        return iter(found.items())


class Regions:
    """The regions of a fleet, their nesting, and their room."""

    def __init__(self, ledger: Ledger, topology: Topology) -> None:
        self._ledger = ledger
        self._topology = topology
        self.everywhere = Everywhere(ledger)

    def levels(self) -> list[str]:
        """Return all levels of nodes, widest first, down to the node itself."""
        return [*self._topology.levels(), NODE_LEVEL]

    def widening(self, level: str, region: Region) -> list[str]:
        """Return the levels from this one up to the widest within the region; empty if the region is no wider."""
        levels = self.levels()
        if level not in levels or is_within(region, level):
            return []
        inner = [at for at, known in enumerate(levels) if is_within(region, known)]
        return levels[max(inner, default=-1) + 1 : levels.index(level) + 1][::-1]

    def within(self, region: Region, level: str) -> Sequence[Region]:
        """Return the domains of a level in a region; for the node level one node per state, since they are equal."""
        if level == NODE_LEVEL:
            names = [name for state, _ in region.items() if (name := region.first(state)) is not None]
            return [OneNode(self._ledger, self._topology, name) for name in names]
        if region is self.everywhere:
            return self._topology.domains(level)
        if isinstance(region, Domain):
            return sorted(region.within(level), key=lambda domain: domain.path)
        return ()

    def parts(self, region: Region) -> Sequence[Region]:
        """Return its domains of the next narrower level, and the nodes in none; empty if there is no such level."""
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
        """Return how many replicas fit on the nodes of a region."""
        return sum([nodes * count(state.key, shape) for state, nodes in region.items()])

    def has_room(self, region: Region, shape: TaskShape, replicas: int) -> bool:
        """Return whether this many replicas fit, without counting further than needed."""
        room = 0
        for state, nodes in region.items():
            room += nodes * count(state.key, shape)
            if room >= replicas:
                return True
        return False

    def room_as_requested(self, region: Region, group: Group) -> int:
        """Return how many replicas of a group fit in a region, within one domain if the group requires it."""
        request = group.wish
        if request is None or not request.required or is_within(region, request.level):
            return self.room(region, group.shape)
        return max([self.room(domain, group.shape) for domain in self.within(region, request.level)], default=0)

    def idle_milli(self, region: Region) -> int:
        """Return the idle milli-GPUs of a region."""
        return sum([nodes * state.key.idle_milli for state, nodes in region.items()])

    @staticmethod
    def _names(region: Region, state: NodeState) -> Sequence[str]:
        return region.states[state] if isinstance(region, Domain) else state.names


def is_within(region: Region, level: str) -> bool:
    """Return whether the region is in one domain of the level, or is one."""
    return any(known == level for known, _ in region.path)


class GangPlacer:
    """Proposes places for gangs. The ledger is changed only during the computation of a proposal."""

    def __init__(self, ledger: Ledger, ranking: Ranking, topology: Topology) -> None:
        self._ledger = ledger
        self._ranking = ranking
        self._topology = topology
        self._trial: list[Hold] = []
        self.regions = Regions(ledger, topology)

    def place(self, gang: GangRequest) -> tuple[Hold, ...] | None:
        """Return holds for as many replicas as fit, by group and replica; None if the minimum of a group does not fit.

        Of several models take the first in the order of preference that fits all, else the one that fits most.
        """
        best: tuple[Hold, ...] | None = None
        for plan in self.plans(gang):
            holds = self._place_plan(plan)
            if holds is not None and (best is None or len(holds) > len(best)):
                best = holds
                if len(holds) == sum(group.most for group in plan.groups):
                    break
        return best

    def place_one(self, shape: TaskShape) -> tuple[Hold, ...] | None:
        """Return the hold of a single replica that may be placed anywhere; the ledger is not changed at all."""
        state = self._ranking.best(shape)
        return None if state is None else (self._hold(shape, state, state.names[0], group=0, replica=0),)

    def plans(self, gang: GangRequest) -> list[Plan]:
        """Return the plans to place a gang, the preferred model first."""
        found = list(plans(gang, self._topology.device_levels, self._ledger.models() if gang.same_model else ()))
        if len(found) > 1:
            able = []
            for plan in found:
                shape = next(group.shape for group in plan.groups if group.shape.holds_devices)
                state = self._ranking.best(shape)
                entry = None if state is None else self._ranking.entry(state, shape)
                if entry is not None:
                    able.append((entry, plan))
            found = [plan for _, plan in sorted(able, key=lambda pair: pair[0])]
        return found

    # --- a plan ------------------------------------------------------------------------------------------

    def _place_plan(self, plan: Plan) -> tuple[Hold, ...] | None:
        regions = self.regions
        if any(not regions.has_room(regions.everywhere, group.shape, group.replicas) for group in plan.groups):
            return None
        moves = self._ledger.moves
        try:
            if plan.is_elastic:
                if not self._place_elastic(plan):
                    return None
            elif not self._place_as_requested(plan):
                return None
            return tuple(sorted(self._trial, key=lambda hold: (hold.slot.group, hold.slot.replica)))
        finally:
            self._undo(0)
            self._ledger.moves = moves  # all nodes are in their former states

    def _place_elastic(self, plan: Plan) -> bool:
        """Place all replicas; else as many as fit, as close together as possible."""
        regions = self.regions
        if all(regions.has_room(regions.everywhere, group.shape, group.most) for group in plan.groups):
            if self._place_as_requested(plan.with_most()):
                return True
            self._undo(0)
        request = plan.wish
        if request is not None and request.required:
            domains = regions.within(regions.everywhere, request.level)
            return any(self._grow_in(domain, plan) for domain in self._able(domains, plan.groups))
        return self._grow_in(regions.everywhere, plan)

    def _grow_in(self, region: Region, plan: Plan) -> bool:
        """Find how many replicas fit in a region, place them as requested, or as they were found if that fails."""
        mark = len(self._trial)
        if not self._grow(region, plan.groups):
            self._undo(mark)
            return False
        grown = self._trial[mark:]
        self._undo(mark)
        counts = [sum(hold.slot.group == group.index for hold in grown) for group in plan.groups]
        exact = plan.with_counts(counts)
        if region is self.regions.everywhere:
            is_placed = self._place_as_requested(exact)
        else:
            is_placed = self._fill(region, exact.groups)
        if not is_placed:
            self._undo(mark)
            for hold in grown:
                self._ledger.take(hold)
            self._trial += grown
        return True

    def _grow(self, region: Region, groups: Sequence[Group]) -> bool:
        """Place the minimum of every group in a region, then more of each group in the region of its minimum."""
        homes: list[Region] = []
        for group in groups:
            home = self._place_group(region, group, is_spread=False)
            if home is None:
                return False
            homes.append(home)
        for group, home in zip(groups, homes, strict=True):
            most = min(group.most, group.replicas + self.regions.room(home, group.shape))
            if not self._put(home, group, range(group.replicas, most), is_spread=False):
                return False
        return True

    def _place_as_requested(self, plan: Plan) -> bool:
        """Place exactly the replicas of each group."""
        request, everywhere = plan.wish, self.regions.everywhere
        if request is not None:
            if self._place_in_request(everywhere, request, plan.groups) is not None:
                return True
            if request.required:
                return False
        return self._fill_each(everywhere, plan.groups, is_spread=request is not None)

    # --- regions -----------------------------------------------------------------------------------------

    def _place_in_request(self, region: Region, request: TopologyRequest, groups: Sequence[Group]) -> Region | None:
        """Place all groups in one domain of the requested level; if it is only preferred, of a wider one if needed."""
        levels = self.regions.widening(request.level, region)
        for level in levels[:1] if request.required else levels:
            home = self._place_in_one(self.regions.within(region, level), groups)
            if home is not None:
                return home
        return None

    def _place_in_one(self, domains: Iterable[Region], groups: Sequence[Group]) -> Region | None:
        """Place all groups within one of these domains."""
        mark = len(self._trial)
        for domain in self._able(domains, groups):
            if self._fill(domain, groups):
                return domain
            self._undo(mark)
        return None

    def _able(self, domains: Iterable[Region], groups: Sequence[Group]) -> list[Region]:
        """Return the domains with room for every group: the largest growth first, then the tightest."""
        able = []
        for domain in domains:
            rooms = [self.regions.room_as_requested(domain, group) for group in groups]
            if all(room >= group.replicas for room, group in zip(rooms, groups, strict=True)):
                most = [-min(room, group.most) for room, group in zip(rooms, groups, strict=True)]
                able.append((most, rooms[0], self.regions.idle_milli(domain), domain.path, domain))
        return [domain for *_, domain in sorted(able, key=lambda entry: entry[:-1])]

    def _fill(self, region: Region, groups: Sequence[Group]) -> bool:
        """Place all groups in this region, in the narrowest part of it that holds them."""
        mark = len(self._trial)
        parts = self.regions.parts(region)
        if parts and self._place_in_one(parts, groups) is not None:
            return True
        self._undo(mark)
        return self._fill_each(region, groups, is_spread=True)

    def _fill_each(self, region: Region, groups: Sequence[Group], *, is_spread: bool) -> bool:
        return all(self._place_group(region, group, is_spread=is_spread) is not None for group in groups)

    def _place_group(self, region: Region, group: Group, *, is_spread: bool) -> Region | None:
        """Place a group in this region as it requests, and return the region in which it may grow."""
        request = group.wish
        if request is not None and not is_within(region, request.level):
            home = self._place_in_request(region, request, [replace(group, wish=None)])
            if home is not None or request.required:
                return home
            is_spread = True
        replicas = range(group.replicas)
        return region if self._put(region, group, replicas, is_spread=is_spread) else None

    # --- replicas ----------------------------------------------------------------------------------------

    def _put(self, region: Region, group: Group, replicas: range, *, is_spread: bool) -> bool:
        """Place these replicas in a region: on the nodes with the best score, or spread over few parts.

        Parts are taken largest first, and the tightest for the rest.
        """
        parts = self.regions.parts(region) if is_spread and replicas else ()
        if not parts:
            return self._place_on(region, group, replicas)
        able = [
            (room, self.regions.idle_milli(part), at, part)
            for at, part in enumerate(parts)
            if (room := self.regions.room(part, group.shape))
        ]
        while replicas and able:
            enough = [entry for entry in able if entry[0] >= len(replicas)]
            chosen = min(enough or able, key=lambda entry: (0 if enough else -entry[0], entry[:3]))
            able.remove(chosen)
            if not self._put(chosen[3], group, replicas[: chosen[0]], is_spread=True):
                return False
            replicas = replicas[chosen[0] :]
        return not replicas

    def _place_on(self, region: Region, group: Group, replicas: range) -> bool:
        ranking, shape = self._ranking, group.shape
        if region is self.regions.everywhere:
            for replica in replicas:
                state = ranking.best(shape)
                if state is None:
                    return False
                self._try(group, state, state.names[0], replica)
            return True
        entries = [entry for state, _ in region.items() if (entry := ranking.entry(state, shape)) is not None]
        heapify(entries)
        for replica in replicas:
            while entries and region.first(entries[0][2]) is None:
                heappop(entries)
            if not entries:
                return False
            state = entries[0][2]
            name = region.first(state)
            assert name is not None
            after = self._try(group, state, name, replica)
            again = None if after is None else ranking.entry(after, shape)
            if again is not None:
                heappush(entries, again)
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
            devices = tuple(node.shape.devices)
            share = DEVICE_MILLI if devices else 0
            return Hold(node.shape.cpu_milli, node.shape.memory_mib, Slot(group, replica, name, devices, share))
        devices, share = (), 0
        if shape.gpus:
            share = DEVICE_MILLI
        elif shape.gpu_milli:
            share = self._ranking.share_for(shape, state)
        if state.key.parts:
            devices = node.devices_at(positions(state.key, shape, share))
        elif share:
            devices = node.devices_idle(share, shape.gpus or 1)
        taken = share_of(shape.gpu_milli, state.key.sizes) if shape.gpu_milli else share
        return Hold(shape.cpu_milli, shape.memory_mib, Slot(group, replica, name, devices, taken))
