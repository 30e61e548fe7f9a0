"""A placement engine as plain as the definition: every node is scored afresh for every request. Slow on purpose."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.placement import Hold, NodeShape, Slot, TaskShape


@dataclass
class NaiveNode:
    shape: NodeShape
    cpu_milli: int
    memory_mib: int
    idle: list[int]
    usable: bool = True
    broken: set[int] = field(default_factory=set)
    holds: int = 0

    def shares(self) -> list[int]:
        return [share for i, share in enumerate(self.idle) if i not in self.broken]

    def whole(self) -> bool:
        return not self.holds and not self.broken

    def after(self, hold: Hold) -> "NaiveNode":
        idle = [share - hold.slot.gpu_milli * (i in hold.slot.devices) for i, share in enumerate(self.idle)]
        return NaiveNode(
            self.shape,
            self.cpu_milli - hold.cpu_milli,
            self.memory_mib - hold.memory_mib,
            idle,
            self.usable,
            self.broken,
            self.holds + 1,
        )


def runs(node: NaiveNode, task: TaskShape) -> bool:
    if task.cpu_milli > node.cpu_milli or task.memory_mib > node.memory_mib:
        return False
    if task.gpu_models and node.shape.gpu_model not in task.gpu_models:
        return False
    if task.full_node:
        return node.whole() and len(node.idle) >= max(task.gpus, bool(task.gpu_milli))
    if task.gpus:
        return sum(share == 1000 for share in node.shares()) >= task.gpus
    if task.gpu_milli:
        return any(share >= task.gpu_milli for share in node.shares())
    return node.cpu_milli + node.memory_mib + sum(node.shares()) > 0


def fragmented(node: NaiveNode, demand: Mapping[TaskShape, float]) -> float:
    """F of one node, term by term."""
    total = sum(demand.values())
    idle = sum(node.shares())
    value = 0.0
    for task, weight in demand.items():
        request = 1000 if task.gpus else task.gpu_milli
        if not request or not runs(node, task):
            value += weight / total * idle
        elif not task.full_node:
            value += weight / total * sum(share for share in node.shares() if share < request)
    return value


def choices(node: NaiveNode, task: TaskShape) -> Iterable[Hold]:
    """Every hold worth comparing: one per device for a share, the first devices otherwise."""
    name, good = node.shape.name, [i for i in range(len(node.idle)) if i not in node.broken]
    if task.full_node:
        every = tuple(range(len(node.idle)))
        yield Hold(node.shape.cpu_milli, node.shape.memory_mib, Slot(0, 0, name, every, 1000 if every else 0))
    elif task.gpus:
        devices = tuple([i for i in good if node.idle[i] == 1000][: task.gpus])
        yield Hold(task.cpu_milli, task.memory_mib, Slot(0, 0, name, devices, 1000))
    elif task.gpu_milli:
        for i in sorted(good, key=lambda i: (node.idle[i], i)):
            if node.idle[i] >= task.gpu_milli:
                yield Hold(task.cpu_milli, task.memory_mib, Slot(0, 0, name, (i,), task.gpu_milli))
    else:
        yield Hold(task.cpu_milli, task.memory_mib, Slot(0, 0, name, (), 0))


def place(nodes: Iterable[NaiveNode], task: TaskShape, demand: Mapping[TaskShape, float]) -> Hold | None:
    """The best hold: most points, then fewest idle GPUs, least CPU left, least memory, name; then tightest device."""
    best: tuple[tuple[object, ...], Hold] | None = None
    for node in nodes:
        if not node.usable or not runs(node, task):
            continue
        before = fragmented(node, demand) if demand else 0.0
        for nth, hold in enumerate(choices(node, task)):
            points = 0
            if demand and not task.full_node:
                gain = before - fragmented(node.after(hold), demand)
                points = round(100 / (1 + math.exp(-round(gain, 6) / 1000)))
            shares = sorted(node.shares())
            key = (-points, sum(shares), node.cpu_milli, node.memory_mib, shares, node.shape.gpu_model, node.whole())
            rank = (*key, node.shape.name, nth)
            if best is None or rank < best[0]:
                best = (rank, hold)
    return None if best is None else best[1]
