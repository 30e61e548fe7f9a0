"""Benchmark of the scaler's core alone: from the fact that a job is unschedulable to the drafts of the choice for it.

Only `apply` of that fact and `decide` are timed. Between the measurements the rest of the cluster is simulated: the
devices arrive and become usable, the job runs and ends, and its devices return, so that fleet and pool are never twice
in the same state.
"""

import gc
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass

from muster.bus.host import COLLECTOR_THRESHOLDS
from muster.cli import output
from muster.cli.machine import this_machine
from muster.cli.options import Output
from muster.cli.progress import counting
from muster.core import Fact
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.job import TaskGroup
from muster_tools.bench.figures import print_figures
from muster_tools.bench.scale_cell import Cell
from muster_tools.bench.scale_input import Scale, job, wanting

POOL_LEFT = 0.4
"""Share of the pool below which the oldest served jobs end."""
WARM_UP = 20
"""Decisions before the measured ones: every shape was seen twice."""
EVERY_S = 2.0
"""Virtual seconds between two jobs."""
BURST = 1_000
"""Number of unschedulable jobs of one shape that arrive at once."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Distribution in milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class ScaleReport:
    """Results of the benchmark."""

    nodes: int
    attached: int
    pool: int
    held: int
    decisions: int
    decision: Latency
    """From one fact to its drafts."""
    cpu: Latency
    """The same in processor time."""
    chosen: dict[str, int]
    """Number of choices by kind."""
    gpus: int
    """Total number of chosen devices."""
    burst: int
    """Number of jobs of one shape that arrive at once."""
    burst_served: int
    """Number of those that got devices."""
    burst_decisions: int
    """Number of decisions for the burst."""
    burst_ms: float
    """Time of all these decisions."""
    burst_longest_ms: float
    """Time of the longest one."""
    nothing_ms: float
    """Time of a decision without changes."""


def measure(scale: Scale, *, decisions: int, say: Callable[[str], None], done: Callable[[], None]) -> ScaleReport:
    """Fill the fleet, then submit one unschedulable job after the other. done: called after each decision."""
    say(f"filling {scale.nodes} nodes")
    cell = Cell(scale)
    cell.finish()
    held, attached = len(cell.core.state.jobs.records), len(cell.core.state.attachments.all)
    coming, took, cpu, chosen, gpus = wanting(), list[float](), list[float](), Counter[str](), 0
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)  # all as the host of the services does once they have recovered
    say("deciding")
    for number in range(-WARM_UP, decisions):
        one = next(coming)
        asks_gpus = any(group.gpus for group in one.spec.task_groups)
        told = cell.come(one, reason="gpu" if asks_gpus else "memory")
        wall_ms, cpu_ms, facts = _decide(cell, told)
        if number >= 0:
            took.append(wall_ms)
            cpu.append(cpu_ms)
            chosen.update([fact.name for fact in facts])
            gpus += sum(fact.payload.count for fact in facts if isinstance(fact.payload, ScaleChosen))
            done()
        _play(cell, facts, one.id)
        if one.id in cell.core.state.jobs.records and not cell.start(one):
            cell.end(one)
        while cell.running and cell.pool_share() < POOL_LEFT:
            cell.retire()
            cell.give_back()
        cell.finish()
        cell.skip(EVERY_S)
    say(f"{BURST} at once")
    served, rounds, longest_ms, burst_ms = _burst(cell)
    return ScaleReport(
        nodes=scale.nodes,
        attached=attached,
        pool=scale.pool,
        held=held,
        decisions=decisions,
        decision=latency(took),
        cpu=latency(cpu),
        chosen=dict(sorted(chosen.items())),
        gpus=gpus,
        burst=BURST,
        burst_served=served,
        burst_decisions=rounds,
        burst_ms=burst_ms,
        burst_longest_ms=longest_ms,
        nothing_ms=_nothing(cell),
    )


def latency(took_ms: list[float]) -> Latency:
    """Return the distribution of at least one measurement."""
    ordered = sorted(took_ms)
    return Latency(*(round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3) for share in (0.5, 0.99, 1.0)))


def _decide(cell: Cell, told: Fact) -> tuple[float, float, list[Fact]]:
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    cell.core.apply(told)
    drafts = cell.core.decide(cell.now)
    wall_ms, cpu_ms = 1e3 * (time.perf_counter() - wall_s), 1e3 * (time.process_time() - cpu_s)
    return wall_ms, cpu_ms, [cell.decided(draft) for draft in drafts]


def _play(cell: Cell, facts: list[Fact], job_id: str) -> None:
    cell.carry_out([fact for fact in facts if getattr(fact.payload, "jobs", ()) == (job_id,)])
    cell.finish()


def _burst(cell: Cell) -> tuple[int, int, float, float]:
    """Submit many jobs of one shape at once; return served jobs, decisions, the longest and the total time in ms."""
    group = TaskGroup(gpus=2, cpu_milli=4_000)
    told = [cell.come(job(f"burst-{number}", group), reason="gpu") for number in range(BURST)]
    served, rounds, took = 0, 0, list[float]()
    begin = time.perf_counter()
    for fact in told:
        cell.core.apply(fact)
    folded_ms = 1e3 * (time.perf_counter() - begin)
    while True:
        begin = time.perf_counter()
        drafts = cell.core.decide(cell.now)
        took.append(1e3 * (time.perf_counter() - begin))
        rounds += 1
        for draft in drafts:
            cell.decided(draft)
        served += sum(isinstance(draft.payload, ScaleChosen) for draft in drafts)
        if not drafts and cell.core.next_wakeup() != cell.now:
            return served, rounds, round(max(took), 3), round(folded_ms + sum(took), 3)


def _nothing(cell: Cell) -> float:
    begin = time.perf_counter()
    cell.core.decide(cell.now)
    return round(1e3 * (time.perf_counter() - begin), 3)


def run(scale: Scale, *, decisions: int, form: Output) -> None:
    """Run the benchmark and print its results."""
    machine = this_machine()
    with counting("decisions", total=decisions) as advance:
        found = measure(scale, decisions=decisions, say=output.print_note, done=advance)
    print_figures(machine, asdict(found), _rows(found), form=form)


def _rows(found: ScaleReport) -> list[tuple[str, str]]:
    burst = (
        f"{found.burst_served} served in {found.burst_decisions} decisions, {found.burst_ms:,.0f} ms in all, "
        f"{found.burst_longest_ms:,.1f} ms the longest"
    )
    chosen = ", ".join(f"{n} {name}" for name, n in found.chosen.items())
    return [
        ("input", f"{found.nodes} nodes, {found.attached} GPUs on them, {found.held} jobs, {found.pool} in the pool"),
        ("from fact to choice", f"{_words(found.decision)} of {found.decisions}"),
        ("  of it processor time", _words(found.cpu)),
        ("chosen", f"{chosen}; {found.gpus} GPUs in all"),
        (f"{found.burst} jobs at once", burst),
        ("nothing changed", f"{found.nothing_ms:.3f} ms"),
    ]


def _words(latency: Latency) -> str:
    return f"{latency.p50_ms:.1f} ms median, {latency.p99_ms:.1f} ms p99, {latency.max_ms:.1f} ms max"
