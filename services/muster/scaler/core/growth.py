"""One enlarging in thought: nodes get devices in the fleet itself, and lose them again when it is closed."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from muster.placement import DEVICE_MILLI, Fleet, Hold, TaskShape, share_of
from muster.placement.growth import grow, shrink
from muster.placement.state import UNBOUNDED_COUNT, StateKey, allows, count
from muster.scaler.core.able import Source
from muster.scaler.core.coming import hold_on


class Step(NamedTuple):
    """So many devices on this node give room for `gain` replicas more. Sorts as they are preferred.

    rate: devices per replica; watts: per replica; then seconds, and the CPU that the node has left.
    """

    rate: float
    watts: float
    ready_s: float
    cpu_milli: int
    node: str
    number: int
    devices: int
    gain: int
    source: Source


class Growth:
    """Devices that were added to nodes of a fleet, and holds, since it was opened; closing takes all of it back."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.added: dict[tuple[str, Source], int] = {}
        self.taken: list[tuple[str, int]] = []
        self._before: dict[str, str] = {}
        self._holds: list[Hold] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
        for node, source in reversed(list(self.added)):
            self.remove(node, source, self.added[node, source])
        for node, index in reversed(self.taken):
            self.fleet.set_device_usable(node, index, True)

    @property
    def devices(self) -> int:
        """How many were added in all."""
        return sum(self.added.values())

    def add(self, node: str, source: Source, devices: int) -> None:
        """So many more on this node."""
        self._before.setdefault(node, self.fleet.ledger.node(node).shape.gpu_model)
        grow(self.fleet, node, devices, model=source.model)
        key = node, source
        self.added[key] = self.added.get(key, 0) + devices

    def remove(self, node: str, source: Source, devices: int) -> None:
        """So many fewer of those that were added."""
        key = node, source
        left = self.added[key] - devices
        is_last = not left
        shrink(self.fleet, node, devices, model=self._before[node] if is_last else source.model)
        self.added[key] = left
        if is_last:
            del self.added[key]

    def take_away(self, node: str, index: int) -> None:
        """This device is not to be used: it goes elsewhere."""
        self.fleet.set_device_usable(node, index, False)
        self.taken.append((node, index))

    def hold(self, holds: Iterable[Hold]) -> None:
        """Something is held for the time being."""
        for hold in holds:
            self.fleet.hold(hold)
            self._holds.append(hold)

    def hold_among(self, names: Iterable[str], shape: TaskShape, replicas: int) -> bool:
        """Hold so many replicas on these nodes, the fullest first; False if there is no room for all."""
        nodes = self.fleet.ledger.nodes
        able = [(node.state.key, name) for name in names if (node := nodes[name]).state is not None]
        for _, name in sorted(able):
            while replicas and (hold := hold_on(self.fleet, name, shape)) is not None:
                self.hold((hold,))
                replicas -= 1
        return not replicas

    def release(self) -> None:
        """Give back what is held."""
        while self._holds:
            self.fleet.withdraw(self._holds.pop())


def steps_of(key: StateKey, shape: TaskShape, model: str, most: int) -> Sequence[tuple[int, int]]:
    """What more devices of this model would give a node in this state: (devices, replicas more), one after the other.

    most: devices that the node can still get. Each step costs at least as much per replica as the one before. Empty if
    devices are not what it lacks.
    """
    if not shape.holds_devices or shape.within_required or not allows(shape, model):
        return ()
    if shape.full_node:
        lacking = max(shape.gpus, 1) - len(key.shares)
        able = key.whole and key.cpu_milli >= shape.cpu_milli and key.memory_mib >= shape.memory_mib
        return ((lacking, 1),) if able and 0 < lacking <= most else ()
    bound = UNBOUNDED_COUNT
    if shape.cpu_milli:
        bound = key.cpu_milli // shape.cpu_milli
    if shape.memory_mib:
        bound = min(bound, key.memory_mib // shape.memory_mib)
    room = count(key, shape)
    if shape.gpus:
        whole = key.shares.count(DEVICE_MILLI)
        first = shape.gpus * (room + 1) - whole
        if bound <= room or first > most:
            return ()
        return [(first, 1)] + [(shape.gpus, 1)] * min(bound - room - 1, (most - first) // shape.gpus)
    taken = share_of(shape.gpu_milli, key.sizes)
    if not taken:
        return ()
    per = DEVICE_MILLI // taken
    gains = [min(per, bound - room - per * done) for done in range(most) if bound - room - per * done > 0]
    return [(1, gain) for gain in gains]
