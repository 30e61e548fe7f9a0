"""Node states: nodes that offer the same are one case, decided once.

A fleet of thousands of nodes has few distinct states (openb: at most about 1,050 for 1,213 nodes, identical nodes: a
dozen), so what is worth knowing about a request on a node is remembered per state, and nodes only move between states.
"""

from collections.abc import Iterator
from typing import NamedTuple

from muster.placement.shapes import DEVICE_MILLI, TaskShape

UNBOUNDED_COUNT = 1 << 30
"""Replicas of a request that asks for nothing which fit on a node: a bound, so that counts stay integers."""


class StateKey(NamedTuple):
    """What a node offers now. `shares` are the idle milli-GPUs of each usable device, ascending.

    `whole`: nothing is held and every device is usable, so the node may be given away as one piece.
    Ordered as nodes of equal score are preferred: fewest idle GPUs first, then least CPU left.
    """

    idle_milli: int
    cpu_milli: int
    memory_mib: int
    shares: tuple[int, ...]
    model: str
    whole: bool


class NodeState:
    """One state: its key, the names of the nodes in it (sorted), and remembered grades per request."""

    __slots__ = ("grades", "key", "names")

    def __init__(self, key: StateKey) -> None:
        self.key = key
        self.names: list[str] = []
        self.grades: dict[int, int] = {}


def fits(key: StateKey, shape: TaskShape) -> bool:
    """Whether one replica fits on a node in this state."""
    if key.cpu_milli < shape.cpu_milli or key.memory_mib < shape.memory_mib:
        return False
    if shape.gpu_models and key.model not in shape.gpu_models:
        return False
    if shape.full_node:
        return key.whole and len(key.shares) >= max(shape.gpus, 1 if shape.gpu_milli else 0)
    shares = key.shares
    if shape.gpus:
        return len(shares) >= shape.gpus and shares[-shape.gpus] == DEVICE_MILLI
    if shape.gpu_milli:
        return bool(shares) and shares[-1] >= shape.gpu_milli
    # A node given away as one piece has nothing left; it must not take even a task that asks for nothing.
    return bool(key.cpu_milli or key.memory_mib or key.idle_milli)


def count(key: StateKey, shape: TaskShape) -> int:
    """How many replicas fit on one node in this state, exactly."""
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
        most = min(most, key.shares.count(DEVICE_MILLI) // shape.gpus)
    elif shape.gpu_milli:
        most = min(most, sum(share // shape.gpu_milli for share in key.shares))
    return most


def outcomes(key: StateKey, shape: TaskShape) -> Iterator[tuple[int, StateKey]]:
    """(idle share of the device chosen, state afterwards) of each different choice of device, tightest first.

    The share is 1000 for whole devices and 0 where no device is chosen. The request must fit.
    """
    cpu, memory, shares = key.cpu_milli - shape.cpu_milli, key.memory_mib - shape.memory_mib, key.shares
    if shape.full_node:
        yield DEVICE_MILLI, StateKey(0, 0, 0, (0,) * len(shares), key.model, False)
    elif shape.gpus:
        left = (0,) * shape.gpus + shares[: -shape.gpus]
        yield DEVICE_MILLI, StateKey(key.idle_milli - DEVICE_MILLI * shape.gpus, cpu, memory, left, key.model, False)
    elif shape.gpu_milli:
        idle = key.idle_milli - shape.gpu_milli
        for share in sorted({share for share in shares if share >= shape.gpu_milli}):
            rest = list(shares)
            rest.remove(share)
            rest.append(share - shape.gpu_milli)
            rest.sort()
            yield share, StateKey(idle, cpu, memory, tuple(rest), key.model, False)
    else:
        yield 0, StateKey(key.idle_milli, cpu, memory, shares, key.model, False)
