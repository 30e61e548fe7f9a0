"""What is on its way, as if it were there: in the fleet itself, node by node, between decisions.

What stands on a node in thought is a function of what was folded about that node and of the choices that concern it,
so it does not matter when it was entered: nodes, devices and what is kept on them for whom it was chosen. Whatever is
folded about a node lifts it there first, so the fold only ever sees the real fleet; the next decision enters it again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from muster.placement import DEVICE_MILLI, Fleet, GangRequest, Hold, NodeShape, Slot, TaskShape, share_of
from muster.placement.growth import grow, shrink
from muster.placement.state import StateKey, fits, positions


@dataclass(frozen=True, slots=True)
class Kept:
    """Places on a node for replicas of one group of a gang."""

    gang: GangRequest
    group: int
    replicas: int


@dataclass(frozen=True, slots=True)
class Expected:
    """What a node will be. shape: of a node that is not there yet; is_usable: it joined and will be released.

    devices: so many more, of `model`. usable, unusable: devices that will be used, or will not any more, by index.
    kept: for whom places are kept.
    """

    shape: NodeShape | None = None
    is_usable: bool = False
    devices: int = 0
    model: str = ""
    usable: tuple[int, ...] = ()
    unusable: tuple[int, ...] = ()
    kept: Sequence[Kept] = ()

    @property
    def is_as_it_is(self) -> bool:
        """Whether the node is already what it will be."""
        return not (self.shape or self.is_usable or self.devices or self.usable or self.unusable or self.kept)


@dataclass(slots=True)
class _Entered:
    """What stands on a node in thought, to be taken back the last first."""

    expected: Expected
    model: str
    holds: list[Hold] = field(default_factory=list)


class Coming:
    """stale: nodes on which it has to be entered anew. version: grows whenever something was entered or lifted."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._entered: dict[str, _Entered] = {}
        self.stale: dict[str, None] = {}
        self.version = 0

    def lift(self, name: str) -> None:
        """The node is as it really is until it is entered again."""
        self.stale[name] = None
        entered = self._entered.pop(name, None)
        if entered is None:
            return
        self.version += 1
        fleet, expected = self._fleet, entered.expected
        for hold in reversed(entered.holds):
            fleet.withdraw(hold)
        for index in expected.unusable:
            fleet.set_device_usable(name, index, True)
        for index in expected.usable:
            fleet.set_device_usable(name, index, False)
        if expected.shape is not None:
            fleet.remove_node(name)
            return
        if expected.devices:
            shrink(fleet, name, expected.devices, model=entered.model)
        if expected.is_usable:
            fleet.set_usable(name, False)

    def enter(self, name: str, expected: Expected) -> None:
        """The node is as it will be, until it is lifted. It must have been lifted before."""
        self.stale.pop(name, None)
        if expected.is_as_it_is:
            return
        self.version += 1
        fleet = self._fleet
        if expected.shape is not None:
            fleet.add_node(expected.shape)
        entered = self._entered[name] = _Entered(expected, fleet.ledger.node(name).shape.gpu_model)
        if expected.is_usable:
            fleet.set_usable(name, True)
        if expected.devices:
            grow(fleet, name, expected.devices, model=expected.model)
        for index in expected.usable:
            fleet.set_device_usable(name, index, True)
        for index in expected.unusable:
            fleet.set_device_usable(name, index, False)
        for kept in expected.kept:
            for _ in range(kept.replicas):
                hold = hold_on(fleet, name, kept.gang.groups[kept.group].shape)
                if hold is None:
                    break
                fleet.hold(hold)
                entered.holds.append(hold)


class ChangedNodes:
    """Nodes of which something was folded since somebody took note."""

    def __init__(self, coming: Coming) -> None:
        self.names: dict[str, None] = {}
        self._coming = coming

    def mark(self, name: str) -> None:
        """Note that something about a node is about to change: what is only on its way goes first."""
        self._coming.lift(name)
        self.names[name] = None

    def mark_all(self, names: Iterable[str]) -> None:
        """As `mark`, of several."""
        for name in names:
            self.mark(name)


def hold_on(fleet: Fleet, name: str, shape: TaskShape) -> Hold | None:
    """What one replica would hold on this node, its tightest devices; None if it does not fit there now."""
    node = fleet.ledger.nodes[name]
    if node.state is None or not fits(node.state.key, shape):
        return None
    key: StateKey = node.state.key
    if shape.full_node:
        devices = tuple(node.shape.devices)
        milli = DEVICE_MILLI if devices else 0
        return Hold(node.shape.cpu_milli, node.shape.memory_mib, Slot(0, 0, name, devices, milli))
    share, taken, devices = 0, 0, tuple[int, ...]()
    if shape.gpus:
        share = DEVICE_MILLI
    elif shape.gpu_milli:
        taken = share_of(shape.gpu_milli, key.sizes)
        share = min(idle for idle in key.shares if idle >= taken)
    if key.parts:
        devices = node.devices_at(positions(key, shape, share))
    elif share:
        devices = node.devices_idle(share, shape.gpus or 1)
    return Hold(shape.cpu_milli, shape.memory_mib, Slot(0, 0, name, devices, taken or share))
