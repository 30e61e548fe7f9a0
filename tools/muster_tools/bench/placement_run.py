"""The placement engine alone, timed: many one-slot jobs on identical nodes, half of which fit.

The input is the one of Armada's benchmark (1,000 nodes of 32 slots, 64,000 jobs); the clock is an argument.
"""

from collections.abc import Callable
from dataclasses import dataclass

from muster.placement.fleet import Fleet
from muster.placement.shapes import GangRequest, GroupRequest, NodeShape, Shortage, TaskShape

SLOT_CPU_MILLI = 1_000
SLOT_MEMORY_MIB = 4_096


@dataclass(frozen=True, slots=True)
class BenchmarkInput:
    """Nodes, and jobs in the order in which they are tried; jobs of one shape are distinct objects, as in a queue."""

    nodes: tuple[NodeShape, ...]
    jobs: tuple[GangRequest, ...]


@dataclass(frozen=True, slots=True)
class BenchmarkFigures:
    """Times of a run: building the fleet, and deciding on (and holding) all jobs."""

    nodes: int
    jobs: int
    placed: int
    unplaced: int
    build_s: float
    decide_s: float
    decisions_per_s: float


def build_input(*, nodes: int = 1_000, slots_per_node: int = 32, jobs: int = 64_000) -> BenchmarkInput:
    """Return one-slot jobs for a fleet of identical nodes without GPUs."""
    return BenchmarkInput(
        nodes=tuple(
            NodeShape(f"node-{i:05}", SLOT_CPU_MILLI * slots_per_node, SLOT_MEMORY_MIB * slots_per_node, 0, "")
            for i in range(nodes)
        ),
        jobs=tuple(GangRequest((GroupRequest(TaskShape(SLOT_CPU_MILLI, SLOT_MEMORY_MIB), 1),)) for _ in range(jobs)),
    )


def run_benchmark(given: BenchmarkInput, perf_counter: Callable[[], float]) -> BenchmarkFigures:
    """Try every job once, hold the placed ones, and time it by `perf_counter` (seconds)."""
    started_s = perf_counter()
    fleet = Fleet()
    for node in given.nodes:
        fleet.add_node(node)
    built_s = perf_counter()
    placed = 0
    for job in given.jobs:
        answer = fleet.place(job)
        if not isinstance(answer, Shortage):
            for hold in answer:
                fleet.hold(hold)
            placed += 1
    ended_s = perf_counter()
    return BenchmarkFigures(
        nodes=len(given.nodes),
        jobs=len(given.jobs),
        placed=placed,
        unplaced=len(given.jobs) - placed,
        build_s=built_s - started_s,
        decide_s=ended_s - built_s,
        decisions_per_s=len(given.jobs) / max(ended_s - built_s, 1e-9),
    )
