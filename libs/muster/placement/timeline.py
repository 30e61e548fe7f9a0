"""What each node would have free as holds come free one after the other: whole fleets as arrays.

Both questions about what is held use it: when a gang will fit (the order is time) and whom it could do without (the
order is that of the victims). Rows are (node, moment) pairs with all that is idle from then on; per request one pass
over them counts the replicas that fit, so that asking costs some array operations, however many holds there are.
"""

from collections.abc import Iterable, Sequence
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


class Change(NamedTuple):
    """What a hold gives back (sign 1) or takes (-1) at a moment."""

    at: int
    hold: Hold
    sign: int = 1


class Rows:
    """Rows of (node, moment), by node and moment; each node's first is how it is now, at `start`.

    source: the index in `changes` (those on nodes that are there) of what each row adds; negative for first rows.
    """

    def __init__(self, nodes: Nodes, changes: Iterable[Change], *, start: int) -> None:
        self.nodes = nodes
        count = len(nodes)
        places, width = nodes.places, nodes.width
        # Plain lists first: reading attributes of thousands of holds is what costs here.
        given = [c for c in changes if c.hold.slot.node in places]
        node = np.fromiter((places[c.hold.slot.node] for c in given), np.int64, len(given))
        sign = np.fromiter((c.sign for c in given), np.int64, len(given))
        at = np.fromiter((c.at for c in given), np.int64, len(given))
        cpu = np.fromiter((c.hold.cpu_milli for c in given), np.int64, len(given)) * sign
        memory = np.fromiter((c.hold.memory_mib for c in given), np.int64, len(given)) * sign
        idle = np.zeros((len(given), width), np.int64)
        lengths = np.fromiter((len(c.hold.slot.devices) for c in given), np.int64, len(given))
        devices = np.fromiter((d for c in given for d in c.hold.slot.devices), np.int64, int(lengths.sum()))
        share = np.fromiter((c.hold.slot.gpu_milli for c in given), np.int64, len(given)) * sign
        idle[np.repeat(np.arange(len(given)), lengths), devices] = np.repeat(share, lengths)

        self.node = np.concatenate((np.arange(count), node))
        self.at = np.concatenate((np.full(count, start, np.int64), np.maximum(at, start)))
        order = np.lexsort((self.at, self.node))
        self.node, self.at = self.node[order], self.at[order]
        self.first = order < count
        self.changes = given
        self.source = order - count
        begins = np.flatnonzero(self.first)
        self.begins, self.lengths = begins, np.diff(np.append(begins, len(order)))
        self.cpu = self.running(np.concatenate((nodes.cpu, cpu))[order])
        self.memory = self.running(np.concatenate((nodes.memory, memory))[order])
        self.holds = self.running(np.concatenate((nodes.holds, -sign))[order])
        self.idle = self.running(np.concatenate((nodes.idle, idle))[order])
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
