"""A scheduler on a small fleet whose jobs run, are elastic, and may be preempted."""

from kit.scheduler import VirtualScheduler, job
from kit.scheduler_runs import RunningScheduler
from muster.schemas.facts.job import (
    JobResizeRequested,
    JobStopRequested,
    PodsResized,
    StopReason,
)
from muster.schemas.facts.node import WithholdRequested
from muster.schemas.facts.queue import PreemptionPolicy
from muster.schemas.job import Job, JobSpec, Phase, TaskGroup

HOUR_S = 3_600.0


class Yard(VirtualScheduler):
    """One node, and queues with these quotas below `org`, which has some more to lend (spare)."""

    def __init__(self, *, gpus: int, quotas: dict[str, int], nodes: int = 1, spare: int = 0, **knobs: object) -> None:
        super().__init__(queues=())
        self.queue("org", preemption=PreemptionPolicy(**knobs), quota={"gpu_milli": 1000 * spare})
        for name, quota in quotas.items():
            self.queue(name, parent="org", quota={"gpu_milli": 1000 * quota})
        for index in range(nodes):
            self.join(f"n{index}", gpus=gpus)
        self.names_of: dict[str, str] = {}

    def runs(self, name: str, **spec: object) -> Job:
        """A job that runs."""
        one = self.waits(name, **spec)
        assert self.phase(one) is Phase.PLACED, f"there was no room for {name}"
        self.started(one)
        return one

    def waits(self, name: str, **spec: object) -> Job:
        one = self.submit(name, **spec)
        self.names_of[one.id] = name
        return one

    def told(self) -> dict[str, str]:
        """Who was told to make way, and for whom."""
        stops = [(fact.subject_id, fact.payload) for fact in self.log if isinstance(fact.payload, JobStopRequested)]
        return {
            self.names_of[job_id]: self.names_of[stop.made_way_for]
            for job_id, stop in stops
            if stop.reason is StopReason.PREEMPTED and not stop.requeued
        }

    def obey(self) -> None:
        """Those that were told to make way end."""
        records = self.core.state.jobs.records
        for job_id in self.core.state.runs.leaving.copy():
            record = records[job_id]
            self.exited(record.job, "stopped", attempt=record.attempt, ran_s=10.0)


HARD = {"preemptible": False, "grace_s": 0.0}
"""Jobs that stay until their total run time is over."""


def elastic(name: str, *, least: int, replicas: int, queue: str = "a", **spec: object) -> Job:
    """A job of one GPU per replica."""
    one = job(name, queue=queue, replicas=replicas, **spec)
    group = TaskGroup(replicas=replicas, min_replicas=least, gpus=1)
    return one.model_copy(update={"spec": JobSpec(**{**dict(one.spec), "task_groups": (group,)})})


def runs(yard: Yard, one: Job) -> Job:
    yard.names_of[one.id] = one.spec.name
    yard.route(one)
    yard.settle()
    assert yard.phase(one) is Phase.PLACED
    yard.started(one)
    return one


def resized(yard: Yard, one: Job) -> None:
    """The agent did what was asked last."""
    asked = yard.last("resize-requested", one.id).payload
    assert isinstance(asked, JobResizeRequested)
    yard.write("agent", "job", one.id, "pods-resized", PodsResized(attempt=asked.attempt, slots=len(asked.slots)))
    yard.settle()


def ask(world: VirtualScheduler, name: str, request: str = "r1", *, kind: str = "node", force: bool = False) -> None:
    payload = WithholdRequested(request_id=request, force=force)
    world.write("composer", kind, name, "withhold-requested", payload)


def floor(*, nodes: int = 1, gpus: int = 4, starving_after_s: float = 100.0) -> RunningScheduler:
    world = RunningScheduler(nodes=nodes, gpus=gpus)
    world.queue("lab", starving_after_s=starving_after_s)
    world.route(job("tiny", gpus=1, queue="nowhere"))  # somebody asks for less, so that the others can be passed by
    world.settle()
    return world


def hard(world: RunningScheduler, name: str, *, run_s: float, bound_s: float | None = None, **spec: object) -> Job:
    """A job that is not preempted and says how long it runs at most."""
    return world.come(name, run_s=run_s, total_run_time_s=bound_s or run_s, **HARD, **spec)
