"""Which nodes to clear for a whole gang: within the cheapest suitable domain, one group after the other.

For one task group: the cheapest nodes whose holds have to go so that enough further replicas fit. Nodes are taken by
least cost per additional replica, from a lazy heap: estimates from one pass over all nodes as arrays, made exact on the
fleet's ledger only for nodes at the top. A victim with holds on several nodes frees all of them, and these nodes are
estimated again. Whenever a node would give all that is lacking, that is one candidate; the search continues without it
among the nodes that give less, because a cheap small step may be followed by a cheaper end (the rule of Gens and
Levner, which keeps covering knapsacks within twice the optimum).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster.placement.moments import Calendar, Moment, Wanted, required_level, wanted
from muster.placement.shapes import DEVICE_MILLI, GangRequest, GroupRequest, TaskShape
from muster.placement.timeline import NEVER, Flags, Held, Ints, Nodes, Rows
from muster.placement.trial import Trial, Victim

STEPS_AFTER_ANSWER_MAX = 64
"""Nodes that are still examined after the first answer."""


class Market:
    """All victims of one search as arrays, in the order of preference."""

    def __init__(self, victims: Sequence[Victim], nodes: Nodes) -> None:
        self.victims = victims
        self.nodes = nodes
        self.held = held = Held(nodes, [victim.holds for victim in victims])
        self.cost = np.fromiter((victim.cost for victim in victims), np.float64, len(victims))
        # One milli-GPU more than held, so that holds without a GPU have their part of the cost too.
        size = (held.gpu_milli + 1).astype(np.float64)
        total = np.bincount(held.owner, weights=size, minlength=len(victims))
        self.cost_by_hold = (self.cost / np.maximum(total, 1))[held.owner] * size
        by_weight = np.argsort(self.cost / np.maximum(total, 1), kind="stable")
        self.rank = np.empty(len(victims), np.int64)
        self.rank[by_weight] = np.arange(1, len(victims) + 1)

    def rows(self, able: Flags, nodes: Nodes, among: Flags | None) -> Rows:
        """Return the rows of nodes as their able victims leave, the cheapest per GPU first."""
        return Rows(nodes, self.held, np.where(able, self.rank, NEVER), start=0, among=among)


class Estimate(NamedTuple):
    """Per node: replicas that fit now, the least cost per additional replica, and the replicas that it is for."""

    room: Ints
    ratio: NDArray[np.float64]
    gain: Ints


def estimate(market: Market, rows: Rows, shape: TaskShape, lacking: int) -> Estimate:
    """Return estimates if each node's victims left in turn; a victim's cost is spread over all that it holds."""
    cost = np.where(rows.source < 0, 0.0, market.cost_by_hold[rows.source] if len(market.cost_by_hold) else 0.0)
    room = rows.room(shape)
    before = room[rows.begins]
    gain = np.minimum(room - np.repeat(before, rows.lengths), lacking)
    ratio = np.where(gain > 0, rows.running(cost) / np.maximum(gain, 1), np.inf)
    if not len(rows.begins):
        return Estimate(before, ratio, gain)
    return Estimate(before, np.minimum.reduceat(ratio, rows.begins), np.maximum.reduceat(gain, rows.begins))


@dataclass(frozen=True, slots=True)
class _Step:
    """Victims whose removal gives `gain` replicas, computed for this `lacking` and the node's `stamp`."""

    victims: tuple[Victim, ...]
    cost: float
    gain: int
    stamp: int
    lacking: int


class Cheapest:
    """The search for one shape on some nodes. `may_take` is called just before a victim is counted on."""

    def __init__(
        self, trial: Trial, shape: TaskShape, market: Market, rows: Rows, *, may_take: Callable[[str], bool]
    ) -> None:
        self._trial = trial
        self._shape = shape
        self._market = market
        self._rows = rows
        self._may_take = may_take
        names = market.nodes.names
        is_all = len(rows.places) == len(names)
        self._at = market.nodes.places if is_all else {names[at]: i for i, at in enumerate(rows.places.tolist())}
        self._stamps: dict[str, int] = {}
        self._steps: dict[str, _Step] = {}
        self._gains: dict[tuple[str, ...], tuple[set[str], int, int]] = {}

    def choose(self, lacking: int) -> list[Victim] | None:
        """Return victims whose removal makes room for `lacking` more replicas, or None. The trial is unchanged."""
        ratios = estimate(self._market, self._rows, self._shape, lacking).ratio
        names, places = self._market.nodes.names, self._rows.places
        able = np.flatnonzero(np.isfinite(ratios))
        heap = [
            (ratio, names[place]) for ratio, place in zip(ratios[able].tolist(), places[able].tolist(), strict=True)
        ]
        heapify(heap)
        chosen: list[Victim] = []
        best: list[Victim] | None = None
        best_cost, cost, left = float("inf"), 0.0, STEPS_AFTER_ANSWER_MAX
        while heap and left and cost + heap[0][0] * lacking < best_cost:
            _, name = heappop(heap)
            left -= best is not None
            step = self._steps.get(name)
            if step is None or step.stamp != self._stamps.get(name, 0) or step.gain > lacking != step.lacking:
                self._push(heap, name, lacking)
            elif step.gain >= lacking:
                if cost + step.cost < best_cost:
                    best, best_cost = [*chosen, *step.victims], cost + step.cost
            elif self._commit(step.victims):
                chosen += step.victims
                cost += step.cost
                lacking -= step.gain
                self._push(heap, name, lacking)
        for victim in reversed(chosen):
            self._trial.put_back(victim)
        return best

    def _push(self, heap: list[tuple[float, str]], name: str, lacking: int) -> None:
        """Compute a node's step again, and add it to the heap if it gives anything."""
        step = self._steps[name] = self._look(name, lacking)
        if step.gain > 0:
            heappush(heap, (step.cost / min(step.gain, lacking), name))

    def _commit(self, victims: Sequence[Victim]) -> bool:
        """Take the victims one after the other, if each may still be taken; all or none."""
        for at, victim in enumerate(victims):
            if not self._may_take(victim.key):
                for taken in reversed(victims[:at]):
                    self._trial.put_back(taken)
                return False
            self._trial.take(victim)
        for victim in victims:
            for hold in victim.holds:
                self._stamps[hold.slot.node] = self._stamps.get(hold.slot.node, 0) + 1
        return True

    def _look(self, name: str, lacking: int) -> _Step:
        """Return the step of least cost per replica from clearing (a part of) this node."""
        trial, shape = self._trial, self._shape
        before = room = trial.room(name, shape)
        out: list[Victim] = []
        best, best_ratio, spent = 0, float("inf"), 0.0
        for victim in self._on(name):
            if victim.key in trial.taken or not self._may_take(victim.key):
                continue
            trial.lift(victim, name)
            out.append(victim)
            spent += victim.cost
            now = trial.room(name, shape)
            if now > room:
                room = now
                ratio = spent / min(room - before, lacking)
                if ratio < best_ratio:
                    best, best_ratio = len(out), ratio
                if room - before >= lacking:
                    break
        while len(out) > best:
            trial.drop(out.pop())
        kept = self._prune(name, out)
        gain = trial.room(name, shape) - before
        for victim in reversed(kept):
            trial.drop(victim)
        if any(hold.slot.node != name for victim in kept for hold in victim.holds):
            gain = self._gain(kept)
        return _Step(tuple(kept), sum(v.cost for v in kept), gain, self._stamps.get(name, 0), lacking)

    def _on(self, name: str) -> list[Victim]:
        """Return the victims on a node, the cheapest per GPU first."""
        rows, at = self._rows, self._at[name]
        begin = int(rows.begins[at])
        sources = rows.source[begin + 1 : begin + int(rows.lengths[at])]
        owners = dict.fromkeys(self._market.held.owner[sources].tolist())
        return [self._market.victims[owner] for owner in owners]

    def _prune(self, name: str, out: list[Victim]) -> list[Victim]:
        """Put back victims that the room on this node does not need, the most expensive first."""
        kept = list(out)
        if len(kept) < 2:
            return kept  # a single victim was lifted because the node has more room without it
        room = self._trial.room(name, self._shape)
        for victim in sorted(out, key=lambda v: (-v.cost, v.order, v.key)):
            self._trial.drop(victim)
            if self._trial.room(name, self._shape) < room:
                self._trial.lift(victim, name)
            else:
                kept.remove(victim)
        return kept

    def _gain(self, victims: Sequence[Victim]) -> int:
        """Return how many more replicas fit, on all nodes of the search, if these victims leave.

        Each node of a gang needs this for the same victims, and the result is valid until a victim is taken there.
        """
        key = tuple(sorted([victim.key for victim in victims]))
        names, known_at, gain = self._gains.get(key, (set[str](), -1, 0))
        if known_at < 0:
            names = {name for victim in victims for hold in victim.holds if (name := hold.slot.node) in self._at}
        stamp = sum([self._stamps.get(name, 0) for name in names])  # stamps only grow: an equal sum means no change
        if known_at == stamp:
            return gain
        before = sum([self._trial.room(name, self._shape) for name in names])
        for victim in victims:
            self._trial.lift(victim)
        gain = sum([self._trial.room(name, self._shape) for name in names]) - before
        for victim in reversed(victims):
            self._trial.drop(victim)
        self._gains[key] = names, stamp, gain
        return gain


DOMAINS_TRIED_MAX = 4
"""Domains whose clearing is computed for a gang that requires one domain: the most promising."""


class Clearance:
    """One reading of the fleet for one gang and all victims, in the order of preference."""

    def __init__(
        self, trial: Trial, gang: GangRequest, victims: Sequence[Victim], *, may_take: Callable[[str], bool]
    ) -> None:
        self._trial, self._fleet, self._gang, self._may_take = trial, trial.fleet, gang, may_take
        self._victims = victims
        self._nodes = self._fleet.table()
        self._market = Market(victims, self._nodes)
        self.groups = wanted(gang, self._nodes, trial.fleet.device_levels)
        together = [group for group in self.groups if not gang.same_model or group.shape.holds_devices]
        self._together = together or self.groups
        self._level = required_level(gang, self._nodes)
        self._domains: Ints = self._nodes.domains(self._level, same_model=gang.same_model)

    def order_for_room(self) -> tuple[int, ...] | None:
        """Return the lowest order so that removing all victims up to it makes room, by counting; None if none does."""
        orders = sorted({victim.order for victim in self._victims})
        place = {order: at for at, order in enumerate(orders, start=1)}
        at = np.fromiter((place[victim.order] for victim in self._victims), np.int64, len(self._victims))
        moments = self._moments(Rows(self._nodes, self._market.held, at, start=0))
        return orders[max(moments[0].at, 1) - 1] if moments else None

    def _moments(self, rows: Rows) -> list[Moment]:
        return Calendar(rows, self._domains).moments(self._together)

    def cheapest(self, able: Flags) -> tuple[list[Victim], list[str]] | None:
        """Return able victims whose removal makes room, and the nodes of the domain ([]: all), in the cheapest domain.

        The trial is unchanged; victims already taken in it count as gone.
        """
        best, least = None, float("inf")
        for guess, site in self._sites(able):
            if guess >= least:
                break
            chosen = self._clear(able, site)
            cost = sum(victim.cost for victim in chosen or ())
            if chosen is not None and cost < least:
                best, least = (chosen, [] if site.all() else self._names(site)), cost
        return best

    def _sites(self, able: Flags) -> list[tuple[float, Flags]]:
        """Return the estimated cost and the nodes of each domain that could take the gang, the cheapest first."""
        if not self._level and not self._gang.same_model:
            return [(0.0, np.ones(len(self._nodes), dtype=bool))]
        rows = self._market.rows(able, self._nodes, None)
        asked = self.groups[_largest_first(self._gang.groups)[0]]
        guesses = [(self._guess(rows, asked, moment.among), moment.among) for moment in self._moments(rows)]
        guesses.sort(key=lambda guess: guess[0])
        sites = []
        for guess, among in guesses[:DOMAINS_TRIED_MAX]:
            site = np.zeros(len(self._nodes), dtype=bool)
            site[among] = True
            sites.append((guess, site))
        return sites

    def _guess(self, rows: Rows, asked: Wanted, among: Ints) -> float:
        """Return the cost of clearing these nodes for a group, if each node's estimate is correct."""
        room, ratio, gain = estimate(self._market, rows, asked.shape, asked.replicas)
        lacking = asked.replicas - int(room[among].sum())
        order = among[np.argsort(ratio[among], kind="stable")]
        before = np.cumsum(gain[order]) - gain[order]
        used = np.clip(lacking - before, 0, gain[order])
        return float((ratio[order][used > 0] * used[used > 0]).sum())

    def _clear(self, able: Flags, site: Flags) -> list[Victim] | None:
        """Return victims whose removal makes room on these nodes, group by group, each placed before the next."""
        before, stand = set(self._trial.taken), []
        try:
            for index in _largest_first(self._gang.groups):
                asked = self.groups[index]
                inside = site if asked in self._together else np.ones(len(site), dtype=bool)
                more = self._clear_for(asked, able, inside)
                if more is None or not self._take_all(more):
                    return None
                if len(self.groups) > 1:
                    for hold in self._fleet.find(GangRequest((self._gang.groups[index],), self._gang.topology)) or ():
                        self._fleet.hold(hold)
                        stand.append(hold)
            return [victim for key, victim in self._trial.taken.items() if key not in before]
        finally:
            for hold in reversed(stand):
                self._fleet.withdraw(hold)
            for key in [key for key in reversed(self._trial.taken) if key not in before]:
                self._trial.put_back(self._trial.taken[key])

    def _clear_for(self, group: Wanted, able: Flags, site: Flags) -> list[Victim] | None:
        inside = self._nodes.names if site.all() else self._names(site)
        lacking = group.replicas - self._trial.room_on(inside, group.shape)
        if lacking <= 0:
            return []
        nodes = self._fleet.table() if self._trial.taken else self._nodes
        there = np.array([victim.key not in self._trial.taken for victim in self._victims])
        rows = self._market.rows(able & there, nodes, None if site.all() else site)
        search = Cheapest(self._trial, group.shape, self._market, rows, may_take=self._may_take)
        return search.choose(lacking)

    def _names(self, site: Flags) -> list[str]:
        return [self._nodes.names[place] for place in np.flatnonzero(site).tolist()]

    def _take_all(self, victims: Iterable[Victim]) -> bool:
        for victim in victims:
            if not self._may_take(victim.key):
                return False
            self._trial.take(victim)
        return True


def _largest_first(groups: Sequence[GroupRequest]) -> list[int]:
    """Return the groups in the order of placement: large ones find their nodes before small ones fill them."""

    def size(index: int) -> tuple[bool, int, int, int, int]:
        shape = groups[index].shape
        return shape.full_node, shape.gpus * DEVICE_MILLI + shape.gpu_milli, shape.cpu_milli, shape.memory_mib, -index

    return sorted(range(len(groups)), key=size, reverse=True)
