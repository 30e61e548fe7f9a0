"""What the scheduler's decisions cost when much waits: `PYTHONPATH=tests .venv/bin/python -m bench.scheduler_waiting`.

A full fleet, then thousands of jobs that wait in lanes (queue x request), then jobs that end one after the other in
virtual time. Only the core runs: no bus, no process time of anything else. Times are process time, so that they hold
on a machine that does other things too.
"""

import argparse
import dataclasses
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator

from kit.scheduler import VirtualScheduler, job
from muster.core import NS_PER_S, Instant
from muster.schemas.facts.job import PodsExited, PodsOutcome
from muster.schemas.job import Job, Phase

GPU_SIZES = (1, 1, 1, 2, 2, 4, 4, 8)
ENDS_PER_S = 20.0
"""Virtual: what must be said at most once in 5 s weighs as it would in such a cluster."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """How much there is. required: the share of gangs of four that want one rack."""

    nodes: int
    waiting: int
    queues: int
    shapes: int
    ends: int
    required: float


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """Process time. end_ms: all decisions that one job's end leads to; idle_us: a decision with nothing to decide."""

    lanes: int
    waiting: int
    fill_s: float
    end_ms_mean: float
    end_ms_p50: float
    end_ms_p99: float
    end_ms_max: float
    decision_ms_max: float
    decisions_per_end: float
    placed_per_end: float
    told_per_end: float
    idle_us: float
    surge_us: float


class Clocked:
    """A world whose decisions are timed."""

    def __init__(self, world: VirtualScheduler) -> None:
        self.world = world
        self.spent_s = 0.0
        self.longest_s = 0.0
        self.decisions = 0
        self.said: dict[str, int] = {}

    def settle(self) -> None:
        """Decide and fold until there is nothing more to say."""
        world = self.world
        while True:
            began_s = time.process_time()
            drafts = world.core.decide(world.now)
            took_s = time.process_time() - began_s
            self.spent_s += took_s
            self.longest_s = max(self.longest_s, took_s)
            self.decisions += 1
            if not drafts and world.core.next_wakeup() != world.now:
                return
            for draft in drafts:
                self.said[draft.name] = self.said.get(draft.name, 0) + 1
                world.append("scheduler", draft)

    def end(self, record_id: str, attempt: int) -> float:
        """One job ends. Returns the seconds of all decisions that follow from it."""
        before_s = self.spent_s
        world = self.world
        world.now = Instant(world.now + round(NS_PER_S / ENDS_PER_S))
        payload = PodsExited(attempt=attempt, outcome=PodsOutcome.SUCCEEDED, exit_code=0, ran_s=1.0)
        world.write("agent", "job", record_id, "pods-exited", payload)
        self.settle()
        return self.spent_s - before_s


def build(scale: Scale) -> VirtualScheduler:
    """An empty fleet in racks of eight, and its queues."""
    world = VirtualScheduler(queues=[f"q{index}" for index in range(scale.queues)])
    for index in range(scale.nodes):
        world.join_quietly(f"n{index:05}", gpus=8, rack=f"r{index // 8}")
    return world


def holders(scale: Scale) -> Iterator[Job]:
    """Jobs that fill every GPU, of many CPU sizes, so that hardly two nodes are in the same state."""
    rng = random.Random(1)
    left, index = scale.nodes * 8, 0
    while left:
        gpus = min(rng.choice(GPU_SIZES), left)
        left -= gpus
        cpu, memory = 1_000 + 100 * rng.randrange(60), 4_096 + 512 * rng.randrange(60)
        queue = f"q{index % scale.queues}"
        yield job(f"h{index}", queue=queue, gpus=gpus, cpu_milli=cpu * gpus, memory_mib=memory * gpus)
        index += 1


def waiters(scale: Scale) -> Iterator[Job]:
    """Jobs of so many requests, one gang in four; some gangs want one rack."""
    rng = random.Random(2)
    shapes: list[dict[str, object]] = []
    for index in range(scale.shapes):
        gpus = GPU_SIZES[index % len(GPU_SIZES)]
        shape: dict[str, object] = {"gpus": gpus, "cpu_milli": 1_000 * gpus + 10 * index, "memory_mib": 8_192 * gpus}
        if index % 4 == 3:
            shape["replicas"] = rng.choice((2, 4, 8, 16, 64))
            if rng.random() < scale.required:
                shape["topology"], shape["replicas"] = {"level": "rack", "required": True}, 4
        shapes.append(shape)
    for index in range(scale.waiting):
        queue = f"q{index % scale.queues}"
        yield job(f"w{index}", queue=queue, **dict(shapes[index // scale.queues % scale.shapes]))


def measure(scale: Scale) -> Figures:
    """Fill the fleet, let jobs wait, end some, decide on nothing, and place a surge on an empty fleet."""
    world = build(scale)
    clock = Clocked(world)
    clock.settle()
    world.route(*holders(scale))
    clock.settle()
    before_s = clock.spent_s
    world.route(*waiters(scale))
    clock.settle()
    fill_s = clock.spent_s - before_s
    pending = world.core.state.pending.queues.values()
    lanes, waiting = len(pending), sum(len(one.jobs) for one in pending)
    clock.decisions, clock.longest_s, clock.said = 0, 0.0, {}
    spent = [clock.end(*one) for one in _victims(world, scale.ends)]
    ends, said = len(spent), clock.said
    decisions = clock.decisions
    return Figures(
        lanes=lanes,
        waiting=waiting,
        fill_s=fill_s,
        end_ms_mean=1e3 * statistics.fmean(spent),
        end_ms_p50=1e3 * statistics.median(spent),
        end_ms_p99=1e3 * statistics.quantiles(spent, n=100)[98],
        end_ms_max=1e3 * max(spent),
        decision_ms_max=1e3 * clock.longest_s,
        decisions_per_end=decisions / ends,
        placed_per_end=said.get("placed", 0) / ends,
        told_per_end=said.get("unschedulable", 0) / ends,
        idle_us=1e6 * _idle_s(world),
        surge_us=1e6 * _surge_s(scale),
    )


def _victims(world: VirtualScheduler, ends: int) -> Iterator[tuple[str, int]]:
    """Jobs that hold something, in an order that does not depend on how decisions are made."""
    rng = random.Random(3)
    for _ in range(ends):
        records = world.core.state.jobs.records
        while True:
            name = world.log[rng.randrange(len(world.log))].subject_id
            record = records.get(name)
            if record is not None and record.phase is Phase.PLACED:
                yield record.id, record.attempt
                break


def _idle_s(world: VirtualScheduler, rounds: int = 200) -> float:
    world.core.decide(world.now)
    began_s = time.process_time()
    for _ in range(rounds):
        world.core.decide(world.now)
    return (time.process_time() - began_s) / rounds


def _surge_s(scale: Scale, jobs: int = 4_000) -> float:
    """Routed, queued and placed on an empty fleet: decisions and folds, per job."""
    world = build(scale)
    clock = Clocked(world)
    clock.settle()
    arrivals = [
        job(f"s{index}", queue=f"q{index % scale.queues}", gpus=GPU_SIZES[index % len(GPU_SIZES)])
        for index in range(jobs)
    ]
    spent_s = 0.0
    for start in range(0, jobs, 100):
        world.route(*arrivals[start : start + 100])
        while True:
            began_s = time.process_time()
            drafts = world.core.decide(world.now)
            spent_s += time.process_time() - began_s
            if not drafts:
                break
            facts = [_as_fact(world, draft) for draft in drafts]
            began_s = time.process_time()
            for fact in facts:
                world.core.apply(fact)
            spent_s += time.process_time() - began_s
    return spent_s / jobs


def _as_fact(world: VirtualScheduler, draft: object) -> object:
    """The fact that a draft becomes, appended but not folded."""
    core, world.core = world.core, _Deaf()
    try:
        return world.append("scheduler", draft)
    finally:
        world.core = core


class _Deaf:
    def apply(self, fact: object) -> None:
        """Fold nothing."""


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nodes", 1_750), ("waiting", 10_000), ("queues", 5), ("shapes", 300), ("ends", 300)):
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--required", type=float, default=0.2, help="share of the gangs that want one rack")
    figures = dataclasses.asdict(measure(Scale(**vars(options.parse_args()))))
    sys.stdout.write(json.dumps({name: round(value, 3) for name, value in figures.items()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
