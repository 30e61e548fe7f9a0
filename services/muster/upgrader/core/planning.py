"""Plan when each node gets its turn, from the times at which nodes come free of jobs. Pure, for any campaign.

Time advances to each moment at which a node comes free, a turn ends or a window opens. There, free nodes take their
turns in order, within the limits. Nodes of one gang have their turns together if the limits ever have room for all of
them; otherwise as many as there is room for.
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import groupby

from muster.core import Instant

MOMENTS_MAX = 100_000
"""Moments that are walked through; nodes without a turn by then have none."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that waits for its turn, free of jobs at `free_at`, with the end of `gang`.

    Among free nodes the lowest `rank` is first. `is_out`: it is out of use already, so its turn takes nothing.
    """

    node: str
    free_at: int
    gang: str = ""
    rank: int = 0
    rack: str = ""
    group: str = ""
    is_out: bool = False

    @property
    def order(self) -> tuple[bool, int, int, str, str]:
        """Return its order among the free nodes."""
        return not self.is_out, self.free_at, self.rank, self.gang, self.node


@dataclass(frozen=True, slots=True)
class Busy:
    """A node that is out of use until then; None: unknown. `is_ours`: the campaign has taken it."""

    until: int | None
    rack: str = ""
    group: str = ""
    is_ours: bool = True


@dataclass(frozen=True, slots=True)
class Room:
    """Limits of nodes out of use at a time: total, per rack, per group, and taken in parallel. 0: no limit."""

    total: int
    parallel: int = 0
    per_rack: int = 0
    per_group: int = 0


@dataclass(slots=True)
class _Use:
    """The nodes out of use at a time."""

    room: Room
    total: int = 0
    ours: int = 0
    racks: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)

    def add(self, busy: Busy, sign: int = 1) -> None:
        self.total += sign
        self.ours += sign * busy.is_ours
        self.racks[busy.rack] += sign
        self.groups[busy.group] += sign

    def take(self, one: Candidate, sign: int = 1) -> None:
        self.ours += sign
        if not one.is_out:
            self.total += sign
            self.racks[one.rack] += sign
            self.groups[one.group] += sign

    @property
    def is_full(self) -> bool:
        """Return whether there is room only for nodes that are out of use already."""
        return self.total >= self.room.total or bool(self.room.parallel and self.ours >= self.room.parallel)

    def fits(self, one: Candidate) -> bool:
        room = self.room
        if room.parallel and self.ours >= room.parallel:
            return False
        return one.is_out or (self.total < room.total and self.is_open(one.rack, one.group))

    def is_open(self, rack: str, group: str) -> bool:
        """Return whether rack and group have room for another node."""
        room = self.room
        return not (room.per_rack and rack and self.racks[rack] >= room.per_rack) and not (
            room.per_group and group and self.groups[group] >= room.per_group
        )

    def fits_all(self, together: Sequence[Candidate]) -> bool:
        """Return whether all of them fit at once."""
        taken = 0
        for one in together:
            if not self.fits(one):
                break
            self.take(one)
            taken += 1
        for one in together[:taken]:
            self.take(one, -1)
        return taken == len(together)


def plan(
    candidates: Iterable[Candidate],
    busy: Iterable[Busy],
    room: Room,
    *,
    now: Instant,
    takes_ns: int,
    opens: Callable[[Instant], Instant],
) -> dict[str, Instant]:
    """Return when each candidate's turn begins; candidates without room have none.

    A turn lasts `takes_ns`; `opens` returns the first time from a given one on at which turns may begin.
    """
    use, ends = _Use(room), list[tuple[int, int, Candidate | Busy]]()
    lasting, number = _Use(room), 0
    for number, out in enumerate(busy, start=1):
        use.add(out)
        if out.until is None:
            lasting.add(out)
        else:
            ends.append((max(out.until, now), number, out))
    heapify(ends)
    coming = sorted(candidates, key=lambda one: (one.free_at, one.order))[::-1]
    ready, turns, moment = list[Candidate](), dict[str, Instant](), now
    places = Counter[tuple[str, str]]()
    for _ in range(MOMENTS_MAX):
        moment = opens(moment)
        while ends and ends[0][0] <= moment:
            _give(use, heappop(ends)[2])
        while coming and coming[-1].free_at <= moment:
            one = coming.pop()
            insort(ready, one, key=_order)
            places[one.rack, one.group] += not one.is_out
        chosen = _chosen(ready, use, lasting, places=places)
        for one in chosen:
            places[one.rack, one.group] -= not one.is_out
            turns[one.node] = moment
            number += 1
            heappush(ends, (moment + takes_ns, number, one))
        if chosen:
            ready, places = [one for one in ready if one.node not in turns], +places
        following = [ends[0][0]] if ends else []
        following += [coming[-1].free_at] if coming else []
        if not following or not (ready or coming):
            break
        moment = Instant(max(min(following), moment + 1))
    return turns


def _chosen(ready: list[Candidate], use: _Use, lasting: _Use, *, places: Iterable[tuple[str, str]]) -> list[Candidate]:
    """Return which free nodes take their turn now, in order, and count them as out of use.

    `places` are the racks and groups of nodes that are not out of use yet.
    """
    chosen = list[Candidate]()
    if not ready or (not ready[0].is_out and not _has_room(use, places)):
        return chosen
    for gang, members in groupby(ready, key=lambda one: one.gang):
        together = list(members)
        if gang and len(together) > 1 and not use.fits_all(together) and lasting.fits_all(together):
            break  # room for all of them comes: no later node takes it
        for one in together:
            if use.fits(one):
                use.take(one)
                chosen.append(one)
                if not one.is_out and not _has_room(use, places):
                    return chosen  # who stands behind is not out of use either
    return chosen


def _has_room(use: _Use, places: Iterable[tuple[str, str]]) -> bool:
    """Return whether a node in one of these places fits that is not out of use already."""
    return not use.is_full and any(use.is_open(rack, group) for rack, group in places)


def _order(one: Candidate) -> tuple[bool, int, int, str, str]:
    return one.order


def _give(use: _Use, ended: Candidate | Busy) -> None:
    if isinstance(ended, Busy):
        use.add(ended, -1)
    else:
        use.take(ended, -1)
