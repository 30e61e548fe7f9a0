"""Preemption targets: the least costly victims without which a gang fits and its quota admits it.

Sets of victims are compared by their worst order, then by total cost. So first the lowest order with enough room is
found; among victims up to that order several strategies are tried (nodes first, quota first, one by one), each result
is reduced to needed victims, and the best is kept. Everything is tried on the fleet's own ledger and undone.
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
"""Victims that are taken in order to check whether one of them alone suffices."""

ONE_BY_ONE_MAX = 256
"""Candidates up to which taking them one by one is tried too; it finds cheaper mixtures in rare cases."""

IN_ORDER_MAX = 64
"""Victims up to which those are also kept that others depend on."""

GROW_MAX = 2_048
"""Victims taken one by one if the other strategies found no answer."""

ALONE_TRIED_MAX = 64
"""Victims that are tried for quota each by itself."""

__all__ = ["Rules", "Victim", "Way", "make_way"]


class Rules(Protocol):
    """The policy, called while victims are chosen; its state is unchanged after `make_way`.

    `may_take` assumes the victims reported so far as taken; `admits` returns whether quota admits the gang without the
    taken victims. If `admits` is false, it stays false with fewer victims taken.
    """

    def may_take(self, key: str) -> bool:
        """Return whether this victim may be taken now."""
        ...

    def take(self, key: str) -> None:
        """Count the victim as gone."""
        ...

    def put_back(self, key: str) -> None:
        """Count the victim as held again."""
        ...

    def admits(self) -> bool:
        """Return whether quota admits the gang."""
        ...


@dataclass(frozen=True, slots=True)
class Way:
    """The victims in order, and the places of the gang."""

    victims: tuple[str, ...]
    holds: tuple[Hold, ...]


def make_way(fleet: Fleet, gang: GangRequest, victims: Sequence[Victim], rules: Rules) -> Way | None:
    """Return the cheapest minimal set of victims found without which the gang fits and is admitted; None if none.

    No victim of the result is redundant, and each may be taken after those before it. A gang that fits and is admitted
    needs none. The fleet and its version are unchanged afterwards. Keys are unique; the holds of victims are held.
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
    """One search. Strategies take victims in the trial and return whether they succeeded; `_try` undoes them."""

    def __init__(self, trial: Trial, gang: GangRequest, ranked: Sequence[Victim], rules: Rules) -> None:
        self._trial, self._fleet, self._gang, self._rules = trial, trial.fleet, gang, rules
        self._victims = ranked
        self._cleared: list[str] = []
        self._elsewhere = 0
        self._cheapest: dict[tuple[bytes, tuple[str, ...]], tuple[list[Victim], list[str]] | None] = {}
        self._kept: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Victim] | None] = {}

    def first_alone(self) -> list[Victim] | None:
        """Return the one victim that suffices, if all before it together do not: then no other set is better."""
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
        """Return the best result of all strategies."""
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
        """Return the victims that a strategy takes, in order and without redundant ones; nothing stays taken."""
        self._cleared, self._elsewhere = [], 0
        try:
            if not way():
                return None
            if not is_pruned:
                return sorted(self._trial.taken.values(), key=_rank)
            key = tuple(self._trial.taken), tuple(self._cleared)
            if key not in self._kept:  # several strategies may take the same
                self._kept[key] = self._needed()
            return self._kept[key]
        finally:
            self._trial.close()

    def _needed(self) -> list[Victim] | None:
        """Return the needed ones of the taken victims, in order."""
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
        """Return whether each taken victim may be taken after those before it, which may depend on ones put back."""
        kept, is_allowed = sorted(self._trial.taken.values(), key=_rank), True
        self._trial.close()
        for victim in kept:
            is_allowed = is_allowed and self._rules.may_take(victim.key)
            self._trial.take(victim)
        return is_allowed

    def _is_enough(self) -> bool:
        return self._rules.admits() and self._fleet.find(self._gang) is not None

    def _is_counted_enough(self) -> bool:
        """Return the same by counting: whether the cleared nodes have room, with the room elsewhere.

        Exact for a gang of one group; the placer decides for all.
        """
        if not self._cleared or len(self._gang.groups) != 1:
            return self._is_enough()
        group = self._gang.groups[0]
        if group.topology is not None and group.topology.required:
            return self._is_enough()
        lacking = group.replicas_least - self._elsewhere
        return self._rules.admits() and (lacking <= 0 or self._trial.room_on(self._cleared, group.shape) >= lacking)

    def _is_anywhere(self) -> bool:
        """Return whether the gang's replicas may be on any nodes, so that counting over the fleet is exact."""
        gang = self._gang
        requests = (gang.topology, gang.groups[0].topology)
        return (
            len(gang.groups) == 1
            and not gang.same_model
            and not any(request and request.required for request in requests)
        )

    def _count_elsewhere(self, taken: Sequence[Victim]) -> None:
        """Count the room on nodes without these victims once; the room on their nodes is counted repeatedly."""
        ledger = self._fleet.ledger
        self._cleared = [
            name for name in {hold.slot.node: None for v in taken for hold in v.holds} if name in ledger.nodes
        ]
        cleared, shape = set(self._cleared), self._gang.groups[0].shape
        self._elsewhere = self._trial.room_on([name for name in ledger.nodes if name not in cleared], shape)

    def _prune(self, taken: Sequence[Victim], is_enough: Callable[[], bool]) -> None:
        """Put back redundant victims, the most expensive first: all at once, or each half separately."""
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
        """Take these victims (None: all in order) until quota admits the gang."""
        for victim in self._victims if victims is None else victims:
            if self._rules.admits():
                return True
            if victim.key not in self._trial.taken and self._rules.may_take(victim.key):
                self._trial.take(victim)
        return self._rules.admits()

    def _alone_for_quota(self, by_cost: Sequence[Victim]) -> Victim | None:
        """Return the cheapest of the first victims that satisfies quota by itself."""
        for victim in by_cost[:ALONE_TRIED_MAX]:
            if self._rules.may_take(victim.key):
                self._trial.take(victim)
                is_admitted = self._rules.admits()
                self._trial.put_back(victim)
                if is_admitted:
                    return victim
        return None

    def _one_by_one(self, victims: Sequence[Victim]) -> bool:
        """Take victims until there is room and quota; the more failed, the more are taken before the next check."""
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
        """Clear the cheapest nodes, within the cheapest domain if the gang requires one."""
        if self._fleet.find(self._gang) is not None:
            return True
        key = able.tobytes(), tuple(self._trial.taken)
        if key not in self._cheapest:  # strategies that differ only later begin alike
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
