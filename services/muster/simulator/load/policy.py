"""Policy files: the queues that a trace's tasks go to, who goes where, and what jobs say of themselves.

queues:                                   # as in a scenario
  - {name: online, quota: {gpu: 4000}}
  - {name: batch}
assign:                                   # the first rule that fits; without rules, see `Assigner`
  - {qos: LS, queue: online, preemptible: false}
  - {gpus_min: 8, queue: batch, priority: 40, checkpoint_interval_s: 1800}
  - {queue: batch}
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from muster.core.seeded import uniform
from muster.openb.trace import WHOLE_GPU_MILLI, OpenbTask
from muster.schemas.base import Label, Name
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import GRACE_S_MAX, RUN_TIME_S_MAX, Checkpointing, JobSpec, TaskGroup
from muster.schemas.labels import EXIT_CODE, RUN_S
from muster.simulator.document import checked, read
from muster.simulator.errors import InputError
from muster.simulator.scenario.model import Number, Queue, RunTime, Slice, Switch, Whole
from muster.simulator.scenario.resources import queue_specs

RULES_MAX = 1_000
RUN_S_MAX = RUN_TIME_S_MAX / 2
"""Longer runs of a trace are cut to this, so that none ends by its total run time: the product's longest is 90 days."""
TOTAL_RUN_TIME_S_LEAST = 7 * 86_400.0
DEFAULT_QUEUE = "default"


class Rule(BaseModel):
    """Tasks that meet all of the conditions (qos, gpus_min, gpus_max) go to `queue`, with the other settings here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    queue: Name
    qos: str | None = None
    gpus_min: Annotated[Number, Field(ge=0)] | None = None
    gpus_max: Annotated[Number, Field(ge=0)] | None = None
    user: Label = "somebody"
    priority: Annotated[Whole, Field(ge=0, le=1000)] = 50
    preemptible: Switch = True
    min_slice_s: Slice | None = None
    grace_s: Annotated[Number, Field(ge=0, le=GRACE_S_MAX)] = 30.0
    checkpoint_interval_s: RunTime | None = None
    restart_s: Annotated[Number, Field(ge=0, le=86_400)] = 60.0
    retries: Annotated[Whole, Field(ge=0, le=100)] = 0

    def fits(self, task: OpenbTask, qos: str) -> bool:
        """Return whether the task meets the conditions."""
        gpus = task.gpu_milli_total / WHOLE_GPU_MILLI
        if self.qos is not None and self.qos.lower() != qos.lower():
            return False
        return (self.gpus_min is None or gpus >= self.gpus_min) and (self.gpus_max is None or gpus <= self.gpus_max)


class PolicyFile(BaseModel):
    """A whole file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    description: str = ""
    queues: tuple[Queue, ...] = Field(min_length=1)
    assign: Annotated[tuple[Rule, ...], Field(max_length=RULES_MAX)] = ()


def parse_policy(text: str) -> PolicyFile:
    """Raises InputError that names the field."""
    policy = checked(PolicyFile, read(text))
    names = {queue.name for queue in policy.queues}
    for index, rule in enumerate(policy.assign):
        if rule.queue not in names:
            raise InputError(f"assign[{index}].queue", f"there is no queue {rule.queue}; there are: {', '.join(names)}")
    return policy


def default_policy(qos: Mapping[str, str]) -> PolicyFile:
    """Return a queue for each quality of service of the trace, all of equal weight without quota: plain fair share."""
    names = sorted({queue_of_qos(value) for value in qos.values()}) or [DEFAULT_QUEUE]
    return PolicyFile(name="fair by qos", queues=tuple(Queue(name=name) for name in names))


def queue_of_qos(qos: str) -> str:
    """Return the name of a quality of service's queue."""
    return "".join(letter for letter in qos.lower() if letter.isalnum()) or DEFAULT_QUEUE


class Assigner:
    """Makes jobs of tasks, as a policy says.

    Without rules a task goes to the queue called like its qos; if there is none, to one of the queues that have none
    below them, drawn by the task's name, so that every policy file can be tried on every trace.
    """

    def __init__(self, policy: PolicyFile, *, seed: int) -> None:
        self.specs: tuple[tuple[str, QueueSpec], ...] = queue_specs(policy.queues)
        self._rules: Sequence[Rule] = policy.assign
        self._names = {queue.name for queue in policy.queues}
        parents = {queue.parent for queue in policy.queues}
        self._leaves = [queue.name for queue in policy.queues if queue.name not in parents]
        self._seed = seed

    def rule_for(self, task: OpenbTask, qos: str) -> Rule:
        """Raises InputError if there are rules and none fits."""
        for rule in self._rules:
            if rule.fits(task, qos):
                return rule
        if self._rules:
            raise InputError("assign", f"no rule fits task {task.name} (qos {qos or 'none'}); end with one for all")
        queue = queue_of_qos(qos)
        if queue not in self._names:
            queue = self._leaves[int(uniform(self._seed, "queue", task.name) * len(self._leaves))]
        return Rule(queue=queue)

    def spec(self, task: OpenbTask, qos: str, *, name: str) -> JobSpec:
        """Return the job with the task's request and run time. Raises InputError."""
        rule = self.rule_for(task, qos)
        run_s = min(task.lifetime_s, RUN_S_MAX)
        checkpointing = None
        if rule.checkpoint_interval_s is not None:
            checkpointing = Checkpointing(interval_s=rule.checkpoint_interval_s, restart_s=rule.restart_s)
        group = TaskGroup(
            gpus=task.gpus,
            gpu_milli=task.gpu_milli,
            gpu_models=task.gpu_models,
            cpu_milli=task.cpu_milli,
            memory_mib=task.memory_mib,
        )
        spec = JobSpec(
            name=name,
            team=rule.queue,
            queue=rule.queue,
            priority=rule.priority,
            preemptible=rule.preemptible,
            grace_s=rule.grace_s,
            retries=rule.retries,
            checkpointing=checkpointing,
            task_groups=(group,),
            total_run_time_s=max(TOTAL_RUN_TIME_S_LEAST, min(RUN_TIME_S_MAX, 2 * run_s)),
            labels={RUN_S: f"{run_s:f}", EXIT_CODE: "1" if task.has_failed else "0"},
            left_out=() if rule.min_slice_s is not None else ("min_slice_s",),
        )
        return spec if rule.min_slice_s is None else spec.model_copy(update={"min_slice_s": rule.min_slice_s})
