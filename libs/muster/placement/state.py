"""Node states: nodes that offer the same are one case, decided once.

A fleet of thousands of nodes has few distinct states (openb: at most about 1,050 for 1,213 nodes, identical nodes: a
dozen), so answers about a request on a node are cached per state, and nodes only move between states.
"""

from collections.abc import Iterator
from typing import NamedTuple

from muster.placement.devices import Arrangement, after_taking, choose_share, choose_whole, whole_by_domain
from muster.placement.shapes import DEVICE_MILLI, TaskShape, share_of

UNBOUNDED_COUNT = 1 << 30
"""How many replicas of an empty request fit on a node: a limit, so that counts stay integers."""


class StateKey(NamedTuple):
    """Offer of a node. Sorted by the preference among nodes of equal score: fewest idle GPUs, then least CPU."""

    idle_milli: int
    cpu_milli: int
    memory_mib: int
    shares: tuple[int, ...]
    """Idle milli-GPUs of each usable device, ascending."""
    model: str
    whole: bool
    """Whether nothing is held and every device is usable, so that the whole node may be taken."""
    parts: Arrangement = ()
    """Idle shares by device domain, () for a node that declares none."""
    sizes: tuple[int, ...] = ()
    """Shares of a device that the node offers."""


class NodeState:
    """One state: its key, the sorted names of the nodes in it, and cached grades per request."""

    __slots__ = ("grades", "key", "names")

    def __init__(self, key: StateKey) -> None:
        self.key = key
        self.names: list[str] = []
        self.grades: dict[int, int] = {}


def fits(key: StateKey, shape: TaskShape) -> bool:
    """Return whether one replica fits on a node in this state."""
    if key.cpu_milli < shape.cpu_milli or key.memory_mib < shape.memory_mib:
        return False
    if not allows(shape, key.model) or (shape.within_required and not stands_within(key, shape, shape.within)):
        return False
    if shape.full_node:
        return key.whole and len(key.shares) >= max(shape.gpus, 1 if shape.gpu_milli else 0)
    shares = key.shares
    if shape.gpus:
        return len(shares) >= shape.gpus and shares[-shape.gpus] == DEVICE_MILLI
    if shape.gpu_milli:
        asked = share_of(shape.gpu_milli, key.sizes)
        return bool(shares) and shares[-1] >= asked > 0
    # A node that is taken as a whole has nothing left; not even an empty request fits.
    return bool(key.cpu_milli or key.memory_mib or key.idle_milli)


def allows(shape: TaskShape, model: str) -> bool:
    """Return whether a replica may run on nodes of this GPU model."""
    if shape.gpu_models and model not in shape.gpu_models:
        return False
    return model not in shape.models_excluded


def count(key: StateKey, shape: TaskShape) -> int:
    """Return exactly how many replicas fit on one node in this state."""
    if not fits(key, shape):
        return 0
    if shape.full_node:
        return 1
    most = UNBOUNDED_COUNT
    if shape.cpu_milli:
        most = key.cpu_milli // shape.cpu_milli
    if shape.memory_mib:
        most = min(most, key.memory_mib // shape.memory_mib)
    if shape.gpus:
        most = min(most, whole_sets(key, shape.gpus, shape.within if shape.within_required else ""))
    elif shape.gpu_milli:
        asked = share_of(shape.gpu_milli, key.sizes)
        most = min(most, sum(share // asked for share in key.shares))
    return most


def whole_sets(key: StateKey, gpus: int, level: str) -> int:
    """Return how many sets of idle devices there are, each within one domain of the level ("": anywhere)."""
    if not level:
        return key.shares.count(DEVICE_MILLI) // gpus
    return sum([idle // gpus for idle in whole_by_domain(key.parts, level)])


def stands_within(key: StateKey, shape: TaskShape, level: str) -> bool:
    """Return whether one domain of a level inside the node holds all devices of a replica that fits otherwise.

    A replica without devices is within any domain; a full node must be one domain.
    """
    if not shape.holds_devices and not (shape.full_node and key.shares):
        return True
    domains = whole_by_domain(key.parts, level)
    if shape.full_node:
        return len(domains) == 1
    return max(domains, default=-1) >= shape.gpus


def outcomes(key: StateKey, shape: TaskShape) -> Iterator[tuple[int, StateKey]]:
    """Yield (idle share of the chosen device, state afterwards) for each distinct choice of device, tightest first.

    The share is 1000 for whole devices and 0 if no device is chosen. The request must fit.
    """
    cpu, memory, shares, parts = (
        key.cpu_milli - shape.cpu_milli,
        key.memory_mib - shape.memory_mib,
        key.shares,
        key.parts,
    )
    if shape.full_node:
        parts = after_taking(parts, range(len(shares)), DEVICE_MILLI)
        yield DEVICE_MILLI, StateKey(0, 0, 0, (0,) * len(shares), key.model, False, parts, key.sizes)
    elif shape.gpus:
        left = (0,) * shape.gpus + shares[: -shape.gpus]
        if parts:
            parts = after_taking(parts, positions(key, shape, DEVICE_MILLI), DEVICE_MILLI)
        idle = key.idle_milli - DEVICE_MILLI * shape.gpus
        yield DEVICE_MILLI, StateKey(idle, cpu, memory, left, key.model, False, parts, key.sizes)
    elif shape.gpu_milli:
        asked = share_of(shape.gpu_milli, key.sizes)
        idle = key.idle_milli - asked
        for share in sorted({share for share in shares if share >= asked}):
            rest = list(shares)
            rest.remove(share)
            rest.append(share - asked)
            rest.sort()
            if key.parts:
                parts = after_taking(key.parts, positions(key, shape, share), asked)
            yield share, StateKey(idle, cpu, memory, tuple(rest), key.model, False, parts, key.sizes)
    else:
        yield 0, StateKey(key.idle_milli, cpu, memory, shares, key.model, False, parts, key.sizes)


def positions(key: StateKey, shape: TaskShape, share: int) -> tuple[int, ...]:
    """Return the devices of a replica on a node with device domains, by position in the arrangement.

    `share` is the idle share of the chosen device. The request must fit.
    """
    if shape.gpus:
        return choose_whole(key.parts, shape.gpus, shape.within if shape.within_required else "")
    return (choose_share(key.parts, share),) if shape.gpu_milli else ()
