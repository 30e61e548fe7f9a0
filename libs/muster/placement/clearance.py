"""Which nodes to clear for a whole gang: within the cheapest domain that will do, one group after the other."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from muster.placement.cheapest import Cheapest, Market, estimate
from muster.placement.moments import Calendar, Moment, Wanted, required_level, wanted
from muster.placement.shapes import DEVICE_MILLI, GangRequest, GroupRequest
from muster.placement.timeline import Flags, Ints, Rows
from muster.placement.trial import Trial, Victim

DOMAINS_TRIED_MAX = 4
"""Domains whose clearing is worked out for a gang that needs to be in one: the most promising."""


class Clearance:
    """One reading of the fleet for one gang and all victims, in the order in which they are rather taken."""

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
        """The lowest order so that without all victims up to it there is room, by counting; None if there never is."""
        orders = sorted({victim.order for victim in self._victims})
        place = {order: at for at, order in enumerate(orders, start=1)}
        at = np.fromiter((place[victim.order] for victim in self._victims), np.int64, len(self._victims))
        moments = self._moments(Rows(self._nodes, self._market.held, at, start=0))
        return orders[max(moments[0].at, 1) - 1] if moments else None

    def _moments(self, rows: Rows) -> list[Moment]:
        return Calendar(rows, self._domains).moments(self._together)

    def cheapest(self, able: Flags) -> tuple[list[Victim], list[str]] | None:
        """Able victims whose leaving makes room, and the nodes of the domain ([]: all); in the cheapest domain found.

        The trial is left as it was; who is taken in it already counts as gone.
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
        """What clearing them might cost, and the nodes of the domains that could take the gang; the cheapest first."""
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
    """In the order of placement, so that the big find their nodes before the small fill them."""

    def size(index: int) -> tuple[bool, int, int, int, int]:
        shape = groups[index].shape
        return shape.full_node, shape.gpus * DEVICE_MILLI + shape.gpu_milli, shape.cpu_milli, shape.memory_mib, -index

    return sorted(range(len(groups)), key=size, reverse=True)
