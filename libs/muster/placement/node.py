"""One node in the ledger of a fleet: what it offers now, device by device."""

from collections.abc import Iterable, Sequence, Set

from muster.placement.devices import BROKEN, Arrangement, layout_of
from muster.placement.shapes import NodeShape
from muster.placement.state import NodeState
from muster.placement.topology import Domain


class Node:
    """One node: its shape, idle amounts by device, the number of holds, and its state (None: takes nothing new).

    `domains` are widest first. `idle` is 0 at places without a device. `broken` devices must not be used; `skipped`
    adds the places without a device. `moving` has the broken devices that are healthy, but leave or just joined;
    `is_moving` says the same of a whole unusable node.
    """

    __slots__ = (
        "_order",
        "broken",
        "cpu_milli",
        "domains",
        "holds",
        "idle",
        "is_moving",
        "layout",
        "memory_mib",
        "moving",
        "shape",
        "skipped",
        "state",
        "usable",
    )

    def __init__(self, shape: NodeShape, domains: Sequence[Domain]) -> None:
        self.shape = shape
        self.domains = domains
        self.cpu_milli = shape.cpu_milli
        self.memory_mib = shape.memory_mib
        self.idle = [shape.device_milli] * shape.gpu_count
        for index in shape.absent:
            self.idle[index] = 0
        self.broken: Set[int] = frozenset()
        self.skipped: Set[int] = shape.absent
        self.moving: Set[int] = frozenset()
        self.usable = True
        self.is_moving = False
        self.holds = 0
        self.state: NodeState | None = None
        self.layout = layout_of(shape.device_domains, shape.absent)
        self._order: list[int] = []

    def free_shares(self) -> list[int]:
        """Return the idle milli-GPUs of each usable device, ascending."""
        if not self.skipped:
            return sorted(self.idle)
        return sorted(share for index, share in enumerate(self.idle) if index not in self.skipped)

    def arrangement(self) -> Arrangement:
        """Return the idle shares of usable devices by domain; () if the node declares none."""
        if self.layout is None:
            return ()
        idle = tuple(self.idle)
        if self.broken:
            idle = tuple([BROKEN if index in self.broken else share for index, share in enumerate(idle)])
        tree, self._order = self.layout.arrange(idle)
        return self.layout.levels, tree

    def devices_at(self, positions: Iterable[int]) -> tuple[int, ...]:
        """Return the devices at these positions of the last returned arrangement, ascending."""
        return tuple(sorted([self._order[position] for position in positions]))

    def devices_idle(self, share: int, wanted: int) -> tuple[int, ...]:
        """Return the first `wanted` usable devices with exactly this idle share."""
        found = [i for i, idle in enumerate(self.idle) if idle == share and i not in self.skipped]
        return tuple(found[:wanted])

    def set_broken(self, devices: Set[int]) -> None:
        """Set the devices that must not be used."""
        self.broken = devices
        self.skipped = devices | self.shape.absent if devices else self.shape.absent
