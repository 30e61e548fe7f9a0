"""When there is enough room: the rows of a timeline in order of time, within each domain."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from muster.placement.plans import shapes_of
from muster.placement.shapes import NODE_LEVEL, GangRequest, GroupRequest, TaskShape
from muster.placement.timeline import Ints, Nodes, Rows


class Wanted(NamedTuple):
    """The minimum of one group: replicas of a shape within one domain of the level ("": anywhere)."""

    shape: TaskShape
    replicas: int
    level: str


def wanted(gang: GangRequest, nodes: Nodes, device_levels: Collection[str]) -> list[Wanted]:
    """Return the conditions for a gang to fit, per group; sufficient for one group. `device_levels` as in `plans`."""

    def level(group: GroupRequest) -> str:
        request = group.topology
        if request is not None and request.required and (request.level == NODE_LEVEL or request.level in nodes.levels):
            return request.level
        return ""

    shapes = shapes_of(gang, device_levels)
    return [Wanted(shape, group.replicas_least, level(group)) for shape, group in zip(shapes, gang.groups, strict=True)]


def required_level(gang: GangRequest, nodes: Nodes) -> str:
    """Return the level of which the whole gang requires one domain; "" for none."""
    request = gang.topology
    is_between_nodes = request is not None and (request.level == NODE_LEVEL or request.level in nodes.levels)
    return request.level if request is not None and request.required and is_between_nodes else ""


class Moment(NamedTuple):
    """The time at which all groups have room, and the nodes on which it is; empty for none."""

    at: int
    among: Ints


class Calendar:
    """Rows in order of time within each domain, to find when there is enough room."""

    def __init__(self, rows: Rows, domains: Ints) -> None:
        self._rows = rows
        self._domains = domains
        domain = domains[rows.node]
        order = np.lexsort((rows.at, domain))
        self._order = order[np.searchsorted(domain[order], 0) :]
        self._domain, self._at = domain[self._order], rows.at[self._order]
        ends = np.ones(len(self._order), dtype=bool)
        ends[:-1] = (self._at[1:] != self._at[:-1]) | (self._domain[1:] != self._domain[:-1])
        self._ends = np.flatnonzero(ends)
        starts = np.ones(len(self._order), dtype=bool)
        starts[1:] = self._domain[1:] != self._domain[:-1]
        self._starts = np.flatnonzero(starts)
        self._sizes = np.diff(np.append(self._starts, len(self._order)))

    def room(self, room: Ints) -> Ints:
        """Return per (domain, time) in order: the room of the whole domain from then on, from the room per row."""
        steps = room.copy()
        steps[1:] -= np.where(self._rows.first[1:], 0, room[:-1])
        steps = steps[self._order]
        total = np.cumsum(steps)
        before = total[self._starts] - steps[self._starts]
        return (total - np.repeat(before, self._sizes))[self._ends]

    def moments(self, groups: Sequence[Wanted]) -> list[Moment]:
        """Return when each domain first has room for all groups at once, each counted alone; the earliest first."""
        if not len(self._order):
            return []
        ok = np.ones(len(self._ends), dtype=bool)
        spare = np.zeros(len(self._ends), np.int64)
        for group in groups:
            room = self.room(self._rows.room(group.shape))
            ok &= room >= group.replicas
            spare += room
        found = np.flatnonzero(ok)
        if not len(found):
            return []
        domain, at = self._domain[self._ends[found]], self._at[self._ends[found]]
        _, firsts = np.unique(domain, return_index=True)
        # Of domains that have room at the same time the tightest comes first.
        ranked = sorted(firsts.tolist(), key=lambda i: (int(at[i]), int(spare[found[i]]), int(domain[i])))
        return [Moment(int(at[i]), np.flatnonzero(self._domains == domain[i])) for i in ranked]
