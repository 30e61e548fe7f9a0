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

from muster.placement.clearance import Clearance
from muster.placement.fleet import Fleet
from muster.placement.shapes import GangRequest, Hold
from muster.placement.timeline import Flags
from muster.placement.trial import Trial, Victim

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
        self._elsewhere = 0
        self._cheapest: dict[tuple[bytes, tuple[str, ...]], tuple[list[Victim], list[str]] | None] = {}
        self._kept: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Victim] | None] = {}

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
        self._clearance = Clearance(self._trial, self._gang, self._victims, may_take=self._rules.may_take)
        order = self._victims[0].order if is_room else self._clearance.order_for_room()
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
        self._cleared, self._elsewhere = [], 0
        try:
            if not way():
                return None
            if not is_pruned:
                return sorted(self._trial.taken.values(), key=_rank)
            key = tuple(self._trial.taken), tuple(self._cleared)
            if key not in self._kept:  # several ways may well take the same
                self._kept[key] = self._needed()
            return self._kept[key]
        finally:
            self._trial.close()

    def _needed(self) -> list[Victim] | None:
        """Those of the victims taken without whom it does not go, in order."""
        if not self._is_enough():
            return None
        taken = list(self._trial.taken.values())
        if not self._cleared and self._is_anywhere():
            self._count_elsewhere(taken)
        self._prune(sorted(taken, key=_rank, reverse=True), self._is_counted_enough)
        if not self._is_enough():
            return None
        if not self._is_in_order() and len(taken) <= IN_ORDER_MAX:
            self._trial.close()
            for victim in taken:
                self._trial.take(victim)
            self._prune(sorted(taken, key=_rank, reverse=True), lambda: self._is_enough() and self._is_in_order())
        return sorted(self._trial.taken.values(), key=_rank) if self._is_in_order() else None

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
        """The same, found faster: whether there is room on the nodes that were cleared, with what is elsewhere.

        Exact for a gang of one group; the placer has the last word for all.
        """
        if not self._cleared or len(self._gang.groups) != 1:
            return self._is_enough()
        group = self._gang.groups[0]
        if group.topology is not None and group.topology.required:
            return self._is_enough()
        lacking = group.replicas_least - self._elsewhere
        return self._rules.admits() and (lacking <= 0 or self._trial.room_on(self._cleared, group.shape) >= lacking)

    def _is_anywhere(self) -> bool:
        """Whether the gang's replicas may stand on any nodes, so that counting over the fleet is exact."""
        gang = self._gang
        wishes = (gang.topology, gang.groups[0].topology)
        return len(gang.groups) == 1 and not gang.same_model and not any(wish and wish.required for wish in wishes)

    def _count_elsewhere(self, taken: Sequence[Victim]) -> None:
        """What nodes of these victims give is counted again and again; what the others have, once."""
        ledger = self._fleet.ledger
        self._cleared = [
            name for name in {hold.slot.node: None for v in taken for hold in v.holds} if name in ledger.nodes
        ]
        cleared, shape = set(self._cleared), self._gang.groups[0].shape
        self._elsewhere = self._trial.room_on([name for name in ledger.nodes if name not in cleared], shape)

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

    def _by_node(self, able: Flags) -> bool:
        """Clear the cheapest nodes, within the cheapest domain where the gang needs to be in one."""
        if self._fleet.find(self._gang) is not None:
            return True
        key = able.tobytes(), tuple(self._trial.taken)
        if key not in self._cheapest:  # ways that differ only afterwards begin alike
            self._cheapest[key] = self._clearance.cheapest(able)
        found = self._cheapest[key]
        if found is None:
            return False
        victims, self._cleared = found
        return self._take_all(victims)


def _rank(victim: Victim) -> tuple[tuple[int, ...], float, str]:
    return victim.order, victim.cost, victim.key


def _cost(victim: Victim) -> tuple[float, tuple[int, ...], str]:
    return victim.cost, victim.order, victim.key


def _worth(victims: Sequence[Victim]) -> tuple[tuple[int, ...], float, int, tuple[str, ...]]:
    keys = tuple(victim.key for victim in victims)
    return max((v.order for v in victims), default=()), sum(v.cost for v in victims), len(victims), keys
