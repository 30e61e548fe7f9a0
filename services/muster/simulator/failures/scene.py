"""The fleet, the one job on it, and the durations."""

from dataclasses import dataclass, field

from muster.agent.core.behaviour import Behaviour
from muster.agent.core.fleet import Fleet, regular_fleet
from muster.core.settings import SimulatedWorkSettings
from muster.schemas import ids, labels
from muster.schemas.job import RUN_TIME_S_MAX, Checkpointing, Job, JobSpec, TaskGroup
from muster.simulator.failures.calendar import RATE, Odds

GPUS = 8
QUEUE = "training"
RETRIES = 100
MODEL = "NVIDIA H100 80GB HBM3"


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds, medians for drawn values. Published values: see docs/benchmarks.md; the others are assumptions.

    checkpoint_s: between two checkpoints. saving_s: training pause for one. restart_s: from running pods to the first
    new step. start_s: from placed to running. scrape_s: between two readings of a node. lost_s: until a node that does
    not answer is reported lost; host_s: until it returns. action_s, check_s: a repair by Muster, and its checks.
    finds_s: until a person finds the node on which programs die without a symptom; looks_s: until a person looks at a
    node after repairs by health. by_hand_s: a person's reset or reboot; swap_s: replacement of a part. planned_s:
    planned maintenance of one node.
    """

    checkpoint_s: float = 600.0
    saving_s: float = 5.0
    restart_s: float = 300.0
    start_s: float = 60.0
    scrape_s: float = 10.0
    lost_s: float = 50.0
    host_s: float = 2 * 3600.0
    action_s: float = 600.0
    check_s: float = 300.0
    finds_s: float = 3600.0
    looks_s: float = 4 * 3600.0
    by_hand_s: float = 3600.0
    swap_s: float = 86_400.0
    planned_s: float = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Scene:
    """gpus: of the job, in whole nodes. spares: nodes beside. with_health: else people find what is broken."""

    gpus: int = 16_384
    spares: int = 16
    days: float = 54.0
    seed: int = 1
    rack_nodes: int = 2
    with_health: bool = True
    odds: Odds = field(default_factory=lambda: Odds(RATE))
    times: Times = field(default_factory=Times)

    @property
    def job_nodes(self) -> int:
        """That the job needs."""
        return self.gpus // GPUS

    def fleet(self) -> Fleet:
        """Racks of `rack_nodes` nodes, blocks of 192 racks: 3,072 GPUs where a rack has two nodes."""
        return regular_fleet(
            nodes=self.job_nodes + self.spares,
            gpus_per_node=GPUS,
            gpu_model=MODEL,
            cpu_milli=128_000,
            memory_mib=1_048_576,
            rack_size=self.rack_nodes,
            racks_per_block=192,
        )

    def behaviour(self) -> Behaviour:
        """Return a behavior without failures: all failures are injected."""
        times = self.times
        work = SimulatedWorkSettings(check_s=times.check_s, action_s=times.action_s)
        return Behaviour(seed=self.seed, start_s=times.start_s, run_sigma=0.0, node_repair_s=times.host_s, work=work)

    def job(self, number: int) -> Job:
        """Return the job. number: from 0; above 0 if it was given up and submitted again."""
        name = f"train-{number}"
        spec = JobSpec(
            name=name,
            team=QUEUE,
            task_groups=(TaskGroup(replicas=self.job_nodes, gpus=GPUS, cpu_milli=96_000, memory_mib=786_432),),
            total_run_time_s=RUN_TIME_S_MAX,
            min_slice_s=0.0,
            retries=RETRIES,
            checkpointing=Checkpointing(interval_s=self.times.checkpoint_s, restart_s=self.times.restart_s),
            labels={labels.RUN_S: str(RUN_TIME_S_MAX - 1), labels.EXIT_CODE: "0"},
            preflight="none",
        )
        job_id = ids.job_id(team=QUEUE, principal="ann", idempotency_key=name)
        return Job(id=job_id, spec=spec, principal="ann", idempotency_key=name, body_hash="")
