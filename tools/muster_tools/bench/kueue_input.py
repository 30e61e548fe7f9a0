"""The workload of Kueue's baseline performance test, in Muster's terms. Pure.

Source: kubernetes-sigs/kueue, test/performance/scheduler/configs/baseline/generator.yaml. Five cohorts of six queues;
in every queue three generators run at the same time. A cohort is a parent queue without quota of its own.
"""

import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass

from muster.schemas.facts.queue import CPU, PreemptionPolicy, QueueSpec, Reclaim, WithinQueue
from muster.schemas.labels import EXIT_CODE, RUN_S

COHORTS = 5
QUEUES_PER_COHORT = 6
NOMINAL_CPU_MILLI = 20_000
BORROWING_LIMIT_CPU_MILLI = 100_000
TEAM = "kueue"
STARVING_AFTER_S = 3_600.0  # Kueue makes no reservations for pending jobs


@dataclass(frozen=True, slots=True)
class JobClass:
    """One generator: `count` jobs per queue, one every `interval_s`, that hold `cpu_milli` for `run_s`."""

    name: str
    count: int
    interval_s: float
    run_s: float
    priority: int
    cpu_milli: int


CLASSES = (
    JobClass("small", 350, 0.1, 0.2, 50, 1_000),
    JobClass("medium", 100, 0.5, 0.5, 100, 5_000),
    JobClass("large", 50, 1.2, 1.0, 200, 20_000),
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that arrives `due_s` after the first. key: idempotency key and name, `<class>-<queue>-<number>`."""

    due_s: float
    key: str
    body: bytes


def queues() -> Iterator[QueueSpec]:
    """Yield all queues, parents before their children."""
    for cohort in range(COHORTS):
        yield QueueSpec(name=f"cohort-{cohort}")
        for number in range(QUEUES_PER_COHORT):
            yield QueueSpec(
                name=f"cq-{cohort}-{number}",
                parent=f"cohort-{cohort}",
                quota={CPU: NOMINAL_CPU_MILLI},
                borrowing_limit={CPU: BORROWING_LIMIT_CPU_MILLI},
                starving_after_s=STARVING_AFTER_S,
                preemption=PreemptionPolicy(
                    within_queue=WithinQueue.LOWER_PRIORITY, reclaim=Reclaim.ANY, fair_share=()
                ),
            )


def queue_names() -> tuple[str, ...]:
    """Return the names of the queues that accept jobs."""
    return tuple(spec.name for spec in queues() if spec.parent is not None)


def arrivals(share: float) -> Iterator[Arrival]:
    """Return all jobs in order of arrival. share: fraction of each generator's count, above 0 to 1."""
    streams = (_generator(one, queue, share) for one in CLASSES for queue in queue_names())
    return heapq.merge(*streams, key=lambda arrival: arrival.due_s)


def count(one: JobClass, share: float) -> int:
    """Return the number of jobs of a class in one queue."""
    return max(1, round(one.count * share))


def total(share: float) -> int:
    """Return the total number of jobs."""
    return len(queue_names()) * sum(count(one, share) for one in CLASSES)


def floor_s(share: float) -> float:
    """Return the lower bound of the run time: all work on all nominal CPUs."""
    work = sum(count(one, share) * one.cpu_milli * one.run_s for one in CLASSES)
    return work / NOMINAL_CPU_MILLI


def class_of(name: str) -> str:
    """Return the class of a job from its name."""
    return name.partition("-")[0]


def _generator(one: JobClass, queue: str, share: float) -> Iterator[Arrival]:
    for number in range(count(one, share)):
        key = f"{one.name}-{queue}-{number}"
        spec = {
            "name": key,
            "team": TEAM,
            "queue": queue,
            "priority": one.priority,
            "task_groups": [{"gpus": 0, "cpu_milli": one.cpu_milli, "memory_mib": 0}],
            "min_slice_s": 0,
            "grace_s": 0,
            "labels": {RUN_S: f"{one.run_s:g}", EXIT_CODE: "0"},
        }
        yield Arrival(number * one.interval_s, key, json.dumps(spec, separators=(",", ":")).encode())
