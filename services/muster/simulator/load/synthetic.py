"""A synthetic week: a regular fleet, queues in three levels, and jobs of all sizes. A function of its seed."""

import math
from dataclasses import dataclass

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.fleet import regular_fleet
from muster.core import Instant, after
from muster.core.seeded import exponential, lognormal, uniform
from muster.schemas.facts.queue import GPU, Defragment, QueueSpec
from muster.schemas.job import Checkpointing, JobSpec, TaskGroup, Topology
from muster.schemas.labels import EXIT_CODE, RUN_S
from muster.simulator.engine import START
from muster.simulator.load.play import Load
from muster.simulator.load.trace import Arrival, job_of

GPUS_PER_NODE = 8
ORGANISATIONS, TEAMS_EACH, PROJECTS_EACH = 4, 5, 5
RUN_SIGMA = 1.2
CHECKPOINT_INTERVAL_S = 3600.0
NODE_FAILURES_PER_DAY = 0.0005
FAILURE_SHARE = 0.02
RUN_S_LEAST, RUN_S_MOST = 30.0, 5 * 86_400.0


@dataclass(frozen=True, slots=True)
class _Size:
    """A sort of job: `share` of all, `replicas` of `gpus` GPUs each, median run time in hours (relative)."""

    share: float
    replicas: int
    gpus: float
    hours: float
    least: int | None = None
    level: str = ""


SIZES = (
    _Size(0.15, 1, 0.25, 1.5),
    _Size(0.40, 1, 1, 2.0),
    _Size(0.12, 1, 2, 3.0),
    _Size(0.10, 1, 4, 4.0),
    _Size(0.14, 1, 8, 5.0),
    _Size(0.04, 2, 8, 6.0),
    _Size(0.02, 4, 8, 8.0, 2),
    _Size(0.02, 8, 8, 8.0, None, "rack"),
    _Size(0.01, 16, 8, 10.0, None, "block"),
)


def synthetic_load(*, gpus: int, jobs: int, days: float, seed: int, load: float = 0.85) -> Load:
    """load: the GPU time that jobs ask for, of all that the fleet has in these days."""
    nodes = max(1, gpus // GPUS_PER_NODE)
    fleet = regular_fleet(
        nodes=nodes, gpus_per_node=GPUS_PER_NODE, gpu_model="H100", cpu_milli=128_000, memory_mib=1_048_576,
        rack_size=8, racks_per_block=8,
    )  # fmt: skip
    queues, leaves = _queues(nodes * GPUS_PER_NODE)
    return Load(
        name=f"{nodes * GPUS_PER_NODE} GPUs, {jobs} jobs, {days:g} days, seed {seed}",
        nodes=fleet,
        queues=queues,
        arrivals=_arrivals(jobs, days, seed, leaves, _stretch(nodes * GPUS_PER_NODE, jobs, days, load)),
        until=after(START, days * 86_400.0),
        behaviour=Behaviour(seed=seed, node_failures_per_day=NODE_FAILURES_PER_DAY, node_repair_s=4 * 3600.0),
    )


def _queues(gpus: int) -> tuple[list[tuple[str, QueueSpec]], list[str]]:
    """Return organizations that share the fleet evenly; their teams have 4/5 of it as quota; projects have none."""
    specs, leaves = [], []
    for org in range(ORGANISATIONS):
        specs.append(QueueSpec(name=f"org{org}"))
        for team in range(TEAMS_EACH):
            name = f"org{org}-team{team}"
            quota = 4 * gpus * 1000 // (5 * ORGANISATIONS * TEAMS_EACH)
            specs.append(QueueSpec(name=name, parent=f"org{org}", quota={GPU: quota}, weight=1.0 + team % 2))
            for project in range(PROJECTS_EACH):
                leaf = f"{name}-p{project}"
                specs.append(QueueSpec(name=leaf, parent=name))
                leaves.append(leaf)
    # No job uses the defragmentation advice here, and computing it means a search of the whole fleet.
    root = QueueSpec(name="fleet", quota={GPU: gpus * 1000 // 5}, defragment=Defragment.NEVER)
    named = [root, *(spec if spec.parent else spec.model_copy(update={"parent": "fleet"}) for spec in specs)]
    return [(f"queues[{index}]", spec) for index, spec in enumerate(named)], leaves


def _stretch(gpus: int, jobs: int, days: float, load: float) -> float:
    """Return the factor of the sizes' hours with which all jobs together request the load."""
    mean = math.exp(RUN_SIGMA**2 / 2)
    per_job_h = sum(size.share * size.replicas * size.gpus * size.hours * mean for size in SIZES)
    return load * gpus * days * 24 / (jobs * per_job_h)


def _arrivals(jobs: int, days: float, seed: int, leaves: list[str], stretch: float) -> list[Arrival]:
    mean_s = days * 86_400.0 / jobs
    at: Instant = START
    found = []
    for number in range(jobs):
        hour = (at - START) / 3.6e12 % 24
        busy = 1.0 + 0.5 * math.sin(math.tau * (hour - 9) / 24)  # people submit by day
        at = after(at, exponential(mean_s, seed, "gap", number) / busy)
        found.append((at, job_of(_spec(number, seed, leaves, stretch), at, key=str(number), principal="ada")))
    return found


def _spec(number: int, seed: int, leaves: list[str], stretch: float) -> JobSpec:
    size = _size(uniform(seed, "size", number))
    run_s = lognormal(size.hours * 3600 * stretch, RUN_SIGMA, seed, "run", number)
    share = round(size.gpus * 1000) if size.gpus < 1 else 0
    gpus = 0 if share else int(size.gpus)
    steady = uniform(seed, "steady", number) < 0.1
    queue = leaves[int(uniform(seed, "queue", number) ** 2 * len(leaves))]  # some ask for much more than others
    return JobSpec(
        name=f"job-{number}",
        team=queue,
        queue=queue,
        priority=(30, 50, 70)[int(uniform(seed, "priority", number) * 3)],
        preemptible=not steady,
        task_groups=(
            TaskGroup(
                replicas=size.replicas, min_replicas=size.least, gpus=gpus, gpu_milli=share,
                cpu_milli=max(1, gpus) * 8_000, memory_mib=max(1, gpus) * 65_536,
            ),
        ),
        topology=Topology(level=size.level) if size.level else None,
        checkpointing=Checkpointing(interval_s=CHECKPOINT_INTERVAL_S, restart_s=120.0)
        if size.gpus >= 1 and uniform(seed, "checkpoints", number) < 0.6
        else None,
        retries=1,
        labels={
            RUN_S: f"{min(RUN_S_MOST, max(RUN_S_LEAST, run_s)):f}",
            EXIT_CODE: "1" if uniform(seed, "fails", number) < FAILURE_SHARE else "0",
        },
    )  # fmt: skip


def _size(draw: float) -> _Size:
    for size in SIZES:
        draw -= size.share
        if draw < 0:
            return size
    return SIZES[1]
