"""The input of the cycle benchmark: a fleet, a queue tree, jobs that fill the fleet and pending jobs. Pure, seeded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from muster.core.seeded import uniform
from muster.schemas import ids
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.queue import GPU, QueueSpec
from muster.schemas.job import Checkpointing, Job, JobSpec, TaskGroup, Topology

T = TypeVar("T")

GPUS_PER_NODE = 8
NODES_PER_RACK = 8
RACKS_PER_BLOCK = 8
SEED = 1
ORGANISATION = "org"
STARVING_AFTER_S = 60.0
DEPARTMENTS_MAX = 9
REPLICA_GPUS = (1, 1, 1, 2, 2, 4, 4, 8)
GANG_REPLICAS = (2, 2, 4, 4, 8, 16)
"""Sizes of gangs in whole nodes: 16 to 128 GPUs."""
GANG_SHARE = 0.25
RACK_SHARE = 0.2
"""Fraction of the gangs that require one rack, of those that fit one."""
PRIORITIES = (10, 50, 50, 50, 90)
SHAPES = 300
"""Number of different requests among the pending jobs. Each team reuses some of them."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Size of the input."""

    gpus: int
    """GPUs of the fleet."""
    pending: int
    """Number of jobs pending when the fleet is full."""
    queues: int
    """Number of queues in the tree, in three levels."""
    shapes: int = 16
    """Number of different requests among the pending jobs of one queue."""

    @property
    def nodes(self) -> int:
        """Return the number of nodes of the fleet."""
        return self.gpus // GPUS_PER_NODE


def fleet(scale: Scale) -> Iterator[tuple[str, NodeJoined]]:
    """Yield nodes of 8 GPUs in racks of 8 nodes and blocks of 8 racks."""
    half, pairs = (0,) * 4 + (1,) * 4, (0, 0, 1, 1, 2, 2, 3, 3)
    for index in range(scale.nodes):
        name, rack = f"gpu-{index:05}", index // NODES_PER_RACK
        yield (
            name,
            NodeJoined(
                cpu_milli=128_000,
                memory_mib=1_048_576,
                gpu_model="H100",
                gpu_uuids=tuple(f"{name}-{device}" for device in range(GPUS_PER_NODE)),
                domains=(("block", f"b{rack // RACKS_PER_BLOCK}"), ("rack", f"r{rack}")),
                device_domains=(("socket", half), ("pair", pairs)),
            ),
        )


def queues(scale: Scale) -> Iterator[QueueSpec]:
    """Yield an organization, departments, and teams whose nominal quotas add up to the fleet, with borrowing."""
    yield QueueSpec(name=ORGANISATION, starving_after_s=STARVING_AFTER_S)
    departments = min(DEPARTMENTS_MAX, scale.queues - 2)
    for number in range(departments):
        yield QueueSpec(name=f"dep-{number}", parent=ORGANISATION, weight=1.0 + number % 3)
    teams = team_names(scale)
    nominal = scale.gpus * 1000 // len(teams)
    for number, name in enumerate(teams):
        share = (500, 1000, 1500)[number % 3]  # thousandths of an equal part; three in a row are three equal parts
        limit = {GPU: 2 * nominal} if number % 3 == 0 else {}
        yield QueueSpec(
            name=name,
            parent=f"dep-{number % departments}",
            quota={GPU: nominal * share // 1000},
            borrowing_limit=limit,
            weight=1.0 + number % 2,
        )


def team_names(scale: Scale) -> tuple[str, ...]:
    """Return the names of the queues that accept jobs."""
    return tuple(f"team-{number}" for number in range(max(1, scale.queues - 1 - DEPARTMENTS_MAX)))


def holders(scale: Scale) -> Iterator[Job]:
    """Yield jobs for every GPU, with many CPU sizes, so that hardly two nodes are in the same state.

    Every other team requests three times as much as the rest: it borrows.
    """
    teams = team_names(scale)
    asking = [name for number, name in enumerate(teams) for _ in range(3 if number % 2 else 1)]
    left, index = scale.gpus, 0
    while left:
        name = f"holder-{index}"
        group = _group(name)
        if group.replicas * group.gpus > left:
            group = TaskGroup(gpus=1, cpu_milli=8_000, memory_mib=65_536)
        left -= group.replicas * group.gpus
        yield _job(name, pick(asking, name, "team"), group, index=index)
        index += 1


def waiters(scale: Scale) -> Iterator[Job]:
    """Yield jobs that arrive when the fleet is full, evenly over all teams; some gangs require one rack."""
    shapes = [_group(f"shape-{number}") for number in range(SHAPES)]
    teams = team_names(scale)
    for index in range(scale.pending):
        team, number = index % len(teams), index // len(teams)
        group = shapes[(team * scale.shapes + number % scale.shapes) % SHAPES]
        yield _job(f"waiter-{index}", teams[team], group, index=index)


def comers(scale: Scale) -> Iterator[Job]:
    """Yield an endless sequence of jobs of the same kinds."""
    shapes = [_group(f"shape-{number}") for number in range(SHAPES)]
    teams = team_names(scale)
    index = 0
    while True:
        name = f"comer-{index}"
        team = pick(range(len(teams)), name, "team")
        group = shapes[(team * scale.shapes + pick(range(scale.shapes), name, "shape")) % SHAPES]
        yield _job(name, teams[team], group, index=index)
        index += 1


def pick(choices: Sequence[T], *purpose: str | int) -> T:
    """Choose one of them; the choice is a function of the purpose."""
    return choices[int(uniform(SEED, *purpose) * len(choices))]


def _group(name: str) -> TaskGroup:
    if uniform(SEED, name, "gang") < GANG_SHARE:
        replicas = pick(GANG_REPLICAS, name, "replicas")
        wants_rack = replicas <= NODES_PER_RACK and uniform(SEED, name, "near") < RACK_SHARE
        return TaskGroup(
            replicas=replicas,
            gpus=GPUS_PER_NODE,
            cpu_milli=96_000,
            memory_mib=800_000,
            topology=Topology(level="rack", required=True) if wants_rack else None,
        )
    gpus = pick(REPLICA_GPUS, name, "gpus")
    cpu_milli, memory_mib = (
        pick(range(4_000, 14_000, 500), name, "cpu"),
        pick(range(65_536, 114_688, 4_096), name, "mem"),
    )
    return TaskGroup(gpus=gpus, cpu_milli=cpu_milli * gpus, memory_mib=memory_mib * gpus)


def _job(name: str, team: str, group: TaskGroup, *, index: int) -> Job:
    spec = JobSpec(
        name=name,
        team=team,
        priority=pick(PRIORITIES, name, "priority"),
        task_groups=(group,),
        checkpointing=Checkpointing() if index % 2 else None,
        preemptible=index % 10 != 0,
    )
    ident = ids.job_id(team=team, principal="bench", idempotency_key=name)
    trace = ids.traceparent(ids.trace_id(ident), ids.span_id(ident))
    return Job(id=ident, spec=spec, principal="bench", idempotency_key=name, body_hash="", trace=trace)
