"""A fully loaded fleet of week-long jobs: gangs of many nodes and single nodes, with short jobs between them."""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.fleet import Fleet, regular_fleet
from muster.core.seeded import uniform
from muster.core.settings import SimulatedWorkSettings
from muster.schemas import ids, labels
from muster.schemas.job import Checkpointing, Job, JobSpec, TaskGroup

GPUS = 8
WEEK_S = 7 * 86_400.0
SPARE_S = 300.0
"""Time before its limit at which a job ends by itself."""
GANG_NODES = (8, 4, 4, 2, 2, 2, 1, 1, 1, 1)
"""Nodes of the gangs, in turn, until the fleet is full."""
SHORT_S = (1800.0, 3600.0, 4 * 3600.0)
CHECKPOINT_S = 4 * 3600.0
QUEUE = "research"


@dataclass(frozen=True, slots=True)
class Scene:
    """Parameters of the fleet and its jobs."""

    nodes: int = 200
    """Number of nodes with 8 GPUs each."""
    long_s: float = WEEK_S
    """Run time of a long job."""
    action_s: float = 1200.0
    """Duration of the upgrade action on one node; `check_s` that of its checks."""
    check_s: float = 300.0
    seed: int = 1
    may_move: bool = False
    """All long jobs checkpoint and may be preempted after an hour; else half of them checkpoint, and none may."""

    def fleet(self) -> Fleet:
        """Return a fleet in racks of 8 nodes."""
        return regular_fleet(
            nodes=self.nodes,
            gpus_per_node=GPUS,
            gpu_model="H100",
            cpu_milli=128_000,
            memory_mib=1_048_576,
            rack_size=8,
            racks_per_block=8,
        )

    def behaviour(self) -> Behaviour:
        """Return a behavior without failures: jobs are killed by the upgrade only."""
        work = SimulatedWorkSettings(check_s=self.check_s, action_s=self.action_s)
        return Behaviour(seed=self.seed, run_sigma=0.0, work=work)

    def running(self) -> Iterator[tuple[Job, float]]:
        """Yield jobs that fill the fleet, each at a drawn point of its week, and its unsaved work in seconds.

        Jobs that checkpoint have saved all but the newest part of their work.
        """
        free, number = self.nodes, 0
        while free:
            nodes = min(GANG_NODES[number % len(GANG_NODES)], free)
            left_s = max(2 * SPARE_S, self.long_s * uniform(self.seed, "left", number))
            job = self._job("week", number, nodes=nodes, limit_s=left_s)
            worked_s = self.long_s - left_s
            yield job, worked_s if job.spec.checkpointing is None else min(worked_s, CHECKPOINT_S / 2)
            free -= nodes
            number += 1

    def next(self, number: int, nodes: int) -> Job:
        """Return a pending job of a whole week, which takes any free nodes."""
        return self._job("next", number, nodes=min(nodes, self.nodes), limit_s=self.long_s)

    def short(self, number: int) -> Job:
        """Return a short job."""
        limit_s = SHORT_S[number % len(SHORT_S)]
        return self._job("short", number, nodes=1, limit_s=limit_s, gpus=1 + number % 8)

    def _job(self, kind: str, number: int, *, nodes: int, limit_s: float, gpus: int = GPUS) -> Job:
        name = f"{kind}-{number:05d}"
        spec = JobSpec(
            name=name,
            team=QUEUE,
            task_groups=(TaskGroup(replicas=nodes, gpus=gpus, cpu_milli=8_000 * gpus, memory_mib=65_536 * gpus),),
            total_run_time_s=limit_s,
            min_slice_s=min(3600.0, limit_s),
            checkpointing=Checkpointing(interval_s=CHECKPOINT_S) if number % 2 or self.may_move else None,
            preemptible=self.may_move,
            labels={labels.RUN_S: str(max(60.0, limit_s - SPARE_S)), labels.EXIT_CODE: "0"},
        )
        job_id = ids.job_id(team=QUEUE, principal="ann", idempotency_key=name)
        return Job(id=job_id, spec=spec, principal="ann", idempotency_key=name, body_hash="")
