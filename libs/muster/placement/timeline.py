"""Idle capacity of each node as holds are released one after the other: whole fleets as arrays.

Two searches use it: when a gang will fit (the order is time) and which victims to preempt (the order is that of the
victims). Rows are (node, time) pairs with all that is idle from then on; one pass over them counts the replicas of a
request that fit, so that a query costs some array operations, however many holds there are.
"""

from collections.abc import Collection, Sequence
from copy import copy
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from muster.placement.ledger import Ledger
from muster.placement.node import Node
from muster.placement.shapes import DEVICE_MILLI, NODE_LEVEL, Hold, TaskShape, share_of
from muster.placement.state import UNBOUNDED_COUNT
from muster.placement.topology import Path

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Number = TypeVar("Number", np.int64, np.float64)

NEVER = np.iinfo(np.int64).max
"""The time of holds that are never released."""

NO_SIZE = 2 * DEVICE_MILLI
"""More than a device has: what a share takes that no size of the node can serve."""

REQUEST_CLASSES_MAX = 64
"""Requests whose counts are cached per table of rows; beyond it the cache is cleared."""


class Nodes:
    """The usable nodes of a fleet at one time, sorted by name; other nodes take nothing, whatever is released.

    Never changed after creation: `renewed` returns a changed copy.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.names = sorted(name for name, node in ledger.nodes.items() if node.state is not None)
        self.places = {name: place for place, name in enumerate(self.names)}
        nodes = [ledger.nodes[name] for name in self.names]
        self.width = max((len(node.idle) for node in nodes), default=0)
        count = len(nodes)
        self.cpu = np.fromiter((node.cpu_milli for node in nodes), np.int64, count)
        self.memory = np.fromiter((node.memory_mib for node in nodes), np.int64, count)
        self.holds = np.fromiter((node.holds for node in nodes), np.int64, count)
        self.devices = np.fromiter((node.shape.device_count for node in nodes), np.int64, count)
        self.idle = np.zeros((count, self.width), np.int64)
        self.good = np.ones((count, self.width), np.int64)
        for place, node in enumerate(nodes):
            self.idle[place, : len(node.idle)] = node.idle
            if node.broken:
                self.good[place, sorted(node.broken)] = 0
        self._shapes = [node.shape for node in nodes]
        self._within: dict[str, Ints] = {}
        self._domains: dict[tuple[str, bool], Ints] = {}
        self.is_sound = np.fromiter((_is_sound(node) for node in nodes), np.bool_, count)
        models: dict[str, int] = {}
        self.model = np.fromiter(
            (models.setdefault(node.shape.gpu_model, len(models)) for node in nodes), np.int64, count
        )
        self.models = tuple(models)
        sizes: dict[tuple[int, ...], int] = {}
        self.size = np.fromiter(
            (sizes.setdefault(shape.share_sizes, len(sizes)) for shape in self._shapes), np.int64, count
        )
        self.sizes = tuple(sizes)
        self._paths: list[Path] = [node.shape.domains for node in nodes]
        self.levels = {level for path in self._paths for level, _ in path}

    def __len__(self) -> int:
        return len(self.names)

    def renewed(self, ledger: Ledger, touched: Collection[str]) -> "Nodes | None":
        """Return the nodes as they are now, if only these changed; None if the set of usable nodes changed."""
        rows = []
        for name in touched:
            place, node = self.places.get(name), ledger.nodes.get(name)
            if node is None or node.state is None:
                if place is not None:
                    return None
            elif place is None or node.shape is not self._shapes[place]:
                return None
            else:
                rows.append((place, node))
        if not rows:
            return self
        now = copy(self)
        now.cpu, now.memory, now.holds = self.cpu.copy(), self.memory.copy(), self.holds.copy()
        now.idle, now.good, now.is_sound = self.idle.copy(), self.good.copy(), self.is_sound.copy()
        for place, node in rows:
            now.cpu[place], now.memory[place], now.holds[place] = node.cpu_milli, node.memory_mib, node.holds
            now.idle[place, : len(node.idle)] = node.idle
            now.good[place] = 1
            now.good[place, sorted(node.broken)] = 0
            now.is_sound[place] = _is_sound(node)
        return now

    def within(self, level: str) -> Ints:
        """Return per node and device the number of its domain of a level inside the node, from 1; 0 without one."""
        known = self._within.get(level)
        if known is None:
            known = self._within[level] = np.zeros((len(self), self.width), np.int64)
            for place, shape in enumerate(self._shapes):
                for declared, numbers in shape.device_domains:
                    if declared == level:
                        known[place, shape.devices] = (
                            np.unique([numbers[index] for index in shape.devices], return_inverse=True)[1] + 1
                        )
        return known

    def domains(self, level: str, *, same_model: bool) -> Ints:
        """Return per node the number of its domain (and model), -1 without a domain; "" is the whole fleet."""
        if level == NODE_LEVEL:
            return np.arange(len(self), dtype=np.int64)
        known = self._domains.get((level, same_model))
        if known is not None:
            return known
        keys: dict[tuple[Path, int], int] = {}
        found = self._domains[level, same_model] = np.full(len(self), -1, np.int64)
        for place, path in enumerate(self._paths):
            depth = next((at for at, (declared, _) in enumerate(path) if declared == level), -1) if level else 0
            if depth >= 0:
                key = (path[: depth + 1] if level else (), int(self.model[place]) if same_model else 0)
                found[place] = keys.setdefault(key, len(keys))
        return found


class Held:
    """Holds as arrays: one entry per hold on a usable node, with the index of the set that it belongs to as `owner`.

    Amounts are what is released; negative for what will be taken. `holds` is the decrease of the number of holds.
    """

    def __init__(self, nodes: Nodes, sets: Sequence[Sequence[Hold]], *, sign: int = 1) -> None:
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
        self.owners = len(sets)
        self.holds = np.full(len(holds), sign, np.int64)
        self.cpu = sign * np.fromiter((hold.cpu_milli for hold in holds), np.int64, len(holds))
        self.memory = sign * np.fromiter((hold.memory_mib for hold in holds), np.int64, len(holds))
        slots = [hold.slot for hold in holds]
        lengths = np.fromiter((len(slot.devices) for slot in slots), np.int64, len(slots))
        share = sign * np.fromiter((slot.gpu_milli for slot in slots), np.int64, len(slots))
        devices = np.fromiter(chain.from_iterable(slot.devices for slot in slots), np.int64, int(lengths.sum()))
        self.idle = np.zeros((len(holds), nodes.width), np.int64)
        self.idle[np.repeat(np.arange(len(holds)), lengths), devices] = np.repeat(share, lengths)
        self.gpu_milli = lengths * share

    def joined(self, other: "Held") -> "Held":
        """Return both; the owners of the other are numbered after these."""
        both = copy(self)
        both.owner = np.concatenate((self.owner, other.owner + self.owners))
        both.owners = self.owners + other.owners
        both.place = np.concatenate((self.place, other.place))
        both.holds = np.concatenate((self.holds, other.holds))
        both.cpu = np.concatenate((self.cpu, other.cpu))
        both.memory = np.concatenate((self.memory, other.memory))
        both.idle = np.concatenate((self.idle, other.idle))
        both.gpu_milli = np.concatenate((self.gpu_milli, other.gpu_milli))
        return both


class Rows:
    """Rows of (node, time): what is idle there from then on. A node's rows are adjacent, in order of time.

    `first` marks the rows of the nodes at `start`, and `begins` has their indexes. `source` is the index in `held` of
    what a row adds; -1 for first rows. `counted` caches requests.
    """

    def __init__(
        self, nodes: Nodes, held: Held, at: Ints, *, start: int, among: Flags | None = None, lasting: bool = False
    ) -> None:
        """Create the rows with the times `at` by owner; NEVER is left out. `among` limits the nodes (None: all).

        `lasting`: count only capacity that stays idle for ever, whatever will be taken.
        """
        self.nodes = nodes
        moment = at[held.owner]
        counted = moment != NEVER
        if among is not None:
            counted &= among[held.place]
        which = np.flatnonzero(counted)
        now = np.arange(len(nodes)) if among is None else np.flatnonzero(among)
        count = len(now)
        node = np.concatenate((now, held.place[which]))
        moments = np.concatenate((np.full(count, start, np.int64), np.maximum(moment[which], start)))
        # Releases come before takes at the same time.
        falls = np.concatenate((np.full(count, -2, np.int64), -held.holds[which]))
        order = np.lexsort((falls, moments, node))
        self.node, self.at = node[order], moments[order]
        self.first = order < count
        self.source = np.concatenate((np.full(count, -1, np.int64), which))[order]
        self.index()
        self.cpu = self.running(np.concatenate((nodes.cpu[now], held.cpu[which]))[order])
        self.memory = self.running(np.concatenate((nodes.memory[now], held.memory[which]))[order])
        self.idle = self.running(np.concatenate((nodes.idle[now], held.idle[which]))[order])
        holds = self.running(np.concatenate((nodes.holds[now], -held.holds[which]))[order])
        if lasting:
            self.cpu, self.memory, self.idle = map(self._lasting, (self.cpu, self.memory, self.idle))
            holds = -self._lasting(-holds)
        self.idle *= nodes.good[self.node]
        self.whole_devices = (self.idle == DEVICE_MILLI).sum(axis=1)
        self.is_empty = (holds == 0) & nodes.is_sound[self.node]
        self.counted: dict[TaskShape, Ints] = {}

    def replaced(self, other: "Rows") -> "Rows":
        """Return these rows, with the rows of the other's nodes replaced."""
        kept = np.ones(len(self.nodes), dtype=bool)
        kept[other.places] = False
        rows = kept[self.node]
        both = copy(self)
        both.node = np.concatenate((self.node[rows], other.node))
        both.at = np.concatenate((self.at[rows], other.at))
        both.first = np.concatenate((self.first[rows], other.first))
        both.source = np.concatenate((self.source[rows], other.source))
        both.cpu = np.concatenate((self.cpu[rows], other.cpu))
        both.memory = np.concatenate((self.memory[rows], other.memory))
        both.idle = np.concatenate((self.idle[rows], other.idle))
        both.whole_devices = np.concatenate((self.whole_devices[rows], other.whole_devices))
        both.is_empty = np.concatenate((self.is_empty[rows], other.is_empty))
        both.index()
        both.counted = {}
        return both

    def index(self) -> None:
        """Find the first row of each node."""
        self.begins = np.flatnonzero(self.first)
        self.lengths = np.diff(np.append(self.begins, len(self.node)))
        self.places = self.node[self.begins]
        self.now = np.zeros(len(self.nodes), np.int64)
        self.now[self.places] = self.begins

    def then(self, at: int) -> Ints:
        """Return by node (place) the row that is valid at a time; `now` has the rows at the start."""
        rows = np.zeros(len(self.nodes), np.int64)
        passed = np.add.reduceat((self.at <= at).astype(np.int64), self.begins)
        rows[self.places] = self.begins + passed - 1
        return rows

    def _lasting(self, amounts: Ints) -> Ints:
        """Return for each row the minimum of its node's amounts from there on."""
        width = int(self.lengths.max(initial=0))
        spread = np.full((len(self.begins), width, *amounts.shape[1:]), NEVER)
        within = np.arange(len(self.node)) - np.repeat(self.begins, self.lengths)
        at = np.repeat(np.arange(len(self.begins)), self.lengths), within
        spread[at] = amounts
        least: Ints = np.minimum.accumulate(spread[:, ::-1], axis=1)[:, ::-1]
        return least[at]

    def running(self, steps: NDArray[Number]) -> NDArray[Number]:
        """Return the sums over each node's rows from its first one on."""
        total = np.cumsum(steps, axis=0, dtype=steps.dtype)
        total -= np.repeat(total[self.begins] - steps[self.begins], self.lengths, axis=0)
        return total

    def room(self, shape: TaskShape) -> Ints:
        """Return per row how many replicas fit on the node, as `state.count`."""
        known = self.counted.get(shape)
        if known is None:
            if len(self.counted) >= REQUEST_CLASSES_MAX:
                self.counted.clear()
            known = self.counted[shape] = self._count(shape)
        return known

    def _count(self, shape: TaskShape) -> Ints:
        nodes = self.nodes
        allowed = np.array([is_allowed(model, shape) for model in nodes.models], dtype=bool)[nodes.model][self.node]
        if shape.full_node:
            enough = nodes.devices >= max(shape.gpus, 1 if shape.gpu_milli else 0)
            fits = self.is_empty & enough[self.node] & allowed
            fits &= (self.cpu >= shape.cpu_milli) & (self.memory >= shape.memory_mib)
            if shape.within_required:
                fits &= ((nodes.within(shape.within).max(axis=1, initial=0) == 1) | (nodes.devices == 0))[self.node]
            return np.asarray(fits, np.int64)
        room = np.full(len(self.node), UNBOUNDED_COUNT, np.int64)
        if shape.cpu_milli:
            np.minimum(room, self.cpu // shape.cpu_milli, out=room)
        if shape.memory_mib:
            np.minimum(room, self.memory // shape.memory_mib, out=room)
        if shape.gpus and shape.within_required:
            np.minimum(room, self._whole_within(shape), out=room)
        elif shape.gpus:
            np.minimum(room, self.whole_devices // shape.gpus, out=room)
        elif shape.gpu_milli:
            np.minimum(room, self._shares(shape.gpu_milli), out=room)
        if shape.gpu_milli and shape.within_required:
            room *= (nodes.within(shape.within).max(axis=1, initial=0) > 0)[self.node]
        something = (self.cpu > 0) | (self.memory > 0) | (self.idle > 0).any(axis=1)
        np.maximum(room, 0, out=room)
        room *= something & allowed
        return room

    def _shares(self, gpu_milli: int) -> Ints:
        """Return the shares of this size that fit, each rounded up as its node serves it."""
        nodes = self.nodes
        taken = np.array([share_of(gpu_milli, sizes) or NO_SIZE for sizes in nodes.sizes], np.int64)
        if len(taken) == 1:
            return np.asarray((self.idle // taken[0]).sum(axis=1), np.int64)
        return np.asarray((self.idle // taken[nodes.size][self.node][:, None]).sum(axis=1), np.int64)

    def _whole_within(self, shape: TaskShape) -> Ints:
        """Return the sets of idle devices, each within one domain inside the node."""
        domains, is_whole = self.nodes.within(shape.within)[self.node], self.idle == DEVICE_MILLI
        sets = np.zeros(len(self.node), np.int64)
        for number in range(1, int(domains.max(initial=0)) + 1):
            sets += (is_whole & (domains == number)).sum(axis=1) // shape.gpus
        return sets


def is_allowed(model: str, shape: TaskShape) -> bool:
    """Return whether the request may run on devices of this model."""
    return (not shape.gpu_models or model in shape.gpu_models) and model not in shape.models_excluded


def _is_sound(node: Node) -> bool:
    """Return whether the whole node may be taken."""
    return not node.broken and not node.shape.parts_only
