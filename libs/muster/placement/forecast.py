"""When a gang will fit: holds are released at known times, and the first time with room is found and verified.

The time is found by counting (see `timeline`), which is never too late. Then the real placer runs on the fleet's ledger
as it will be at that time; everything is undone without side effects. For a gang of one group the count is exact and
one trial is enough; otherwise later times are tried, twice as far each time, and then the first one that suffices
between the last two.

Plans are gangs to be placed later, which gangs of later queries must not delay.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from muster.placement.fleet import Fleet
from muster.placement.moments import Calendar, Moment, Wanted, required_level, wanted
from muster.placement.shapes import NODE_LEVEL, GangRequest, Hold, Slot
from muster.placement.timeline import NEVER, Flags, Held, Ints, Nodes, Rows


class Planned:
    """The rows of a fleet with plans: on nodes with plans only permanently idle capacity counts.

    `at` has the time at which each owner's holds are released.
    """

    def __init__(self, nodes: Nodes, held: Held, at: Ints, *, now: int) -> None:
        self.rows = self._plain = Rows(nodes, held, at, start=now)
        self._nodes = nodes
        self._held = held
        self._at = at
        self._now = now
        self._touched = np.zeros(len(nodes), dtype=bool)

    def add(self, holds: Sequence[Hold], *, starts_at: int, ends_at: int) -> None:
        """Plan these holds from one time to another."""
        taken, given = (Held(self._nodes, [holds], sign=sign) for sign in (-1, 1))
        self._held = self._held.joined(taken).joined(given)
        self._at = np.append(self._at, (max(starts_at, self._now), ends_at))
        self._touched[taken.place] = True
        lasting = Rows(self._nodes, self._held, self._at, start=self._now, among=self._touched, lasting=True)
        self.rows = self._plain.replaced(lasting)

    def touches(self, names: Iterable[str]) -> bool:
        """Return whether anything is planned on one of these nodes."""
        return any(self._touched[self._nodes.places[name]] for name in names)

    @contextmanager
    def held(self, fleet: Fleet, at: int, places: Ints) -> Iterator[list[Hold]]:
        """Hold what is planned, so that only countable capacity is idle: as at `at` in these places, as now elsewhere.

        Holds released until then must be withdrawn before. Yields what is held instead of the plans.
        """
        instead: list[Hold] = []
        try:
            if self._touched.any():
                is_then = np.zeros(len(self._nodes), dtype=bool)
                is_then[places] = True
                rows = np.where(is_then, self.rows.then(at), self.rows.now)
                for place in np.flatnonzero(self._touched).tolist():
                    for hold in self._difference(fleet, place, int(rows[place])):
                        fleet.hold(hold)
                        instead.append(hold)
            yield instead
        finally:
            for hold in reversed(instead):
                fleet.withdraw(hold)

    def _difference(self, fleet: Fleet, place: int, row: int) -> Iterator[Hold]:
        """Yield what is idle on a node by the ledger but not by a row, one hold per difference of its devices."""
        name = self._nodes.names[place]
        node, rows = fleet.ledger.nodes[name], self.rows
        cpu, memory = node.cpu_milli - int(rows.cpu[row]), node.memory_mib - int(rows.memory[row])
        by_share: dict[int, list[int]] = {}
        for device, (idle, left) in enumerate(zip(node.idle, rows.idle[row].tolist(), strict=False)):
            if idle > left and device not in node.broken:
                by_share.setdefault(idle - left, []).append(device)
        for share, devices in sorted(by_share.items()):
            yield Hold(cpu, memory, Slot(0, 0, name, tuple(devices), share))
            cpu = memory = 0
        if cpu or memory:
            yield Hold(cpu, memory, Slot(0, 0, name, (), 0))


@contextmanager
def without(fleet: Fleet, holds: Sequence[Hold]) -> Iterator[None]:
    """Withdraw these holds while the context lasts; the version of the fleet is unchanged."""
    withdrawn: list[Hold] = []
    try:
        for hold in holds:
            fleet.withdraw(hold)
            withdrawn.append(hold)
        yield
    finally:
        for hold in reversed(withdrawn):
            fleet.hold(hold)


class Spare:
    """The amounts left on the nodes of a proposal if it is carried out; negative while it is impossible."""

    def __init__(self, fleet: Fleet) -> None:
        self._ledger = fleet.ledger
        self._left: dict[str, list[int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def add(self, hold: Hold, sign: int) -> None:
        """Add a hold's amounts as freed (1) or taken (-1)."""
        slot = hold.slot
        left = self._left.get(slot.node)
        if left is None:
            node = self._ledger.nodes[slot.node]
            left = self._left[slot.node] = [node.cpu_milli, node.memory_mib, *node.idle]
        left[0] += sign * hold.cpu_milli
        left[1] += sign * hold.memory_mib
        for device in slot.devices:
            left[2 + device] += sign * slot.gpu_milli

    def is_enough(self, name: str) -> bool:
        """Return whether a node has enough of everything."""
        return min(self._left[name]) >= 0


__all__ = ["NEVER", "Planned", "Spare", "without"]


DOMAINS_TRIED_MAX = 4
"""Domains that are tried at the first time with room by counting, before later times are tried."""


@dataclass(frozen=True, slots=True)
class Release:
    """Holds that are released together at a time (ns) at the latest; `key` identifies their owner."""

    key: str
    at: int
    holds: tuple[Hold, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """From `at` (ns) on a gang fits, in these places, after the releases in `rests_on` (by time)."""

    at: int
    holds: tuple[Hold, ...]
    rests_on: tuple[str, ...]


def earliest(fleet: Fleet, gang: GangRequest, releases: Sequence[Release], *, now: int) -> Forecast | None:
    """Return the earliest time from `now` on at which the gang fits; None if it does not after all releases.

    Releases whose time has passed count from `now`; holds on nodes that take nothing new, or have left, are ignored.
    Keys are unique. The fleet and its version are unchanged afterwards. For several gangs use an Outlook.
    """
    holds = fleet.find(gang)
    if holds is not None:
        return Forecast(now, holds, ())
    return Outlook(fleet, releases, now=now).earliest(gang)


class Outlook:
    """The known future of a fleet: what is idle now, what is released when, and what is planned.

    Valid as long as the fleet does not change; created once for all gangs of that time.
    """

    def __init__(self, fleet: Fleet, releases: Sequence[Release], *, now: int) -> None:
        self._fleet = fleet
        self._releases = releases
        self._now = now
        self._nodes = fleet.table()
        held = Held(self._nodes, [release.holds for release in releases])
        at = np.fromiter((release.at for release in releases), np.int64, len(releases))
        self._planned = Planned(self._nodes, held, at, now=now)
        self._domains: dict[tuple[str, bool], Ints] = {}
        self._calendars: dict[tuple[str, bool], Calendar] = {}
        self._by_node: dict[str, list[tuple[Release, Hold]]] | None = None

    @property
    def _rows(self) -> Rows:
        return self._planned.rows

    def plan(self, holds: Sequence[Hold], *, starts_at: int, ends_at: int) -> None:
        """Count a gang in these places (of a forecast) from one time to another, which may be NEVER.

        Later queries get only permanently idle capacity: they neither delay this gang nor are preempted for it, even if
        they would end before (conservative backfill without bounds).
        """
        self._planned.add(holds, starts_at=starts_at, ends_at=ends_at)
        self._calendars.clear()

    def earliest(self, gang: GangRequest) -> Forecast | None:
        """Return the earliest forecast, as the function of the same name."""
        groups = wanted(gang, self._nodes, self._fleet.device_levels)
        moments = self._moments(gang, groups)
        first = [moment for moment in moments[:DOMAINS_TRIED_MAX] if moment.at == moments[0].at]
        for moment in first:
            found = self._at(gang, groups, moment, is_last=len(groups) > 1 or bool(groups[0].level))
            if found is not None:
                return found
        others = [self._later(gang, groups, moment) for moment in moments[:DOMAINS_TRIED_MAX]]
        return min((found for found in others if found is not None), key=lambda found: found.at, default=None)

    def _moments(self, gang: GangRequest, groups: Sequence[Wanted]) -> list[Moment]:
        """Return when each domain of the required level has room, but not before every group has room somewhere."""
        level = required_level(gang, self._nodes)
        together = [group for group in groups if not gang.same_model or group.shape.holds_devices]
        of_one_model = gang.same_model and bool(together)  # groups without devices may be on nodes of any model
        moments = self._calendar(level, same_model=of_one_model).moments(together or groups)
        bound = self._now
        for group in groups:
            if group.level or group not in together:
                alone = self._calendar(group.level or level, same_model=False).moments([group])
                if not alone:
                    return []
                bound = max(bound, alone[0].at)
        return [Moment(max(moment.at, bound), moment.among) for moment in moments]

    def _later(self, gang: GangRequest, groups: Sequence[Wanted], moment: Moment) -> Forecast | None:
        """Return the first forecast on these nodes after a time at which counting was too optimistic."""
        among = np.zeros(len(self._nodes), dtype=bool)
        among[moment.among] = True
        rows = self._rows
        times = np.unique(rows.at[(rows.at > moment.at) & among[rows.node]]).tolist()
        if not times:
            return None
        step, failed, good = 1, -1, len(times) - 1
        found = self._at(gang, groups, Moment(times[good], moment.among), is_last=True)
        while found is not None and failed + step < good:
            trial = self._at(gang, groups, Moment(times[failed + step], moment.among), is_last=False)
            if trial is not None:
                good, found = failed + step, trial
                break
            failed, step = failed + step, step * 2
        while found is not None and good - failed > 1:
            middle = (good + failed) // 2
            trial = self._at(gang, groups, Moment(times[middle], moment.among), is_last=False)
            if trial is None:
                failed = middle
            else:
                good, found = middle, trial
        return found

    def _at(self, gang: GangRequest, groups: Sequence[Wanted], moment: Moment, *, is_last: bool) -> Forecast | None:
        """Return a forecast at a time on few nodes that must be released; with `is_last` else on all of them."""
        few = self._few(gang, groups, moment)
        found = self._whole(gang, moment.at, few)
        if found is None and is_last and len(few) < len(moment.among):
            found = self._whole(gang, moment.at, moment.among)
        return found

    def _few(self, gang: GangRequest, groups: Sequence[Wanted], moment: Moment) -> Ints:
        """Return nodes with the room that the gang lacks now, the largest gain first; each group has its own."""
        rows = self._rows
        last = rows.then(moment.at)
        among = self._preferred(gang, groups, last, moment.among)
        chosen: Flags = np.zeros(len(self._nodes), dtype=bool)
        for number, group in enumerate(groups):
            room = rows.room(group.shape)
            free = gang.same_model and not group.shape.holds_devices
            within = np.arange(len(self._nodes)) if free else among
            within = within[~chosen[within]]
            now, then = room[rows.now[within]], room[last[within]]
            # Capacity that is idle now may be taken by the earlier groups.
            lacking = group.replicas - (0 if number else int(now.sum()))
            if lacking <= 0:
                continue
            gain = np.maximum(then if number else then - now, 0)
            order = np.argsort(-gain, kind="stable")
            enough = np.searchsorted(np.cumsum(gain[order]), lacking) + 1
            order = order[:enough]
            chosen[within[order[gain[order] > 0]]] = True
        return np.flatnonzero(chosen)

    def _preferred(self, gang: GangRequest, groups: Sequence[Wanted], last: Ints, among: Ints) -> Ints:
        """Return the nodes of the tightest domain of a preferred level, if one has room for the gang."""
        request = gang.topology
        if (
            request is None
            or request.required
            or (request.level not in self._nodes.levels and request.level != NODE_LEVEL)
        ):
            return among
        domains = self._domain(request.level, same_model=gang.same_model)[among]
        inside = among[domains >= 0]
        if not len(inside):
            return among
        domains = domains[domains >= 0]
        fits = np.ones(int(domains.max()) + 1, dtype=bool)
        total = np.zeros(len(fits), np.int64)
        for group in groups:
            room = np.zeros(len(fits), np.int64)
            np.add.at(room, domains, self._rows.room(group.shape)[last[inside]])
            fits &= room >= group.replicas
            total += room
        able = np.flatnonzero(fits)
        return inside[domains == able[np.argmin(total[able])]] if len(able) else among

    def _whole(self, gang: GangRequest, at: int, places: Ints) -> Forecast | None:
        """Return the gang's forecast with these nodes as they will be then, and all others as they are now."""
        given = [
            (release, hold)
            for place in places.tolist()
            for release, hold in self._on_node().get(self._nodes.names[place], ())
            if max(release.at, self._now) <= at
        ]
        with without(self._fleet, [hold for _, hold in given]), self._planned.held(self._fleet, at, places) as planned:
            holds = self._fleet.find(gang)
        return None if holds is None else self._reduced(at, holds, given, planned)

    def _reduced(
        self, tried_at: int, holds: tuple[Hold, ...], given: Iterable[tuple[Release, Hold]], planned: Iterable[Hold]
    ) -> Forecast:
        """Leave out releases that these holds do not need, the latest first.

        Without plans the time becomes that of the last needed release; else it stays as it was tried.
        """
        spare = Spare(self._fleet)
        for hold in holds:
            spare.add(hold, -1)
        for hold in planned:
            if hold.slot.node in spare:
                spare.add(hold, -1)
        by_key: dict[str, tuple[int, list[Hold]]] = {}
        for release, hold in given:
            if hold.slot.node in spare:
                by_key.setdefault(release.key, (max(release.at, self._now), []))[1].append(hold)
                spare.add(hold, 1)
        rests = []
        for key, (at, freed) in sorted(by_key.items(), key=lambda item: (-item[1][0], item[0])):
            for hold in freed:
                spare.add(hold, -1)
            if not all(spare.is_enough(hold.slot.node) for hold in freed):
                for hold in freed:
                    spare.add(hold, 1)
                rests.append((at, key))
        rests.sort()
        at = max((at for at, _ in rests), default=self._now)
        if self._planned.touches(hold.slot.node for hold in holds):
            at = tried_at
        return Forecast(at, holds, tuple(key for _, key in rests))

    def _on_node(self) -> dict[str, list[tuple[Release, Hold]]]:
        if self._by_node is None:
            self._by_node = {}
            for release in sorted(self._releases, key=lambda release: (release.at, release.key)):
                for hold in release.holds:
                    self._by_node.setdefault(hold.slot.node, []).append((release, hold))
        return self._by_node

    def _domain(self, level: str, *, same_model: bool) -> Ints:
        known = self._domains.get((level, same_model))
        if known is None:
            known = self._domains[level, same_model] = self._nodes.domains(level, same_model=same_model)
        return known

    def _calendar(self, level: str, *, same_model: bool) -> Calendar:
        known = self._calendars.get((level, same_model))
        if known is None:
            domains = self._domain(level, same_model=same_model)
            known = self._calendars[level, same_model] = Calendar(self._rows, domains)
        return known
