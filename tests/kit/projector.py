"""A cluster's story in a few words."""

from kit.log import a_fact
from muster.core import Fact
from muster.schemas.base import Payload
from muster.schemas.facts import job as jobs
from muster.schemas.facts.node import NodeJoined, Released
from muster.schemas.facts.queue import QueueChanged, QueueSpec
from muster.schemas.ids import job_id
from muster.schemas.job import Job, JobSpec, Slot, TaskGroup


def a_job(number: int, *, team: str = "blue", gpus: int = 2) -> Job:
    spec = JobSpec(name=f"job-{number}", team=team, task_groups=(TaskGroup(gpus=gpus),))
    ident = job_id(team=team, principal="ann", idempotency_key=str(number))
    return Job(id=ident, spec=spec, principal="ann", idempotency_key=str(number), body_hash="b", submitted_at=number)


class Story:
    """Makes facts in order; each fact's time is its sequence."""

    def __init__(self, writer: str = "scheduler") -> None:
        self.facts: list[Fact] = []
        self._writer = writer

    def add(self, kind: str, subject_id: str, name: str, payload: Payload) -> Fact:
        self.facts.append(a_fact(self._writer, kind, subject_id, name, payload, seq=len(self.facts) + 1))
        return self.facts[-1]

    def node(self, name: str, *, gpus: int = 8) -> None:
        uuids = tuple(f"{name}-{index}" for index in range(gpus))
        self.add("node", name, "joined", NodeJoined(cpu_milli=8000, memory_mib=8000, gpu_model="H100", gpu_uuids=uuids))
        self.add("node", name, "released", Released())

    def queue(self, name: str) -> None:
        self.add("queue", name, "changed", QueueChanged(spec=QueueSpec(name=name)))

    def routed(self, job: Job) -> Fact:
        return self.add("job", job.id, "routed", jobs.JobRouted(job=job, cluster="atlas"))

    def queued(self, job: Job, *, attempt: int = 1) -> Fact:
        return self.add("job", job.id, "queued", jobs.JobQueued(queue=job.spec.queue_name, attempt=attempt))

    def placed(self, job: Job, node: str = "n1", *, attempt: int = 1) -> Fact:
        slot = Slot(group=0, replica=0, node=node, devices=(0, 1), gpu_milli=1000)
        return self.add("job", job.id, "placed", jobs.JobPlaced(attempt=attempt, slots=(slot,)))

    def running(self, job: Job) -> Fact:
        return self.add("job", job.id, "running", jobs.JobRunning(attempt=1))

    def ended(self, job: Job, name: str = "succeeded") -> Fact:
        return self.add("job", job.id, name, jobs.JobFinished(attempt=1, reason="done"))

    def submitted(self, job: Job) -> Fact:
        return self.add("job", job.id, "submitted", jobs.JobSubmitted(job=job))

    def came_back(self, job: Job) -> Fact:
        payload = jobs.JobEnded(cluster="atlas", phase=jobs.Phase.SUCCEEDED, ended_at=1)
        return self.add("job", job.id, "job-ended", payload)
