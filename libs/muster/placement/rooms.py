"""How often each request that waits would fit, kept up to date by what changed: so nobody has to be tried in vain.

For every watched gang and group the number of replicas that fit is known exactly, in the whole fleet or per domain of
the level that the gang or the group requires (see `tables`). The work grows with what changed, not with the fleet nor
with the number of jobs.

Room for the least of every group is necessary for a gang to fit, and sufficient if it has one group. So a gang without
room needs no trial, and is never overlooked: the sums say what is, not what was announced.
"""

from collections.abc import Iterable

from muster.placement.counts import Ask
from muster.placement.ledger import Ledger
from muster.placement.shapes import NODE_LEVEL, GangRequest
from muster.placement.state import StateKey
from muster.placement.tables import Need, Table
from muster.placement.topology import Topology
from muster.placement.wishes import Plan, plans


class Watch:
    """One gang that is watched. ways: each is what one way to place it needs, all of it together."""

    __slots__ = ("gang", "ways")

    def __init__(self, gang: GangRequest) -> None:
        self.gang = gang
        self.ways: tuple[tuple[Need, ...], ...] = ()

    def has_room(self) -> bool:
        """Whether there is what one of the ways needs."""
        return any(way[0].is_met() and (len(way) == 1 or all(need.is_met() for need in way)) for way in self.ways)


class Rooms:
    """Room for all gangs that are watched. Nothing is recorded while none is."""

    def __init__(self, ledger: Ledger, topology: Topology) -> None:
        self._ledger = ledger
        self._topology = topology
        self._tables: dict[str, Table] = {}
        self._watches: dict[Watch, None] = {}
        self._is_stale = False
        self._words: tuple[frozenset[str], tuple[str, ...]] = (frozenset(), ())

    def watch(self, gang: GangRequest) -> Watch:
        """Follow the room for a gang from now on."""
        if self._ledger.moved is None:
            self._ledger.moved = {}
            self.restart()
            self._words = self._topology.device_levels, self._ledger.models()
        watch = Watch(gang)
        watch.ways = self._ways(gang)
        self._watches[watch] = None
        return watch

    def unwatch(self, watch: Watch) -> None:
        """Follow it no more."""
        del self._watches[watch]
        self._drop(watch)
        if not self._watches:
            self._ledger.moved = None
            self._tables.clear()

    def renew(self) -> None:
        """Nodes came or went: look again at what the wishes of all gangs mean, if the words for it have changed."""
        words = self._topology.device_levels, self._ledger.models()
        if self._ledger.moved is None or words == self._words:
            return
        self._words = words
        for watch in self._watches:
            self._drop(watch)
            watch.ways = self._ways(watch.gang)

    def hopeful(self, among: Iterable[Watch] | None = None) -> list[Watch]:
        """Those of these gangs (None: of all watched, in the order in which they came) that have room."""
        self._catch_up()
        return [watch for watch in (self._watches if among is None else among) if watch.has_room()]

    def has_room(self, watch: Watch) -> bool:
        """Whether this gang has room now."""
        self._catch_up()
        return watch.has_room()

    def restart(self) -> None:
        """Count everything afresh when it is next needed: what nodes there are, or where they stand, has changed."""
        self._is_stale = True

    def _ways(self, gang: GangRequest) -> tuple[tuple[Need, ...], ...]:
        levels, models = self._words
        return tuple([self._needs(plan) for plan in plans(gang, levels, models)])

    def _needs(self, plan: Plan) -> tuple[Need, ...]:
        """Room for the least of all groups in one domain of what the gang requires, and of each in its own."""
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
                # Groups that share a level may still stand in different domains of it.
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
        """Row of a domain, state, and how many of its usable nodes are in it."""
        if not table.level:
            return [(0, state.key, len(state.names)) for state in self._ledger.live]
        return [
            (table.row(domain.path), state.key, nodes)
            for domain in self._topology.domains(table.level)
            for state, nodes in domain.items()
        ]
