"""The fleet of `muster bench telemetry`: nodes, and jobs that hold nine in ten of them. Pure."""

from collections.abc import Iterator

from muster.core import Fact, Instant
from muster.core.virtual import VirtualCluster
from muster.fabric.layout import device_uuids
from muster.schemas.facts.job import JobPlaced, JobRouted
from muster.schemas.facts.node import NodeJoined
from muster.schemas.ids import job_id
from muster.schemas.job import Job, JobSpec, Slot, TaskGroup

CLUSTER, TEAMS = "bench", 40
HELD_OF_TEN = 9
NODES_OF_A_JOB = 2
MODEL = "H100"


def node_name(number: int) -> str:
    """Return the name of the node in the log."""
    return f"gpu-{number:04d}"


def fleet_facts(nodes: int, gpus: int) -> Iterator[Fact]:
    """Let every node join, and place jobs of two whole nodes on nine in ten of them."""
    log = VirtualCluster(CLUSTER, start=Instant(1), keeps_log=False)
    for number in range(nodes):
        name = node_name(number)
        description = NodeJoined(
            cpu_milli=128_000, memory_mib=1_000_000, gpu_model=MODEL, gpu_uuids=device_uuids(name, gpus)
        )
        yield log.write("agent", "node", name, "joined", description)
    for first in range(0, nodes * HELD_OF_TEN // 10 - 1, NODES_OF_A_JOB):
        team = f"team-{first % TEAMS}"
        spec = JobSpec(name="train", team=team, task_groups=(TaskGroup(name="w", replicas=NODES_OF_A_JOB, gpus=gpus),))
        job = Job(
            id=job_id(team=team, principal="bench", idempotency_key=str(first)),
            spec=spec,
            principal="bench",
            idempotency_key=str(first),
            body_hash="",
        )
        yield log.write("federation", "job", job.id, "routed", JobRouted(job=job, cluster=CLUSTER))
        slots = tuple(
            Slot(
                group=0,
                replica=replica,
                node=node_name(first + replica),
                devices=tuple(range(gpus)),
                gpu_milli=1000,
            )
            for replica in range(NODES_OF_A_JOB)
        )
        yield log.write("scheduler", "job", job.id, "placed", JobPlaced(attempt=1, slots=slots))
