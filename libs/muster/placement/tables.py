"""Sums that follow the fleet: how many replicas of each request fit in each domain of a level.

A change moves nodes from one state to another; per change the sums are corrected for all requests at once, as one
small matrix (changed states x requests).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muster.placement.counts import Ask, Asks, Counts, States
from muster.placement.state import StateKey
from muster.placement.topology import Path

DEAD_COLUMNS_MAX = 256
"""Requests nobody waits with any more that are still counted, per level; beyond it the table is made anew."""


class Column:
    """One request of a table: its place there, and how many groups are counted by it."""

    __slots__ = ("ask", "at", "users")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.at = -1
        self.users = 0


class Need(NamedTuple):
    """Room that is needed: in one domain of a table, for each of these columns so much."""

    table: "Table"
    columns: tuple["Column", ...]
    amounts: tuple[int, ...]

    def is_met(self) -> bool:
        """Whether one domain has it."""
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

    def begin(self, nodes: Sequence[tuple[int, StateKey, int]]) -> None:
        """Count the requests that are new, over all usable nodes: row, state, and how many there are of both."""
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
