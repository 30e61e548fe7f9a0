"""Queue of fault signals between the detectors (pages, checks) and the fold, until their facts are folded.

Signals are not part of the state: a new leader detects them again.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from muster.core import Instant
from muster.health.core.limits import SIGNALS_MAX, SIGNALS_PER_DECISION, TOGETHER_MAX


@dataclass(frozen=True, slots=True)
class FaultSignal:
    """An observation about a node or one of its devices (`device`)."""

    node: str
    code: str
    at: Instant
    """Time of the first event."""
    device: str = ""
    is_lasting: bool = False
    """Whether the page keeps showing the condition."""
    is_over: bool = False
    """Whether it is the end of the condition."""
    count: int = 1
    """Events since the last report."""
    detail: str = ""
    jobs: tuple[str, ...] = ()
    """Holders of the device according to the page; may be empty."""
    is_minor: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """Return its key in the queue: signals with equal keys are combined."""
        return self.node, self.device, self.code


_Row = dict[tuple[str, str, str], FaultSignal]


class FaultSignals:
    """Waiting signals by node, so that a storm on one node does not delay others.

    `parked` ones belong to nodes in maintenance. `is_fresh`: something arrived since the last decision. `dropped`
    counts signals without room, by code.
    """

    def __init__(self, *, most: int = SIGNALS_MAX) -> None:
        self.dropped: Counter[str] = Counter()
        self.is_fresh = False
        self._waiting: dict[str, _Row] = {}
        self._parked: dict[str, _Row] = {}
        self._count = 0
        self._most = most

    def __len__(self) -> int:
        return self._count

    @property
    def has_ready(self) -> bool:
        """Return whether some can be reported now."""
        return bool(self._waiting)

    def add(self, seen: FaultSignal) -> bool:
        """Queue a signal; False if there is no room. A lasting fault and its end replace each other."""
        self.is_fresh = True
        for rows in (self._waiting, self._parked):
            row = rows.get(seen.node)
            known = row.get(seen.key) if row is not None else None
            if row is not None and known is not None:
                if known.is_over == seen.is_over:
                    more = 0 if seen.is_lasting else seen.count
                    seen = replace(seen, at=known.at, count=known.count + more)
                row[seen.key] = seen
                return True
        if self._count >= (self._most // 2 if seen.is_minor else self._most):
            self.dropped[seen.code] += 1
            return False
        self._waiting.setdefault(seen.node, {})[seen.key] = seen
        self._count += 1
        return True

    def waiting(self, most: int = SIGNALS_PER_DECISION) -> list[FaultSignal]:
        """Return some waiting signals, of each node in turn, severe ones first."""
        found = list(islice(self._in_turn(most), 2 * most))
        found.sort(key=lambda seen: seen.is_minor)
        return found[:most]

    def park(self, seen: FaultSignal) -> None:
        """Keep a signal until the maintenance of its node or device ends."""
        row = self._waiting.get(seen.node)
        if row is not None and row.pop(seen.key, None) is not None:
            self._parked.setdefault(seen.node, {})[seen.key] = seen
            if not row:
                del self._waiting[seen.node]

    def unpark(self, node: str) -> None:
        """Queue the parked signals of the node."""
        row = self._parked.pop(node, None)
        if row:
            self.is_fresh = True
            self._waiting.setdefault(node, {}).update(row)

    def take(self, node: str, device: str, code: str) -> None:
        """Remove a signal that was reported or is obsolete."""
        for rows in (self._waiting, self._parked):
            row = rows.get(node)
            if row is not None and row.pop((node, device, code), None) is not None:
                self._count -= 1
                if not row:
                    del rows[node]

    def drop_node(self, node: str) -> None:
        """Forget a node that is gone."""
        self._count -= len(self._waiting.pop(node, {})) + len(self._parked.pop(node, {}))

    def _in_turn(self, nodes_most: int) -> Iterator[FaultSignal]:
        rings = [iter(row.values()) for row in islice(self._waiting.values(), nodes_most)]
        while rings:
            left = []
            for ring in rings:
                seen = tuple(islice(ring, TOGETHER_MAX))
                if seen:
                    yield from seen
                    left.append(ring)
            rings = left
