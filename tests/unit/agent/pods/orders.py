"""Orders of pods for tests: a job in a few words."""

from muster.agent.core.kubernetes.options import PodPolicy
from muster.agent.core.kubernetes.pods import PodOrder
from muster.agent.core.kubernetes.rendezvous import Gang
from muster.schemas.job import JobSpec, PodOptions, Slot, TaskGroup

JOB = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
POLICY = PodPolicy(cluster="atlas", image="registry.example/train:1", names_objects=True)


def spec(*groups: TaskGroup, pod: PodOptions | None = None, **more: object) -> JobSpec:
    """A job of these groups."""
    fields = {"name": "train", "team": "vision", "task_groups": groups or (TaskGroup(gpus=1),), **more}
    return JobSpec.model_validate({**fields, "pod": pod or PodOptions()})


def gang(job: JobSpec, *, attempt: int = 0, node: str = "node-1") -> Gang:
    """All replicas of all groups, on one node."""
    slots = tuple(
        Slot(group=index, replica=replica, node=node)
        for index, group in enumerate(job.task_groups)
        for replica in range(group.replicas)
    )
    return Gang(JOB, attempt, job, slots)


def order(job: JobSpec, slot: int = 0, *, policy: PodPolicy = POLICY, claimed: bool = False) -> PodOrder:
    """The pod of one slot."""
    whole = gang(job)
    return PodOrder(whole, whole.slots[slot], policy, claimed=claimed)
