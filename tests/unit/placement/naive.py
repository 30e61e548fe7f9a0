"""A placement engine as plain as the definition: every node is scored afresh for every request. Slow on purpose."""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

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
    if node.shape.gpu_model in task.models_excluded:
        return False
    if task.within_required and not is_within(node, task, task.within):
        return False
    if task.full_node:
        return node.whole() and len(node.idle) >= max(task.gpus, bool(task.gpu_milli))
    if task.gpus:
        return sum(share == 1000 for share in node.shares()) >= task.gpus
    if task.gpu_milli:
        return any(share >= task.gpu_milli for share in node.shares())
    return node.cpu_milli + node.memory_mib + sum(node.shares()) > 0


def domains(node: NaiveNode, level: str) -> list[set[int]]:
    """The usable devices of each domain of a level inside the node."""
    numbers = dict(node.shape.device_domains).get(level, ())
    return [
        {i for i, number in enumerate(numbers) if number == wanted} - node.broken for wanted in sorted(set(numbers))
    ]


def is_within(node: NaiveNode, task: TaskShape, level: str) -> bool:
    """Whether one domain of the level has what the task asks; a task without devices needs none."""
    if task.full_node:
        return not node.shape.gpu_count or len(domains(node, level)) == 1
    if not task.gpus and not task.gpu_milli:
        return True
    return any(sum(node.idle[i] == 1000 for i in domain) >= task.gpus for domain in domains(node, level))


def device_sets(node: NaiveNode, wanted: int) -> list[tuple[int, ...]]:
    """All ways to choose so many idle whole devices, the closest together first and of those the tightest.

    Tightest: with the fewest idle devices in the narrowest domain that holds them, then in the domains around it.
    """
    idle = [i for i, share in enumerate(node.idle) if share == 1000 and i not in node.broken]
    return sorted(itertools.combinations(idle, wanted), key=lambda chosen: tightness(node, chosen))


def tightness(node: NaiveNode, chosen: tuple[int, ...]) -> tuple[int, ...]:
    """How many domains hold all of these devices (the more, the closer), then their idle devices, narrowest first."""
    idle = {i for i, share in enumerate(node.idle) if share == 1000 and i not in node.broken}
    levels = [[set(range(len(node.idle)))], *(domains(node, level) for level, _ in node.shape.device_domains)]
    around = [len(domain & idle) for level in levels for domain in level if domain >= set(chosen)]
    return (-len(around), *reversed(around))


def copy(nodes: Mapping[str, NaiveNode]) -> dict[str, NaiveNode]:
    """The nodes as they are now."""
    return {name: replace(node, idle=list(node.idle), broken=set(node.broken)) for name, node in nodes.items()}


def nested(node: NaiveNode, levels: tuple[str, ...], devices: set[int]) -> tuple[object, ...]:
    """The idle shares of these devices by domain, sorted at every level; broken devices have none."""
    if not levels:
        return tuple(sorted(node.idle[i] for i in devices - node.broken))
    numbers = dict(node.shape.device_domains)[levels[0]]
    parts = [{i for i in devices if numbers[i] == number} for number in {numbers[i] for i in devices}]
    return tuple(sorted(nested(node, levels[1:], part) for part in parts))


def is_apart(node: NaiveNode, wanted: int) -> bool:
    """Whether so many devices must stand further apart than if all usable ones were idle."""
    usable = NaiveNode(node.shape, 0, 0, [1000] * len(node.idle), broken=node.broken)
    levels = [level for level, _ in node.shape.device_domains]

    def depth(where: NaiveNode) -> int:
        best = set(device_sets(where, wanted)[0])
        return sum(any(domain >= best for domain in domains(node, level)) for level in levels)

    return depth(node) < depth(usable)


def rank(node: NaiveNode, task: TaskShape, points: int) -> tuple[object, ...]:
    """By what nodes are preferred, without what makes them different states only."""
    is_request = bool(task.within) and not task.within_required and is_within(node, task, task.within)
    is_close = True
    if node.shape.device_domains and task.gpus > 1 and not task.full_node:
        is_close = not node.whole() and not is_apart(node, task.gpus)
    shares = sorted(node.shares())
    state = (sum(shares), node.cpu_milli, node.memory_mib, shares, node.shape.gpu_model, node.whole())
    levels = tuple(level for level, _ in node.shape.device_domains)
    parts = (levels, nested(node, levels, set(range(len(node.idle))))) if levels else ()
    return (not is_request, -points, not is_close, *state, parts)


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


def stranded(node: NaiveNode, demand: Mapping[TaskShape, float]) -> float:
    """S of one node: what of its idle GPU its CPU or memory would not serve at the mean of the demand."""
    tasks = [(task, w) for task, w in demand.items() if (task.gpus or task.gpu_milli) and not task.full_node]
    gpus = sum(weight * (task.gpus + task.gpu_milli / 1000) for task, weight in tasks)
    idle = sum(node.shares())
    served = [float(idle)]
    for left, asked in [
        (node.cpu_milli, sum(weight * task.cpu_milli for task, weight in tasks)),
        (node.memory_mib, sum(weight * task.memory_mib for task, weight in tasks)),
    ]:
        served += [1000 * left * gpus / asked] if asked else []
    return idle - min(served)


def wasted(node: NaiveNode, demand: Mapping[TaskShape, float]) -> float:
    return fragmented(node, demand) + stranded(node, demand)


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
    """The best hold: most points, then fewest idle GPUs, least CPU left, least memory, name; then tightest device.

    On nodes with device domains only the node is meant, and the idle share of the device.
    """
    best: tuple[tuple[object, ...], Hold] | None = None
    for node in nodes:
        if not node.usable or not runs(node, task):
            continue
        before = wasted(node, demand) if demand else 0.0
        for nth, hold in enumerate(choices(node, task)):
            points = 0
            if demand and not task.full_node:
                gain = before - wasted(node.after(hold), demand)
                points = round(100 / (1 + math.exp(-round(gain, 6) / 1000)))
            key = (*rank(node, task, points), node.shape.name, nth)
            if best is None or key < best[0]:
                best = (key, hold)
    return None if best is None else best[1]
