"""What each node would have free as holds come free one after the other: whole fleets as arrays.

Both questions about what is held use it: when a gang will fit (the order is time) and whom it could do without (the
order is that of the victims). Rows are (node, moment) pairs with all that is idle from then on; per request one pass
over them counts the replicas that fit, so that asking costs some array operations, however many holds there are.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from muster.placement.ledger import Ledger
from muster.placement.shapes import DEVICE_MILLI, NODE_LEVEL, GangRequest, GroupRequest, Hold, TaskShape
from muster.placement.state import UNBOUNDED_COUNT
from muster.placement.topology import Path

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Number = TypeVar("Number", np.int64, np.float64)

NEVER = np.iinfo(np.int64).max
"""The moment of what does not come free."""

REQUEST_CLASSES_MAX = 64
"""Requests whose counts are kept per table of rows; beyond it they are counted again."""


class Nodes:
    """The usable nodes of a fleet at one moment, sorted by name; others can take nothing, whatever comes free."""

    def __init__(self, ledger: Ledger) -> None:
        self.names = sorted(name for name, node in ledger.nodes.items() if node.state is not None)
        self.places = {name: place for place, name in enumerate(self.names)}
        nodes = [ledger.nodes[name] for name in self.names]
        self.width = max((len(node.idle) for node in nodes), default=0)
        count = len(nodes)
        self.cpu = np.fromiter((node.cpu_milli for node in nodes), np.int64, count)
        self.memory = np.fromiter((node.memory_mib for node in nodes), np.int64, count)
        self.holds = np.fromiter((node.holds for node in nodes), np.int64, count)
        self.devices = np.fromiter((len(node.idle) for node in nodes), np.int64, count)
        self.idle = np.zeros((count, self.width), np.int64)
        self.good = np.ones((count, self.width), np.int64)
        for place, node in enumerate(nodes):
            self.idle[place, : len(node.idle)] = node.idle
            if node.broken:
                self.good[place, sorted(node.broken)] = 0
        self.is_sound = np.fromiter((not node.broken for node in nodes), np.bool_, count)
        models: dict[str, int] = {}
        self.model = np.fromiter(
            (models.setdefault(node.shape.gpu_model, len(models)) for node in nodes), np.int64, count
        )
        self.models = tuple(models)
        self._paths: list[Path] = [node.shape.domains for node in nodes]
        self.levels = {level for path in self._paths for level, _ in path}

    def __len__(self) -> int:
        return len(self.names)

    def domains(self, level: str, *, same_model: bool) -> Ints:
        """Per node the number of its domain (and model), -1 for a node without one; "" is the whole fleet."""
        if level == NODE_LEVEL:
            return np.arange(len(self), dtype=np.int64)
        keys: dict[tuple[Path, int], int] = {}
        found = np.full(len(self), -1, np.int64)
        for place, path in enumerate(self._paths):
            depth = next((at for at, (declared, _) in enumerate(path) if declared == level), -1) if level else 0
            if depth >= 0:
                key = (path[: depth + 1] if level else (), int(self.model[place]) if same_model else 0)
                found[place] = keys.setdefault(key, len(keys))
        return found


class Held:
    """What is held, as arrays: one entry per hold on a usable node, `owner` the index of the set that it belongs to."""

    def __init__(self, nodes: Nodes, sets: Sequence[Sequence[Hold]]) -> None:
        places = nodes.places
        owner = np.repeat(
            np.arange(len(sets), dtype=np.int64), np.fromiter((len(held) for held in sets), np.int64, len(sets))
        )
        holds = [hold for held in sets for hold in held]
        place = np.fromiter((places.get(hold.slot.node, -1) for hold in holds), np.int64, len(holds))
        if len(place) and place.min() < 0:
            there = place >= 0
            holds = [hold for hold, is_there in zip(holds, there.tolist(), strict=True) if is_there]
            owner, place = owner[there], place[there]
        self.owner, self.place = owner, place
        self.cpu = np.fromiter((hold.cpu_milli for hold in holds), np.int64, len(holds))
        self.memory = np.fromiter((hold.memory_mib for hold in holds), np.int64, len(holds))
        slots = [hold.slot for hold in holds]
        lengths = np.fromiter((len(slot.devices) for slot in slots), np.int64, len(slots))
        share = np.fromiter((slot.gpu_milli for slot in slots), np.int64, len(slots))
        devices = np.fromiter(chain.from_iterable(slot.devices for slot in slots), np.int64, int(lengths.sum()))
        self.idle = np.zeros((len(holds), nodes.width), np.int64)
        self.idle[np.repeat(np.arange(len(holds)), lengths), devices] = np.repeat(share, lengths)
        self.gpu_milli = lengths * share


class Rows:
    """Rows of (node, moment), by node and moment; each node's first is how it is now, at `start`.

    places: the nodes that have rows, ascending, and where their rows begin. source: the index in `held` of what each
    row adds; -1 for first rows.
    """

    def __init__(self, nodes: Nodes, held: Held, at: Ints, *, start: int, among: Flags | None = None) -> None:
        """`at` is the moment by owner; an owner whose moment is NEVER stays. among: the nodes looked at (None: all)."""
        self.nodes = nodes
        moment = at[held.owner]
        counted = moment != NEVER
        if among is not None:
            counted &= among[held.place]
        which = np.flatnonzero(counted)
        self.places = np.arange(len(nodes)) if among is None else np.flatnonzero(among)
        count = len(self.places)
        self.node = np.concatenate((self.places, held.place[which]))
        self.at = np.concatenate((np.full(count, start, np.int64), np.maximum(moment[which], start)))
        order = np.lexsort((self.at, self.node))
        self.node, self.at = self.node[order], self.at[order]
        self.first = order < count
        self.source = np.concatenate((np.full(count, -1, np.int64), which))[order]
        self.begins = np.flatnonzero(self.first)
        self.lengths = np.diff(np.append(self.begins, len(order)))
        now = self.places
        self.cpu = self.running(np.concatenate((nodes.cpu[now], held.cpu[which]))[order])
        self.memory = self.running(np.concatenate((nodes.memory[now], held.memory[which]))[order])
        self.holds = self.running(np.concatenate((nodes.holds[now], np.full(len(which), -1)))[order])
        self.idle = self.running(np.concatenate((nodes.idle[now], held.idle[which]))[order])
        self.idle *= nodes.good[self.node]
        self.whole_devices = (self.idle == DEVICE_MILLI).sum(axis=1)
        self.is_empty = (self.holds == 0) & nodes.is_sound[self.node]
        self._room: dict[TaskShape, Ints] = {}

    def running(self, steps: NDArray[Number]) -> NDArray[Number]:
        """Sums over each node's rows from its first one on."""
        total = np.cumsum(steps, axis=0, dtype=steps.dtype)
        total -= np.repeat(total[self.begins] - steps[self.begins], self.lengths, axis=0)
        return total

    def room(self, shape: TaskShape) -> Ints:
        """Per row how many replicas fit on the node; never fewer than there are (domains inside nodes are not seen)."""
        known = self._room.get(shape)
        if known is None:
            if len(self._room) >= REQUEST_CLASSES_MAX:
                self._room.clear()
            known = self._room[shape] = self._count(shape)
        return known

    def _count(self, shape: TaskShape) -> Ints:
        nodes = self.nodes
        allowed = np.array([is_allowed(model, shape) for model in nodes.models], dtype=bool)[nodes.model][self.node]
        if shape.full_node:
            enough = nodes.devices >= max(shape.gpus, 1 if shape.gpu_milli else 0)
            fits = self.is_empty & enough[self.node] & allowed
            fits &= (self.cpu >= shape.cpu_milli) & (self.memory >= shape.memory_mib)
            return np.asarray(fits, np.int64)
        room = np.full(len(self.node), UNBOUNDED_COUNT, np.int64)
        if shape.cpu_milli:
            np.minimum(room, self.cpu // shape.cpu_milli, out=room)
        if shape.memory_mib:
            np.minimum(room, self.memory // shape.memory_mib, out=room)
        if shape.gpus:
            np.minimum(room, self.whole_devices // shape.gpus, out=room)
        elif shape.gpu_milli:
            np.minimum(room, (self.idle // shape.gpu_milli).sum(axis=1), out=room)
        something = (self.cpu > 0) | (self.memory > 0) | (self.idle > 0).any(axis=1)
        np.maximum(room, 0, out=room)
        room *= something & allowed
        return room


def is_allowed(model: str, shape: TaskShape) -> bool:
    """Whether the request may run beside devices of this model."""
    return (not shape.gpu_models or model in shape.gpu_models) and model not in shape.models_excluded


class Wanted(NamedTuple):
    """One group's least: so many replicas of a shape within one domain of the level ("": anywhere)."""

    shape: TaskShape
    replicas: int
    level: str


def wanted(gang: GangRequest, nodes: Nodes) -> list[Wanted]:
    """What is necessary for a gang to fit, group by group; sufficient for one group without wishes inside nodes."""

    def level(group: GroupRequest) -> str:
        wish = group.topology
        if wish is not None and wish.required and (wish.level == NODE_LEVEL or wish.level in nodes.levels):
            return wish.level
        return ""

    return [Wanted(group.shape, group.replicas_least, level(group)) for group in gang.groups]


def required_level(gang: GangRequest, nodes: Nodes) -> str:
    """The level of which the whole gang needs one domain; "" for none."""
    wish = gang.topology
    is_between_nodes = wish is not None and (wish.level == NODE_LEVEL or wish.level in nodes.levels)
    return wish.level if wish is not None and wish.required and is_between_nodes else ""


class Moment(NamedTuple):
    """When all groups have room: the moment, and the nodes (places) among which it is; empty for none."""

    at: int
    among: Ints


class Calendar:
    """Rows in order of time within each domain, to find when enough room has come together."""

    def __init__(self, rows: Rows, domains: Ints) -> None:
        self._rows = rows
        self._domains = domains
        domain = domains[rows.node]
        order = np.lexsort((rows.at, domain))
        self._order = order[np.searchsorted(domain[order], 0) :]
        self._domain, self._at = domain[self._order], rows.at[self._order]
        ends = np.ones(len(self._order), dtype=bool)
        ends[:-1] = (self._at[1:] != self._at[:-1]) | (self._domain[1:] != self._domain[:-1])
        self._ends = np.flatnonzero(ends)
        starts = np.ones(len(self._order), dtype=bool)
        starts[1:] = self._domain[1:] != self._domain[:-1]
        self._starts = np.flatnonzero(starts)
        self._sizes = np.diff(np.append(self._starts, len(self._order)))

    def room(self, room: Ints) -> Ints:
        """Per (domain, moment) in order: the room of the whole domain from then on, of the room per row."""
        steps = room.copy()
        steps[1:] -= np.where(self._rows.first[1:], 0, room[:-1])
        steps = steps[self._order]
        total = np.cumsum(steps)
        before = total[self._starts] - steps[self._starts]
        return (total - np.repeat(before, self._sizes))[self._ends]

    def moments(self, groups: Sequence[Wanted]) -> list[Moment]:
        """When each domain first has room for all groups at once, each counted alone; the earliest first."""
        if not len(self._order):
            return []
        ok = np.ones(len(self._ends), dtype=bool)
        spare = np.zeros(len(self._ends), np.int64)
        for group in groups:
            room = self.room(self._rows.room(group.shape))
            ok &= room >= group.replicas
            spare += room
        found = np.flatnonzero(ok)
        if not len(found):
            return []
        domain, at = self._domain[self._ends[found]], self._at[self._ends[found]]
        _, firsts = np.unique(domain, return_index=True)
        # Of domains that have room at the same moment the tightest is the first.
        ranked = sorted(firsts.tolist(), key=lambda i: (int(at[i]), int(spare[found[i]]), int(domain[i])))
        return [Moment(int(at[i]), np.flatnonzero(self._domains == domain[i])) for i in ranked]
