"""Input of the scale benchmark: busy composable nodes, a pool, and unschedulable jobs. Pure, seeded."""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.core.seeded import uniform
from muster.core.settings import GroupSettings, ModelSettings, ScalingSettings
from muster.fabric.layout import device_uuids, machine_id, node_name
from muster.scaler.core.groups import ScalingConfig
from muster.schemas import ids
from muster.schemas.devices import PoolModel
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Job, JobSpec, TaskGroup, Topology

SEED = 1
GPUS_MAX = 8
GPUS_MIN = 2
CPU_MILLI, MEMORY_MIB = 128_000, 1_048_576
RACK_SIZE = 16
QUEUE = "bench"
IDLE_SHARE = 0.03
"""Share of idle devices, scattered so that most gangs find some of the devices they need."""
ADDABLE = 64
"""Nodes by which each group may grow, and by which an ordinary group without nodes may grow."""
HELD_CPU_MILLI, HELD_MEMORY_MIB = 8_000, 65_536
"""Resources of a job that holds one device."""


NEVER_S = 30 * 86_400.0
"""Idle time before removal: no device is removed for idleness, because only the jobs' demand is measured."""


@dataclass(frozen=True, slots=True)
class Fabric:
    """One group of composable nodes with its fabric; shares of all nodes and of the whole pool."""

    group: str
    name: str
    model: str
    share: float


FABRICS = (Fabric("large", "f0", "H100", 0.7), Fabric("small", "f1", "A100", 0.3))


@dataclass(frozen=True, slots=True)
class Scale:
    """Size of the input. nodes: composable, 2 to 8 GPUs attached to each. pool: devices in the pools of all fabrics."""

    nodes: int
    pool: int


def nodes_of(scale: Scale, fabric: Fabric) -> int:
    """Return the number of nodes that a fabric serves."""
    return max(1, round(scale.nodes * fabric.share))


def config(scale: Scale) -> ScalingConfig:
    """Return two composable groups and an ordinary one without nodes."""
    groups = [
        GroupSettings(
            name=fabric.group,
            composable=True,
            nodes_max=nodes_of(scale, fabric) + ADDABLE,
            gpus_max=GPUS_MAX,
            gpu_models=(fabric.model,),
            cpu_milli=CPU_MILLI,
            memory_mib=MEMORY_MIB,
            rack_size=RACK_SIZE,
            fabric=fabric.name,
        )
        for fabric in FABRICS
    ]
    groups.append(GroupSettings(name="plain", nodes_max=ADDABLE, cpu_milli=2 * CPU_MILLI, memory_mib=2 * MEMORY_MIB))
    models = {"H100": ModelSettings(idle_w=70, busy_w=700), "A100": ModelSettings(idle_w=55, busy_w=400)}
    return ScalingConfig(
        ScalingSettings(groups=tuple(groups), models=models, gpu_idle_s=NEVER_S, node_unneeded_s=NEVER_S),
        frozenset(fabric.name for fabric in FABRICS),
    )


def pool(scale: Scale, fabric: Fabric) -> PoolModel:
    """Return the pool of a fabric."""
    attached = sum(gpus for _, _, gpus in nodes(scale, fabric))
    return PoolModel(model=fabric.model, free=round(scale.pool * fabric.share), attached=attached)


def nodes(scale: Scale, fabric: Fabric) -> Iterator[tuple[str, NodeJoined, int]]:
    """Yield name, description and number of GPUs of each node of a fabric."""
    for index in range(1, nodes_of(scale, fabric) + 1):
        name = node_name(fabric.group, index)
        gpus = GPUS_MIN + int(uniform(SEED, name, "gpus") * (GPUS_MAX - GPUS_MIN + 1))
        description = NodeJoined(
            cpu_milli=CPU_MILLI,
            memory_mib=MEMORY_MIB,
            gpu_model=fabric.model,
            gpu_uuids=device_uuids(name, gpus),
            domains=(("rack", f"{fabric.group}-r{(index - 1) // RACK_SIZE}"),),
            group=fabric.group,
            machine=machine_id(name),
        )
        yield name, description, gpus


def holders(name: str, gpus: int) -> Iterator[tuple[Job, tuple[int, ...]]]:
    """Yield jobs of one, two or four devices that hold most devices of a node, with those devices."""
    device = 0
    while device < gpus:
        size = min((1, 1, 2, 4)[int(uniform(SEED, name, device, "size") * 4)], gpus - device)
        if uniform(SEED, name, device, "idle") >= IDLE_SHARE:
            group = TaskGroup(gpus=size, cpu_milli=size * HELD_CPU_MILLI, memory_mib=size * HELD_MEMORY_MIB)
            yield job(f"on-{name}-{device}", group), tuple(range(device, device + size))
        device += size


def wanting() -> Iterator[Job]:
    """Yield unschedulable jobs of several shapes in turn; each shape repeats."""
    shapes: tuple[tuple[TaskGroup, Topology | None, bool], ...] = (
        (TaskGroup(gpus=4), None, False),
        (TaskGroup(gpus=8, cpu_milli=32_000), None, False),
        (TaskGroup(gpus=2, replicas=8), None, False),
        (TaskGroup(gpus=3, gpu_models=("A100",)), None, False),
        (TaskGroup(gpus=4, replicas=8), Topology(level="rack", required=True), False),
        (TaskGroup(gpus=1, replicas=64), None, True),
        (TaskGroup(cpu_milli=200_000, memory_mib=1_500_000), None, False),
        (TaskGroup(gpus=8, replicas=16, cpu_milli=32_000), None, False),
        (TaskGroup(gpus=6, gpu_models=("H100", "A100"), memory_mib=262_144), None, False),
        (TaskGroup(gpus=2, replicas=4, cpu_milli=48_000), Topology(level="rack", required=False), True),
    )
    number = 0
    while True:
        group, topology, same_model = shapes[number % len(shapes)]
        yield job(f"wants-{number}", group, topology=topology, same_model=same_model)
        number += 1


def job(name: str, group: TaskGroup, *, topology: Topology | None = None, same_model: bool = False) -> Job:
    """Return one job of one task group."""
    spec = JobSpec(name=name, team=QUEUE, queue=QUEUE, task_groups=(group,), topology=topology, same_model=same_model)
    return Job(
        id=ids.job_id(team=QUEUE, principal="bench", idempotency_key=name),
        spec=spec,
        principal="bench",
        idempotency_key=name,
        body_hash="",
        trace=ids.traceparent(ids.trace_id(name), ids.span_id(name)),
    )
