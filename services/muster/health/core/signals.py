"""The port between the detectors (pages, checks) and the fold: fault signals wait here until their facts are folded.

A signal is no part of the state: an instance that takes over detects anew.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from muster.core import Instant
from muster.health.core.limits import SIGNALS_MAX, SIGNALS_PER_DECISION, TOGETHER_MAX


@dataclass(frozen=True, slots=True)
class FaultSignal:
    """Something that was seen of a node or of a device of it ("" else).

    is_lasting: a condition that the page goes on showing. is_over: its end. count: events of it since it was told last.
    at: when first. jobs: who holds the device, as the page or its reader says; may be empty.
    """

    node: str
    code: str
    at: Instant
    device: str = ""
    is_lasting: bool = False
    is_over: bool = False
    count: int = 1
    detail: str = ""
    jobs: tuple[str, ...] = ()
    is_minor: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """By which it waits: newer ones of the same are joined with it."""
        return self.node, self.device, self.code


_Row = dict[tuple[str, str, str], FaultSignal]


class FaultSignals:
    """Those that wait, by node, so that a storm on one node does not keep others waiting.

    parked: of nodes that others work on just now, until that ends. is_fresh: something came since the last decision.
    dropped: for want of room, by code.
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
        """Whether some wait to be told now."""
        return bool(self._waiting)

    def add(self, seen: FaultSignal) -> bool:
        """False if there is no room for it. A lasting fault and its end take each other's place."""
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
        """Some of those that wait to be told, of each node in turn; severe ones first."""
        found = list(islice(self._in_turn(most), 2 * most))
        found.sort(key=lambda seen: seen.is_minor)
        return found[:most]

    def park(self, seen: FaultSignal) -> None:
        """Not now: somebody works on its node or device."""
        row = self._waiting.get(seen.node)
        if row is not None and row.pop(seen.key, None) is not None:
            self._parked.setdefault(seen.node, {})[seen.key] = seen
            if not row:
                del self._waiting[seen.node]

    def unpark(self, node: str) -> None:
        """Those of the node wait to be told again."""
        row = self._parked.pop(node, None)
        if row:
            self.is_fresh = True
            self._waiting.setdefault(node, {}).update(row)

    def take(self, node: str, device: str, code: str) -> None:
        """It was told, or is of no interest any more."""
        for rows in (self._waiting, self._parked):
            row = rows.get(node)
            if row is not None and row.pop((node, device, code), None) is not None:
                self._count -= 1
                if not row:
                    del rows[node]

    def drop_node(self, node: str) -> None:
        """The node is gone."""
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
