"""How often each request that waits would fit, kept up to date by what changed: so nobody has to be tried in vain.

For every watched gang and group the number of replicas that fit is known exactly, in the whole fleet or per domain of
the level that the gang requires. A change moves nodes from one state to another; per change the sums are corrected for
all requests at once, as one small matrix (changed states x requests). The work grows with what changed, not with the
fleet nor with the number of jobs.

Room for every group is necessary for a gang to fit, and sufficient if it has one group. So a gang without room needs
no trial, and is never overlooked: the sums say what is, not what was announced.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster.placement.ledger import Ledger
from muster.placement.shapes import DEVICE_MILLI, NODE_LEVEL, GangRequest, TaskShape
from muster.placement.state import UNBOUNDED_COUNT, StateKey
from muster.placement.topology import Path, Topology

DEAD_COLUMNS_MAX = 256
"""Requests nobody waits with any more that are still counted, per level; beyond it the table is made anew."""

Counts = NDArray[np.int64]


class Ask(NamedTuple):
    """What is counted. together: 0 counts replicas; otherwise the nodes that have room for so many at once."""

    shape: TaskShape
    together: int


class States:
    """States as arrays. Each amount is a column; something: 0 where nothing at all is left."""

    def __init__(self, keys: Sequence[StateKey]) -> None:
        self.keys = keys
        amounts = np.array([(key.cpu_milli, key.memory_mib, key.idle_milli) for key in keys], dtype=np.int64)
        self.cpu, self.memory, self.idle = amounts[:, 0:1], amounts[:, 1:2], amounts[:, 2:3]
        self.something = (amounts.max(axis=1, keepdims=True) > 0).astype(np.int64)
        self.whole_devices = np.array([[key.shares.count(DEVICE_MILLI)] for key in keys], dtype=np.int64)
        self.devices_if_whole = np.array([[len(key.shares) if key.whole else -1] for key in keys], dtype=np.int64)
        places: dict[str, int] = {}
        self.model = np.array([places.setdefault(key.model, len(places)) for key in keys], dtype=np.int64)
        self.models = tuple(places)


class Asks:
    """Requests as arrays, to count all of them on many states at once; `counts` is `state.count` for each pair."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        shapes = [ask.shape for ask in asks]
        self._shapes = shapes
        self._cpu = np.array([shape.cpu_milli for shape in shapes], dtype=np.int64)
        self._memory = np.array([shape.memory_mib for shape in shapes], dtype=np.int64)
        self._gpus = np.array([shape.gpus for shape in shapes], dtype=np.int64)
        self._millis = sorted({shape.gpu_milli for shape in shapes if shape.gpu_milli})
        places = {milli: place for place, milli in enumerate(self._millis, start=1)}
        self._share = np.array([places.get(shape.gpu_milli, 0) for shape in shapes], dtype=np.int64)
        self._full = np.array([shape.full_node for shape in shapes], dtype=bool)
        least = [max(shape.gpus, 1 if shape.gpu_milli else 0) for shape in shapes]
        self._least_devices = np.array(least, dtype=np.int64)
        self._together = np.array([ask.together for ask in asks], dtype=np.int64)
        self._any_full, self._any_together = bool(self._full.any()), bool(self._together.any())
        self._models: dict[str, NDArray[np.bool_]] = {}

    def counts(self, states: "States") -> Counts:
        """Shape (states, requests): replicas of each request that fit on one node in each state."""
        room = np.minimum(_times(states.cpu, self._cpu), _times(states.memory, self._memory))
        np.minimum(room, _times(states.whole_devices, self._gpus), out=room)
        if self._millis:
            room = np.minimum(room, self._shares(states.keys)[:, self._share])
        room *= states.something
        if self._any_full:
            is_fit = (states.cpu >= self._cpu) & (states.memory >= self._memory)
            is_fit &= states.devices_if_whole >= self._least_devices
            room = np.where(self._full, is_fit, room)
        room *= np.stack([self._allowed(model) for model in states.models])[states.model]
        if self._any_together:
            room = np.where(self._together, room >= self._together, room)
        return room

    def _shares(self, keys: Sequence[StateKey]) -> Counts:
        """Per state and size of share how many fit; the first column is for requests without one."""
        rows = [[UNBOUNDED_COUNT, *(sum(s // milli for s in key.shares) for milli in self._millis)] for key in keys]
        return np.array(rows, dtype=np.int64)

    def _allowed(self, model: str) -> NDArray[np.bool_]:
        allowed = self._models.get(model)
        if allowed is None:
            allowed = np.array([not s.gpu_models or model in s.gpu_models for s in self._shapes], dtype=bool)
            self._models[model] = allowed
        return allowed


def _times(offered: Counts, asked: Counts) -> Counts:
    """How many times the second fits in the first; unbounded where nothing is asked."""
    return np.where(asked, offered // np.maximum(asked, 1), UNBOUNDED_COUNT)


class Watch:
    """One gang that is watched. columns and needs: per group where its room stands and how much it must be."""

    __slots__ = ("columns", "gang", "needs", "table")

    def __init__(
        self, gang: GangRequest, table: "Table", columns: tuple["Column", ...], needs: tuple[int, ...]
    ) -> None:
        self.gang = gang
        self.table = table
        self.columns = columns
        self.needs = needs


class Column:
    """One request of a table: its place there, and how many groups are counted by it."""

    __slots__ = ("ask", "at", "users")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.at = -1
        self.users = 0


class Table:
    """Room per domain of one level ("": the whole fleet is one domain) and request."""

    def __init__(self, level: str) -> None:
        self.level = level
        self.columns: dict[Ask, Column] = {}
        self.new: list[Column] = []
        self.asks = Asks(())
        self.rows: dict[Path, int] = {}
        self.room: Counts = np.zeros((1, 0), dtype=np.int64)
        self.best: list[int] = []
        self._standing: list[Column] = []
        self._dead = 0

    def column(self, ask: Ask) -> Column:
        """Where this request is counted."""
        column = self.columns.get(ask)
        if column is None:
            column = self.columns[ask] = Column(ask)
            self.new.append(column)
        elif not column.users:
            self._dead -= 1
        column.users += 1
        return column

    def drop(self, column: Column) -> bool:
        """One group fewer. Returns whether so many are not needed any more that the table should be made anew."""
        column.users -= 1
        self._dead += not column.users
        return self._dead > DEAD_COLUMNS_MAX

    def restart(self) -> None:
        """Count everything afresh; requests nobody waits with are forgotten."""
        self.columns = {ask: column for ask, column in self.columns.items() if column.users}
        self.new = list(self.columns.values())
        self._standing, self._dead, self.asks, self.rows = [], 0, Asks(()), {}
        self.room = np.zeros((1, 0), dtype=np.int64)

    def correct(self, moves: Sequence[tuple[int, StateKey | None, StateKey | None]]) -> None:
        """Nodes of these rows went from one state to another (None: not to be used)."""
        if not self._standing or not moves:
            return
        places: dict[StateKey, int] = {}
        for _, before, after in moves:
            for key in (before, after):
                if key is not None:
                    places.setdefault(key, len(places))
        if not places:
            return
        counts = self.asks.counts(States(list(places)))
        for row, before, after in moves:
            if before is not None:
                self.room[row] -= counts[places[before]]
            if after is not None:
                self.room[row] += counts[places[after]]

    def begin(self, nodes: Iterable[tuple[int, StateKey]]) -> None:
        """Count the requests that are new, over all usable nodes (their rows and states)."""
        fresh = Asks([column.ask for column in self.new])
        pairs = list(nodes)
        places: dict[StateKey, int] = {}
        for _, key in pairs:
            places.setdefault(key, len(places))
        added = np.zeros((len(self.room), len(self.new)), dtype=np.int64)
        if pairs:
            weights = np.zeros((len(self.room), len(places)), dtype=np.int64)
            np.add.at(weights, ([row for row, _ in pairs], [places[key] for _, key in pairs]), 1)
            added = weights @ fresh.counts(States(list(places)))
        for at, column in enumerate(self.new, start=len(self._standing)):
            column.at = at
        self._standing += self.new
        self.new = []
        self.room = np.hstack((self.room, added))
        self.asks = Asks([column.ask for column in self._standing])

    def row(self, path: Path) -> int:
        """The row of a domain, made if it is new; -1 for a node without a domain of this level."""
        if not self.level:
            return 0
        depth = next((at for at, (level, _) in enumerate(path) if level == self.level), -1)
        if depth < 0:
            return -1
        domain = path[: depth + 1]
        row = self.rows.get(domain)
        if row is None:
            row = self.rows[domain] = len(self.rows)
            if row >= len(self.room):
                self.room = np.vstack((self.room, np.zeros_like(self.room)))
        return row

    def has_room(self, watch: Watch) -> bool:
        """Whether one domain has room for every group."""
        if len(watch.columns) == 1:
            return self.best[watch.columns[0].at] >= watch.needs[0]
        room = self.room[:, [column.at for column in watch.columns]]
        return bool((room >= np.array(watch.needs)).all(axis=1).any())


class Rooms:
    """Room for all gangs that are watched. Nothing is recorded while none is."""

    def __init__(self, ledger: Ledger, topology: Topology) -> None:
        self._ledger = ledger
        self._topology = topology
        self._tables: dict[str, Table] = {}
        self._watches: dict[Watch, None] = {}
        self._is_stale = False

    def watch(self, gang: GangRequest) -> Watch:
        """Follow the room for a gang from now on."""
        wish = gang.topology
        required = wish.level if wish is not None and wish.required else ""
        at_once = required == NODE_LEVEL
        level = "" if at_once else required
        table = self._tables.get(level)
        if table is None:
            table = self._tables[level] = Table(level)
        asks = [Ask(group.shape, group.replicas if at_once else 0) for group in gang.groups]
        needs = tuple(1 if at_once else group.replicas for group in gang.groups)
        watch = Watch(gang, table, tuple(table.column(ask) for ask in asks), needs)
        self._watches[watch] = None
        if self._ledger.moved is None:
            self._ledger.moved = {}
            self.restart()
        return watch

    def unwatch(self, watch: Watch) -> None:
        """Follow it no more."""
        del self._watches[watch]
        for column in watch.columns:
            self._is_stale |= watch.table.drop(column)
        if not self._watches:
            self._ledger.moved = None
            self._tables.clear()

    def hopeful(self, among: Iterable[Watch] | None = None) -> list[Watch]:
        """Those of these gangs (None: of all watched, in the order in which they came) that have room."""
        self._catch_up()
        return [watch for watch in (self._watches if among is None else among) if watch.table.has_room(watch)]

    def has_room(self, watch: Watch) -> bool:
        """Whether this gang has room now."""
        self._catch_up()
        return watch.table.has_room(watch)

    def restart(self) -> None:
        """Count everything afresh when it is next needed: what nodes there are, or where they stand, has changed."""
        self._is_stale = True

    def _catch_up(self) -> None:
        moved = self._ledger.moved
        if moved is None:
            return
        if self._is_stale:
            for table in self._tables.values():
                table.restart()
            moved.clear()
            self._is_stale = False
        moves = []
        for name, before in moved.items():
            state = self._ledger.nodes[name].state
            after = None if state is None else state.key
            if after != before:
                moves.append((self._topology.path(name), before, after))
        moved.clear()
        for table in self._tables.values():
            if not moves and not table.new:
                continue
            rows = [(table.row(path), before, after) for path, before, after in moves]
            table.correct([move for move in rows if move[0] >= 0])
            if table.new:
                placed = [
                    (table.row(self._topology.path(name)), state.key)
                    for state in self._ledger.live
                    for name in state.names
                ]
                table.begin([pair for pair in placed if pair[0] >= 0])
            table.best = table.room.max(axis=0).tolist()
