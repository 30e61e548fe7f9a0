"""The openb experiment: tasks arrive in random order and never leave, until they ask for more than the fleet has.

As in "Beware of Fragmentation" (USENIX ATC 2023): what counts is how much of all GPUs is allocated when the arrivals
amount to 100 % and to 130 % of them. Placement only; a task that finds no place is not tried again.

The order is that of `uniform(seed, "arrival", round, name)`: every task once in the first round, then every task again,
newly shuffled, until enough have come.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from muster.core.seeded import uniform
from muster.openb.trace import WHOLE_GPU_MILLI, OpenbNode, OpenbTask
from muster.placement import Fleet, GangRequest, GroupRequest, NodeShape, TaskShape
from muster.simulator.errors import InputError

ARRIVALS_PCT = (100, 130)
"""Arrivals, in per cent of the fleet's GPUs, at which the allocation is read."""


@dataclass(frozen=True, slots=True)
class Filling:
    """allocated_pct: by arrivals in per cent, the milli-GPUs allocated in per cent of all; beside it what came."""

    seed: int
    allocated_pct: dict[int, float]
    arrived: int
    placed: int

    def to_json(self) -> dict[str, JsonValue]:
        """Return {seed, allocated_pct: {"100": x, "130": y}, arrived, placed}."""
        allocated: dict[str, JsonValue] = {str(pct): round(found, 4) for pct, found in self.allocated_pct.items()}
        return {"seed": self.seed, "allocated_pct": allocated, "arrived": self.arrived, "placed": self.placed}


def fill(nodes: Sequence[OpenbNode], tasks: Sequence[OpenbTask], *, seed: int) -> Filling:
    """Run once. Raises InputError without a GPU to fill, or without a task that requests one."""
    fleet = Fleet()
    for node in nodes:
        fleet.add_node(NodeShape(node.name, node.cpu_milli, node.memory_mib, node.gpus, node.gpu_model))
    capacity = sum(node.gpus for node in nodes) * WHOLE_GPU_MILLI
    if not capacity:
        raise InputError("nodes", "no node has a GPU: there is nothing to fill")
    if not any(task.gpu_milli_total for task in tasks):
        raise InputError("tasks", "no task asks for a GPU: arrivals would never amount to the fleet's GPUs")
    shapes = {task.name: shape_of(task) for task in tasks}
    fleet.set_demand(Counter(shapes.values()))
    allocated: dict[int, float] = {}
    came = placed = asked = used = 0
    for task in _arrivals(tasks, seed):
        came += 1
        asked += task.gpu_milli_total
        holds = fleet.find(GangRequest((GroupRequest(shapes[task.name], 1),)))
        if holds is not None:
            fleet.hold(holds[0])
            placed += 1
            used += task.gpu_milli_total
        reached = [pct for pct in ARRIVALS_PCT if pct not in allocated and 100 * asked >= pct * capacity]
        allocated |= dict.fromkeys(reached, 100.0 * used / capacity)
        if len(allocated) == len(ARRIVALS_PCT):
            break
    return Filling(seed, allocated, came, placed)


def summary(runs: Sequence[Filling]) -> dict[str, JsonValue]:
    """Return several runs with their mean: {seeds, allocated_pct (mean), runs}."""
    mean: dict[str, JsonValue] = {
        str(pct): round(sum(run.allocated_pct[pct] for run in runs) / len(runs), 4) for pct in ARRIVALS_PCT
    }
    return {"seeds": len(runs), "allocated_pct": mean, "runs": [run.to_json() for run in runs]}


def shape_of(task: OpenbTask) -> TaskShape:
    """Return the request of this task to the placement engine."""
    return TaskShape(task.cpu_milli, task.memory_mib, task.gpus, task.gpu_milli, task.gpu_models)


def _arrivals(tasks: Sequence[OpenbTask], seed: int) -> Iterator[OpenbTask]:
    """Yield every task once in a random order, and again in another one, without end."""
    number = 0
    while True:
        yield from sorted(tasks, key=lambda task: (uniform(seed, "arrival", number, task.name), task.name))
        number += 1
