"""What is planned to be held later: gangs that others, asked about after them, must not delay."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from muster.placement.fleet import Fleet
from muster.placement.shapes import Hold, Slot
from muster.placement.timeline import NEVER, Held, Ints, Nodes, Rows


class Planned:
    """The rows of a fleet with plans: on nodes with plans only what stays idle for good counts.

    at: the moment at which each owner's holds come free.
    """

    def __init__(self, nodes: Nodes, held: Held, at: Ints, *, now: int) -> None:
        self.rows = self._plain = Rows(nodes, held, at, start=now)
        self._nodes = nodes
        self._held = held
        self._at = at
        self._now = now
        self._touched = np.zeros(len(nodes), dtype=bool)

    def add(self, holds: Sequence[Hold], *, starts_at: int, ends_at: int) -> None:
        """Plan these holds from one moment to another."""
        taken, given = (Held(self._nodes, [holds], sign=sign) for sign in (-1, 1))
        self._held = self._held.joined(taken).joined(given)
        self._at = np.append(self._at, (max(starts_at, self._now), ends_at))
        self._touched[taken.place] = True
        lasting = Rows(self._nodes, self._held, self._at, start=self._now, among=self._touched, lasting=True)
        self.rows = self._plain.replaced(lasting)

    def touches(self, names: Iterable[str]) -> bool:
        """Whether anything is planned on one of these nodes."""
        return any(self._touched[self._nodes.places[name]] for name in names)

    @contextmanager
    def held(self, fleet: Fleet, at: int, places: Ints) -> Iterator[list[Hold]]:
        """Hold what is planned to be, so that only what counts is idle: at the moment in these places, now elsewhere.

        What comes free until then must not be held any more. Yields what is held instead of the plans.
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
        """What is idle on a node by the books but not by a row, one hold per amount that its devices differ by."""
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
    """The fleet as if these were not held, for as long as the context lasts; its version stays."""
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
    """What is left over on the nodes of a proposal, if it is carried out; negative while it is not possible."""

    def __init__(self, fleet: Fleet) -> None:
        self._ledger = fleet.ledger
        self._left: dict[str, list[int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def add(self, hold: Hold, sign: int) -> None:
        """Come free (1) or be taken (-1)."""
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
        """Whether a node has enough of everything."""
        return min(self._left[name]) >= 0


__all__ = ["NEVER", "Planned", "Spare", "without"]
