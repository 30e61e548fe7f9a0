"""Making way: the least costly victims without whom a gang fits and its quota admits it.

A set of victims is compared by its worst order, then by its total cost. So first the lowest order is found with which
the room suffices; among victims up to that order several ways are tried (nodes first, quota first, one by one in
order), each cleared of whoever turns out not to be needed, and the best is kept. Everything is tried on the fleet's own
books and undone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from muster.placement.cheapest import Cheapest, Trial, Victim
from muster.placement.fleet import Fleet
from muster.placement.shapes import DEVICE_MILLI, GangRequest, GroupRequest, Hold
from muster.placement.timeline import Calendar, Change, Ints, Nodes, Rows, Wanted, required_level, wanted

DOMAINS_TRIED_MAX = 8
"""Domains whose clearing is worked out for a gang that needs to be in one."""

ONE_BY_ONE_MAX = 512
"""Victims that are taken one by one in order, before that way is given up."""

__all__ = ["Rules", "Victim", "Way", "make_way"]


class Rules(Protocol):
    """The policy, asked while victims are chosen; after `make_way` it is as before.

    `may_take` is asked with all told so far taken; `admits`: whether quota would let the gang in, given what is taken.
    Fewer taken never makes `admits` true that was false.
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

    No victim of the result can be left out. A gang that fits and is admitted needs none: no victims. The fleet is
    unchanged afterwards, its version too. Keys are unique, holds of different victims are disjoint and held.
    """
    trial = Trial(fleet, tell=rules.take, untell=rules.put_back)
    try:
        return _Relief(trial, gang, victims, rules).run()
    finally:
        trial.close()


class _Relief:
    def __init__(self, trial: Trial, gang: GangRequest, victims: Sequence[Victim], rules: Rules) -> None:
        self._trial, self._fleet, self._gang, self._rules = trial, trial.fleet, gang, rules
        self._victims = sorted(victims, key=_rank)
        self._nodes = Nodes(self._fleet.ledger)
        self._groups = wanted(gang, self._nodes)
        self._level = required_level(gang, self._nodes)

    def run(self) -> Way | None:
        admitted, fits = self._rules.admits(), self._fleet.find(self._gang)
        if admitted and fits is not None:
            return Way((), fits)
        if not self._victims:
            return None
        order = self._order_for_room() if fits is None else self._victims[0].order
        if order is None:
            return None
        for_quota = self._try(self._for_quota)
        if for_quota is None:
            return None
        order = max([order, *(victim.order for victim in for_quota)])
        able = [victim for victim in self._victims if victim.order <= order]
        best = self._best_of(able, for_quota)
        if best is None and len(able) < len(self._victims):
            best = self._best_of(self._victims, for_quota)
        if best is None:
            return None
        for victim in best:
            self._trial.take(victim)
        holds = self._fleet.find(self._gang)
        assert holds is not None, "a set of victims is only kept if the gang was placed without it"
        return Way(tuple(victim.key for victim in best), holds)

    def _best_of(self, able: Sequence[Victim], for_quota: Sequence[Victim]) -> list[Victim] | None:
        ways: list[Callable[[], bool]] = [lambda: self._by_node(able) and self._for_quota()]
        if for_quota:
            ways.append(lambda: self._take_all(for_quota) and self._by_node(able))
        ways.append(lambda: self._one_by_one(able))
        found = [kept for way in ways if (kept := self._try(way, prune=True)) is not None]
        return min(found, key=_worth, default=None)

    def _try(self, way: Callable[[], bool], *, prune: bool = False) -> list[Victim] | None:
        """Whom a way takes, cleared of those who are not needed; nothing stays taken."""
        try:
            if not way():
                return None
            if prune and not self._is_enough():
                return None
            if prune:
                self._prune(sorted(self._trial.taken.values(), key=_rank, reverse=True))
            return self._legal() if prune else sorted(self._trial.taken.values(), key=_rank)
        finally:
            self._trial.close()

    def _legal(self) -> list[Victim] | None:
        """The victims taken, in order, if each may be taken after those before it."""
        kept = sorted(self._trial.taken.values(), key=_rank)
        self._trial.close()
        return kept if self._take_all(kept) and self._is_enough() else None

    def _is_enough(self) -> bool:
        return self._rules.admits() and self._fleet.find(self._gang) is not None

    def _prune(self, taken: Sequence[Victim]) -> None:
        """Put back whoever is not needed, the dearest first: all at once, or each half of them by itself."""
        for victim in taken:
            self._trial.put_back(victim)
        if self._is_enough():
            return
        for victim in reversed(taken):
            self._trial.take(victim)
        if len(taken) > 1:
            middle = len(taken) // 2
            self._prune(taken[:middle])
            self._prune(taken[middle:])

    def _take_all(self, victims: Iterable[Victim]) -> bool:
        for victim in victims:
            if not self._rules.may_take(victim.key):
                return False
            self._trial.take(victim)
        return True

    def _for_quota(self) -> bool:
        """Take the first in order until quota admits the gang."""
        for victim in self._victims:
            if self._rules.admits():
                return True
            if victim.key not in self._trial.taken and self._rules.may_take(victim.key):
                self._trial.take(victim)
        return self._rules.admits()

    def _one_by_one(self, able: Sequence[Victim]) -> bool:
        """Take the first in order until there is room: twice as many more each time, before looking."""
        step, since = 1, 0
        for victim in able[:ONE_BY_ONE_MAX]:
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
        changes = [Change(place[victim.order], hold) for victim in self._victims for hold in victim.holds]
        rows = Rows(self._nodes, changes, start=0)
        calendar = Calendar(rows, self._domains())
        moments = calendar.moments(self._together())
        return orders[max(moments[0].at, 1) - 1] if moments else None

    def _together(self) -> list[Wanted]:
        gang = self._gang
        together = [group for group in self._groups if not gang.same_model or group.shape.holds_devices]
        return together or self._groups

    def _domains(self) -> Ints:
        return self._nodes.domains(self._level, same_model=self._gang.same_model)

    def _by_node(self, able: Sequence[Victim]) -> bool:
        """Clear the cheapest nodes, within the cheapest domain where the gang needs to be in one."""
        if self._fleet.find(self._gang) is not None:
            return True
        best: tuple[float, list[Victim]] | None = None
        for names in self._sites(able):
            chosen = self._clear(able, names)
            if chosen is not None:
                cost = sum(victim.cost for victim in chosen)
                if best is None or cost < best[0]:
                    best = cost, chosen
        return best is not None and self._take_all(best[1])

    def _sites(self, able: Sequence[Victim]) -> list[list[str]]:
        """The nodes of the domains that could take the gang, most promising first."""
        domains = self._domains()
        changes = [Change(1, hold) for victim in able for hold in victim.holds]
        rows = Rows(self._nodes, changes, start=0)
        moments = Calendar(rows, domains).moments(self._together())
        if len(moments) > DOMAINS_TRIED_MAX:
            lacking = self._lacking(rows, domains)
            moments = sorted(moments, key=lambda moment: lacking[int(domains[moment.among[0]])])
        return [[self._nodes.names[at] for at in moment.among.tolist()] for moment in moments[:DOMAINS_TRIED_MAX]]

    def _lacking(self, rows: Rows, domains: Ints) -> dict[int, float]:
        """By domain, the part of the gang that has no room there now."""
        lacking: dict[int, float] = {}
        for group in self._together():
            room = np.zeros(int(domains.max()) + 1, np.int64)
            inside = domains >= 0
            np.add.at(room, domains[inside], rows.room(group.shape)[rows.begins][inside])
            for domain, have in enumerate(room.tolist()):
                lacking[domain] = lacking.get(domain, 0.0) + max(0, group.replicas - have) / group.replicas
        return lacking

    def _clear(self, able: Sequence[Victim], names: list[str]) -> list[Victim] | None:
        """Victims whose leaving makes room on these nodes, group by group, each placed before the next is looked at."""
        before, stand = set(self._trial.taken), []
        together = {group.shape for group in self._together()}
        try:
            for index in _largest_first(self._gang.groups):
                asked = self._groups[index]
                site = names if asked.shape in together else self._nodes.names
                more = self._clear_for(asked, [v for v in able if v.key not in self._trial.taken], site)
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

    def _clear_for(self, group: Wanted, able: Sequence[Victim], names: list[str]) -> list[Victim] | None:
        lacking = group.replicas - sum(self._trial.room(name, group.shape) for name in names)
        if lacking <= 0:
            return []
        search = Cheapest(self._trial, group.shape, names, may_take=self._rules.may_take)
        nodes = Nodes(self._fleet.ledger)
        return search.choose(able, lacking, nodes)


def _largest_first(groups: Sequence[GroupRequest]) -> list[int]:
    """In the order of placement, so that the big find their nodes before the small fill them."""

    def size(index: int) -> tuple[bool, int, int, int, int]:
        shape = groups[index].shape
        return shape.full_node, shape.gpus * DEVICE_MILLI + shape.gpu_milli, shape.cpu_milli, shape.memory_mib, -index

    return sorted(range(len(groups)), key=size, reverse=True)


def _rank(victim: Victim) -> tuple[tuple[int, ...], float, str]:
    return victim.order, victim.cost, victim.key


def _worth(victims: Sequence[Victim]) -> tuple[tuple[int, ...], float, int, tuple[str, ...]]:
    keys = tuple(victim.key for victim in victims)
    return max((v.order for v in victims), default=()), sum(v.cost for v in victims), len(victims), keys
