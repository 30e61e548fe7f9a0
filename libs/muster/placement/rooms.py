"""How often each waiting request would fit, updated by changes, so that no gang is tried in vain.

For every watched gang and group the number of replicas that fit is known exactly, in the whole fleet or per domain of
the level that the gang or the group requires. The work grows with the changes, not with the fleet or the number of
jobs.

Room for the minimum of every group is necessary for a gang to fit, and sufficient if it has one group. So a gang
without room needs no trial, and is never overlooked, because the sums are exact.

Tables follow the fleet with the room of each request in each domain of a level. A change moves nodes from one state to
another; it corrects the sums of all requests at once, by one small matrix (changed states x requests).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from muster.placement.counts import Ask, Asks, Counts, States
from muster.placement.ledger import Ledger
from muster.placement.plans import Plan, plans
from muster.placement.shapes import NODE_LEVEL, GangRequest
from muster.placement.state import StateKey
from muster.placement.topology import Path, Topology

DEAD_COLUMNS_MAX = 256
"""Requests without a waiting gang that are still counted, per level; beyond it the table is rebuilt."""


class Column:
    """One request of a table: its column there, and the number of groups that use it."""

    __slots__ = ("ask", "at", "users")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.at = -1
        self.users = 0


class Need(NamedTuple):
    """Room needed in one domain of a table: an amount for each of these columns."""

    table: "Table"
    columns: tuple["Column", ...]
    amounts: tuple[int, ...]

    def is_met(self) -> bool:
        """Return whether one domain has the room."""
        if len(self.columns) == 1:
            return self.table.best[self.columns[0].at] >= self.amounts[0]
        room = self.table.room[:, [column.at for column in self.columns]]
        return bool((room >= np.array(self.amounts)).all(axis=1).any())


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
        """Return the column of this request."""
        column = self.columns.get(ask)
        if column is None:
            column = self.columns[ask] = Column(ask)
            self.new.append(column)
        elif not column.users:
            self._dead -= 1
        column.users += 1
        return column

    def drop(self, column: Column) -> bool:
        """Remove one user of a column, and return whether enough columns are unused to rebuild the table."""
        column.users -= 1
        self._dead += not column.users
        return self._dead > DEAD_COLUMNS_MAX

    def restart(self) -> None:
        """Count everything again, and drop unused requests."""
        self.columns = {ask: column for ask, column in self.columns.items() if column.users}
        self.new = list(self.columns.values())
        self._standing, self._dead, self.asks, self.rows = [], 0, Asks(()), {}
        self.room = np.zeros((1, 0), dtype=np.int64)

    def correct(self, moves: Sequence[tuple[int, StateKey | None, StateKey | None]]) -> None:
        """Apply that nodes of these rows changed from one state to another (None: unusable)."""
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

    def begin(self, nodes: Sequence[tuple[int, StateKey, int]]) -> None:
        """Count new requests over all usable nodes, given as row, state, and number of nodes."""
        fresh = Asks([column.ask for column in self.new])
        places: dict[StateKey, int] = {}
        for _, key, _ in nodes:
            places.setdefault(key, len(places))
        added = np.zeros((len(self.room), len(self.new)), dtype=np.int64)
        if nodes:
            weights = np.zeros((len(self.room), len(places)), dtype=np.int64)
            where = [row for row, _, _ in nodes], [places[key] for _, key, _ in nodes]
            np.add.at(weights, where, [number for _, _, number in nodes])
            added = weights @ fresh.counts(States(list(places)))
        for at, column in enumerate(self.new, start=len(self._standing)):
            column.at = at
        self._standing += self.new
        self.new = []
        self.room = np.hstack((self.room, added))
        self.asks = Asks([column.ask for column in self._standing])

    def row(self, path: Path) -> int:
        """Return the row of a domain, created if new; -1 for a node without a domain of this level."""
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


class Watch:
    """One watched gang. Each of its `ways` has the needs of one plan, all of which must be met."""

    __slots__ = ("gang", "ways")

    def __init__(self, gang: GangRequest) -> None:
        self.gang = gang
        self.ways: tuple[tuple[Need, ...], ...] = ()

    def has_room(self) -> bool:
        """Return whether the needs of one plan are met."""
        return any(way[0].is_met() and (len(way) == 1 or all(need.is_met() for need in way)) for way in self.ways)


class Rooms:
    """Room for all watched gangs. Nothing is recorded while there are none."""

    def __init__(self, ledger: Ledger, topology: Topology) -> None:
        self._ledger = ledger
        self._topology = topology
        self._tables: dict[str, Table] = {}
        self._watches: dict[Watch, None] = {}
        self._is_stale = False
        self._words: tuple[frozenset[str], tuple[str, ...]] = (frozenset(), ())

    def watch(self, gang: GangRequest) -> Watch:
        """Count the room for a gang from now on."""
        if self._ledger.moved is None:
            self._ledger.moved = {}
            self.restart()
            self._words = self._topology.device_levels, self._ledger.models()
        watch = Watch(gang)
        watch.ways = self._ways(gang)
        self._watches[watch] = None
        return watch

    def unwatch(self, watch: Watch) -> None:
        """Stop counting the room for a gang."""
        del self._watches[watch]
        self._drop(watch)
        if not self._watches:
            self._ledger.moved = None
            self._tables.clear()

    def renew(self) -> None:
        """Update the plans of all gangs after nodes joined or left, if the device levels or models changed."""
        words = self._topology.device_levels, self._ledger.models()
        if self._ledger.moved is None or words == self._words:
            return
        self._words = words
        for watch in self._watches:
            self._drop(watch)
            watch.ways = self._ways(watch.gang)

    def hopeful(self, among: Iterable[Watch] | None = None) -> list[Watch]:
        """Return those of these gangs (None: all watched, in the order of `watch`) that have room."""
        self._catch_up()
        return [watch for watch in (self._watches if among is None else among) if watch.has_room()]

    def has_room(self, watch: Watch) -> bool:
        """Return whether this gang has room now."""
        self._catch_up()
        return watch.has_room()

    def restart(self) -> None:
        """Count everything again at the next use, because the nodes or their domains changed."""
        self._is_stale = True

    def _ways(self, gang: GangRequest) -> tuple[tuple[Need, ...], ...]:
        levels, models = self._words
        return tuple([self._needs(plan) for plan in plans(gang, levels, models)])

    def _needs(self, plan: Plan) -> tuple[Need, ...]:
        """Return the room for the minimum of all groups in one required domain, and of each group in its own."""
        together = plan.wish.level if plan.wish is not None and plan.wish.required else ""
        asks: dict[str, list[tuple[Ask, int]]] = {"" if together == NODE_LEVEL else together: []}
        common = next(iter(asks.values()))
        for group in plan.groups:
            own = group.wish.level if group.wish is not None and group.wish.required else ""
            is_at_once = NODE_LEVEL in (own, together)
            ask, amount = (Ask(group.shape, group.replicas), 1) if is_at_once else (Ask(group.shape, 0), group.replicas)
            common.append((ask, amount))
            if own and own not in (NODE_LEVEL, together):
                asks.setdefault(own, []).append((ask, amount))
        needs = []
        for level, wanted in asks.items():
            table = self._tables.get(level)
            if table is None:
                table = self._tables[level] = Table(level)
            columns = [(table.column(ask), amount) for ask, amount in wanted]
            if level in ("", together):
                needs.append(Need(table, tuple(c for c, _ in columns), tuple(amount for _, amount in columns)))
            else:
                # Groups with the same level may still be in different domains of it.
                needs += [Need(table, (column,), (amount,)) for column, amount in columns]
        return tuple(needs)

    def _drop(self, watch: Watch) -> None:
        for way in watch.ways:
            for need in way:
                for column in need.columns:
                    self._is_stale |= need.table.drop(column)

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
                table.begin(self._nodes(table))
            table.best = table.room.max(axis=0).tolist()

    def _nodes(self, table: Table) -> list[tuple[int, StateKey, int]]:
        """Return row of a domain, state, and the number of its usable nodes in the state."""
        if not table.level:
            return [(0, state.key, len(state.names)) for state in self._ledger.live]
        return [
            (table.row(domain.path), state.key, nodes)
            for domain in self._topology.domains(table.level)
            for state, nodes in domain.items()
        ]
