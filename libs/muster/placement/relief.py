"""Making way: the least costly victims without whom a gang fits and its quota admits it.

A set of victims is compared by its worst order, then by its total cost. So first the lowest order is found with which
the room suffices; among victims up to that order several ways are tried (nodes first, quota first, one by one), each
cleared of whoever turns out not to be needed, and the best is kept. Everything is tried on the fleet's own books and
undone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from muster.placement.cheapest import Cheapest, Market, estimate
from muster.placement.fleet import Fleet
from muster.placement.moments import Calendar, Moment, Wanted, required_level, wanted
from muster.placement.shapes import DEVICE_MILLI, GangRequest, GroupRequest, Hold
from muster.placement.timeline import Flags, Ints, Rows
from muster.placement.trial import Trial, Victim

DOMAINS_TRIED_MAX = 4
"""Domains whose clearing is worked out for a gang that needs to be in one: the most promising."""

FIRST_TRIED_MAX = 32
"""Victims that are taken in order to see whether one of them alone is the answer."""

ONE_BY_ONE_MAX = 256
"""Candidates up to which taking them one by one is tried beside the other ways; it finds the odd cheaper mixture."""

IN_ORDER_MAX = 64
"""Victims up to which those are kept, too, without whom others might not be taken."""

GROW_MAX = 2_048
"""Victims taken one by one where the other ways found none."""

ALONE_TRIED_MAX = 64
"""Victims tried for quota each by itself."""

__all__ = ["Rules", "Victim", "Way", "make_way"]


class Rules(Protocol):
    """The policy, asked while victims are chosen; after `make_way` it is as before.

    `may_take` is asked with all told so far taken; `admits`: whether quota would let the gang in, given what is taken.
    With fewer taken, `admits` is never true where it was false.
    """

    def may_take(self, key: str) -> bool:
        """Whether this victim may be taken now."""
        ...

    def take(self, key: str) -> None:
        """Count it as gone."""
        ...

    def put_back(self, key: str) -> None:
        """Count it as held again."""
        ...

    def admits(self) -> bool:
        """Whether quota would let the gang in."""
        ...


@dataclass(frozen=True, slots=True)
class Way:
    """Who makes way (in order), and where the gang then stands."""

    victims: tuple[str, ...]
    holds: tuple[Hold, ...]


def make_way(fleet: Fleet, gang: GangRequest, victims: Sequence[Victim], rules: Rules) -> Way | None:
    """The cheapest minimal set of victims found without whom the gang fits and is admitted, or None if there is none.

    No victim of the result can be left out, and each may be taken after those before it. A gang that fits and is
    admitted needs none. The fleet is unchanged afterwards, its version too. Keys are unique; what victims hold is held.
    """
    trial = Trial(fleet, tell=rules.take, untell=rules.put_back)
    try:
        fits, admitted = fleet.find(gang), rules.admits()
        if fits is not None and admitted:
            return Way((), fits)
        ranked = sorted(victims, key=_rank)
        relief = _Relief(trial, gang, ranked, rules)
        best = relief.first_alone() or relief.best(is_room=fits is not None)
        if not best:
            return None
        for victim in best:
            trial.take(victim)
        holds = fleet.find(gang)
        assert holds is not None, "victims are only proposed if the gang was placed without them"
        return Way(tuple(victim.key for victim in best), holds)
    finally:
        trial.close()


class _Relief:
    """One search. Ways take victims in the trial and return whether they got through; `_try` undoes them."""

    def __init__(self, trial: Trial, gang: GangRequest, ranked: Sequence[Victim], rules: Rules) -> None:
        self._trial, self._fleet, self._gang, self._rules = trial, trial.fleet, gang, rules
        self._victims = ranked
        self._cleared: list[str] = []

    def _survey(self) -> None:
        """Read the whole fleet; not before it is needed."""
        gang = self._gang
        self._nodes = self._fleet.table()
        self._market = Market(self._victims, self._nodes)
        self._groups = wanted(gang, self._nodes)
        self._together = [
            group for group in self._groups if not gang.same_model or group.shape.holds_devices
        ] or self._groups
        self._level = required_level(gang, self._nodes)
        self._domains: Ints = self._nodes.domains(self._level, same_model=gang.same_model)

    def first_alone(self) -> list[Victim] | None:
        """The one victim that suffices, where all before it together do not: then nothing else can be better."""
        alone = None
        replicas = sum(group.replicas_least for group in self._gang.groups)
        for victim in self._victims[: FIRST_TRIED_MAX // replicas]:
            if self._rules.may_take(victim.key):
                self._trial.take(victim)
                if self._is_enough():
                    alone = victim
                    break
        self._trial.close()
        return None if alone is None else self._try(lambda: self._take_all([alone]), is_pruned=True)

    def best(self, *, is_room: bool) -> list[Victim] | None:
        """The best of all ways."""
        if not self._victims:
            return None
        self._survey()
        order = self._victims[0].order if is_room else self._order_for_room()
        for_quota = None if order is None else self._try(self._for_quota)
        if order is None or for_quota is None:
            return None
        order = max([order, *(victim.order for victim in for_quota)])
        able = [victim.order <= order for victim in self._victims]
        best = self._best_of(np.array(able), for_quota)
        if best is None:
            best = self._best_of(np.ones(len(able), dtype=bool), for_quota, is_last=True)
        return best

    def _best_of(self, able: Flags, for_quota: Sequence[Victim], *, is_last: bool = False) -> list[Victim] | None:
        ways: list[Callable[[], bool]] = [lambda: self._by_node(able) and self._for_quota()]
        by_cost = sorted((self._victims[at] for at in np.flatnonzero(able).tolist()), key=_cost)
        if for_quota:
            ways.append(lambda: self._take_all(for_quota) and self._by_node(able))
            ways.append(lambda: self._for_quota(by_cost) and self._by_node(able))
            ways.append(lambda: self._by_node(able) and self._for_quota(by_cost))
            alone = self._alone_for_quota(by_cost)
            if alone is not None:
                ways.append(lambda: self._take_all([alone]) and self._by_node(able))
        if len(by_cost) <= ONE_BY_ONE_MAX:
            ways.append(lambda: self._one_by_one(by_cost))
        found = [kept for way in ways if (kept := self._try(way, is_pruned=True)) is not None]
        if not found and is_last:
            kept = self._try(lambda: self._one_by_one(self._victims[:GROW_MAX]), is_pruned=True)
            return kept
        return min(found, key=_worth, default=None)

    def _try(self, way: Callable[[], bool], *, is_pruned: bool = False) -> list[Victim] | None:
        """Whom a way takes, in order, cleared of those who are not needed; nothing stays taken."""
        self._cleared = []
        try:
            if not way():
                return None
            if not is_pruned:
                return sorted(self._trial.taken.values(), key=_rank)
            if not self._is_enough():
                return None
            taken = list(self._trial.taken.values())
            self._prune(sorted(taken, key=_rank, reverse=True), self._is_counted_enough)
            if not self._is_enough():
                return None
            if not self._is_in_order() and len(taken) <= IN_ORDER_MAX:
                self._trial.close()
                for victim in taken:
                    self._trial.take(victim)
                self._prune(sorted(taken, key=_rank, reverse=True), lambda: self._is_enough() and self._is_in_order())
            return sorted(self._trial.taken.values(), key=_rank) if self._is_in_order() else None
        finally:
            self._trial.close()

    def _is_in_order(self) -> bool:
        """Whether each of the victims taken may be taken after those before it: that can rest on others, put back."""
        kept, is_allowed = sorted(self._trial.taken.values(), key=_rank), True
        self._trial.close()
        for victim in kept:
            is_allowed = is_allowed and self._rules.may_take(victim.key)
            self._trial.take(victim)
        return is_allowed

    def _is_enough(self) -> bool:
        return self._rules.admits() and self._fleet.find(self._gang) is not None

    def _is_counted_enough(self) -> bool:
        """The same, found faster: whether there is room on the nodes of the domain that was cleared.

        Exact for a gang of one group; the placer has the last word for all.
        """
        if not self._cleared or len(self._groups) > 1 or self._groups[0].level:
            return self._is_enough()
        group = self._groups[0]
        return self._rules.admits() and self._trial.room_on(self._cleared, group.shape) >= group.replicas

    def _prune(self, taken: Sequence[Victim], is_enough: Callable[[], bool]) -> None:
        """Put back whoever is not needed, the dearest first: all at once, or each half of them by itself."""
        for victim in taken:
            self._trial.put_back(victim)
        if is_enough():
            return
        for victim in reversed(taken):
            self._trial.take(victim)
        if len(taken) > 1:
            middle = len(taken) // 2
            self._prune(taken[:middle], is_enough)
            self._prune(taken[middle:], is_enough)

    def _take_all(self, victims: Iterable[Victim]) -> bool:
        for victim in victims:
            if not self._rules.may_take(victim.key):
                return False
            self._trial.take(victim)
        return True

    def _for_quota(self, victims: Sequence[Victim] | None = None) -> bool:
        """Take the first of these (None: in order) until quota admits the gang."""
        for victim in self._victims if victims is None else victims:
            if self._rules.admits():
                return True
            if victim.key not in self._trial.taken and self._rules.may_take(victim.key):
                self._trial.take(victim)
        return self._rules.admits()

    def _alone_for_quota(self, by_cost: Sequence[Victim]) -> Victim | None:
        """The cheapest victim that satisfies quota by itself, of the first few."""
        for victim in by_cost[:ALONE_TRIED_MAX]:
            if self._rules.may_take(victim.key):
                self._trial.take(victim)
                is_admitted = self._rules.admits()
                self._trial.put_back(victim)
                if is_admitted:
                    return victim
        return None

    def _one_by_one(self, victims: Sequence[Victim]) -> bool:
        """Take the first until there is room and quota; the more have been taken in vain, the more before looking."""
        step, since = 1, 0
        for victim in victims:
            if victim.key not in self._trial.taken and self._rules.may_take(victim.key):
                self._trial.take(victim)
                since += 1
            if since >= step:
                if self._is_enough():
                    return True
                step, since = step * 2, 0
        return self._is_enough()

    def _order_for_room(self) -> tuple[int, ...] | None:
        """The lowest order so that without all victims up to it there is room, by counting; None if there never is."""
        orders = sorted({victim.order for victim in self._victims})
        place = {order: at for at, order in enumerate(orders, start=1)}
        at = np.fromiter((place[victim.order] for victim in self._victims), np.int64, len(self._victims))
        moments = self._moments(Rows(self._nodes, self._market.held, at, start=0))
        return orders[max(moments[0].at, 1) - 1] if moments else None

    def _moments(self, rows: Rows) -> list[Moment]:
        return Calendar(rows, self._domains).moments(self._together)

    def _by_node(self, able: Flags) -> bool:
        """Clear the cheapest nodes, within the cheapest domain where the gang needs to be in one."""
        if self._fleet.find(self._gang) is not None:
            return True
        best, least = None, float("inf")
        for guess, site in self._sites(able):
            if guess >= least:
                break
            chosen = self._clear(able, site)
            cost = sum(victim.cost for victim in chosen or ())
            if chosen is not None and cost < least:
                best, least = chosen, cost
                self._cleared = [] if site.all() else self._names(site)
        return best is not None and self._take_all(best)

    def _sites(self, able: Flags) -> list[tuple[float, Flags]]:
        """What clearing them might cost, and the nodes of the domains that could take the gang; the cheapest first."""
        if not self._level and not self._gang.same_model:
            return [(0.0, np.ones(len(self._nodes), dtype=bool))]
        rows = self._market.rows(able, self._nodes, None)
        asked = self._groups[_largest_first(self._gang.groups)[0]]
        guesses = [(self._guess(rows, asked, moment.among), moment.among) for moment in self._moments(rows)]
        guesses.sort(key=lambda guess: guess[0])
        sites = []
        for guess, among in guesses[:DOMAINS_TRIED_MAX]:
            site = np.zeros(len(self._nodes), dtype=bool)
            site[among] = True
            sites.append((guess, site))
        return sites

    def _guess(self, rows: Rows, asked: Wanted, among: Ints) -> float:
        """What clearing these nodes for a group costs, if each node's estimate were true."""
        room, ratio, gain = estimate(self._market, rows, asked.shape, asked.replicas)
        lacking = asked.replicas - int(room[among].sum())
        order = among[np.argsort(ratio[among], kind="stable")]
        before = np.cumsum(gain[order]) - gain[order]
        used = np.clip(lacking - before, 0, gain[order])
        return float((ratio[order][used > 0] * used[used > 0]).sum())

    def _clear(self, able: Flags, site: Flags) -> list[Victim] | None:
        """Victims whose leaving makes room on these nodes, group by group, each placed before the next is looked at."""
        before, stand = set(self._trial.taken), []
        try:
            for index in _largest_first(self._gang.groups):
                asked = self._groups[index]
                inside = site if asked in self._together else np.ones(len(site), dtype=bool)
                more = self._clear_for(asked, able, inside)
                if more is None or not self._take_all(more):
                    return None
                if len(self._groups) > 1:
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
        search = Cheapest(self._trial, group.shape, self._market, rows, may_take=self._rules.may_take)
        return search.choose(lacking)

    def _names(self, site: Flags) -> list[str]:
        return [self._nodes.names[place] for place in np.flatnonzero(site).tolist()]


def _largest_first(groups: Sequence[GroupRequest]) -> list[int]:
    """In the order of placement, so that the big find their nodes before the small fill them."""

    def size(index: int) -> tuple[bool, int, int, int, int]:
        shape = groups[index].shape
        return shape.full_node, shape.gpus * DEVICE_MILLI + shape.gpu_milli, shape.cpu_milli, shape.memory_mib, -index

    return sorted(range(len(groups)), key=size, reverse=True)


def _rank(victim: Victim) -> tuple[tuple[int, ...], float, str]:
    return victim.order, victim.cost, victim.key


def _cost(victim: Victim) -> tuple[float, tuple[int, ...], str]:
    return victim.cost, victim.order, victim.key


def _worth(victims: Sequence[Victim]) -> tuple[tuple[int, ...], float, int, tuple[str, ...]]:
    keys = tuple(victim.key for victim in victims)
    return max((v.order for v in victims), default=()), sum(v.cost for v in victims), len(victims), keys
