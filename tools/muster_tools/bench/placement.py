"""The placement engine alone, without a bus, on the input of Armada's benchmark (Go: 0.9 to 1.0 s)."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from muster_tools.bench.placement_run import BenchmarkFigures, build_input, run_benchmark


@dataclass(frozen=True, slots=True)
class PlacementReport:
    """Results. rounds: one run each, on a fresh fleet. decide_s: of the median round and of the best one."""

    nodes: int
    jobs: int
    placed: int
    unplaced: int
    decide_s_median: float
    decide_s_min: float
    decisions_per_s_median: float
    rounds: tuple[BenchmarkFigures, ...]


def measure(
    *, nodes: int, slots_per_node: int, jobs: int, rounds: int, clock: Callable[[], float], done: Callable[[], None]
) -> PlacementReport:
    """Run `rounds` times; `clock` returns seconds, `done` is called after each round."""
    figures: list[BenchmarkFigures] = []
    for _ in range(rounds):
        given = build_input(nodes=nodes, slots_per_node=slots_per_node, jobs=jobs)
        figures.append(run_benchmark(given, clock))
        done()
    median_s = statistics.median(one.decide_s for one in figures)
    return PlacementReport(
        nodes=nodes,
        jobs=jobs,
        placed=figures[0].placed,
        unplaced=figures[0].unplaced,
        decide_s_median=round(median_s, 4),
        decide_s_min=round(min(one.decide_s for one in figures), 4),
        decisions_per_s_median=round(jobs / max(median_s, 1e-9)),
        rounds=tuple(figures),
    )
