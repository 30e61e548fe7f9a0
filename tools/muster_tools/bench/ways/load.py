"""The work that the ways are compared on: an openb trace, denser, so that a fleet of a given size is busy.

Every way gets the same tasks at the same moments. Where GPUs are not split, a task that asks a share of one gets one
whole GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from muster.core import Instant, after
from muster.core.instant import seconds_between
from muster.openb.trace import OpenbTask
from muster.schemas.facts.queue import OverSlice, PreemptionPolicy, QueueSpec, Reclaim, WithinQueue
from muster.simulator.engine import START
from muster.simulator.errors import InputError
from muster.simulator.load.policy import Assigner, PolicyFile
from muster.simulator.load.trace import Arrival, arrivals
from muster.simulator.scenario.model import Queue

QUEUE = "openb"
SPARSE_SHARE = 0.01
"""Of the tasks, the first, are left out: in the published trace they take the first 116 of its 149 days."""
RUN_S_MAX = 86_400.0
"""Longer tasks are cut to a day: 60 of the published ones run for weeks, and would be most of all GPU time."""
TAIL_S = 3600.0
"""The comparison ends so long after the last task came: an empty fleet at the end would flatter who switches it off."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much work. gpus: of the fleet. load: share of its GPU time that tasks ask with whole GPUs while they come.

    copies: jobs per task.
    """

    gpus: int
    load: float
    copies: float
    seed: int


@dataclass(frozen=True, slots=True)
class Work:
    """split, whole: the same jobs, asking what their tasks asked, or whole GPUs. asked_milli: GPU shares by job id.

    compress: tasks come so many times as fast as in the trace. ends_at: of the comparison.
    """

    split: Sequence[Arrival]
    whole: Sequence[Arrival]
    asked_milli: dict[str, int]
    compress: float
    ends_at: Instant
    tasks: int

    @property
    def window_s(self) -> float:
        """Seconds that are compared."""
        return seconds_between(START, self.ends_at)


def work_of(tasks: Sequence[OpenbTask], amount: Amount) -> Work:
    """Raises InputError if no task asks for a GPU, or all come at one moment."""
    dense = _dense(tasks)
    span_s = dense[-1].creation_s if dense else 0.0
    gpu_s = sum(task.gpus * task.lifetime_s for task in map(_whole, dense))
    if not gpu_s or not span_s:
        raise InputError("tasks", "too few tasks, or none that asks for a GPU: there is nothing to compare")
    compress = amount.load * amount.gpus * span_s / (amount.copies * gpu_s)
    split = _arrivals(dense, amount, compress)
    return Work(
        split=split,
        whole=_arrivals([_whole(task) for task in dense], amount, compress),
        asked_milli={job.id: job.spec.gpu_milli_total for _, job in split},
        compress=compress,
        ends_at=after(split[-1][0], TAIL_S),
        tasks=len(dense),
    )


def queue() -> QueueSpec:
    """One queue, first come first served as far as there is room; nobody is stopped for another."""
    nobody = PreemptionPolicy(
        within_queue=WithinQueue.NEVER, reclaim=Reclaim.NEVER, fair_share=(), over_slice=OverSlice.NEVER
    )
    return QueueSpec(name=QUEUE, preemption=nobody)


def _dense(tasks: Sequence[OpenbTask]) -> list[OpenbTask]:
    """Without the sparse beginning, from 0 on, none longer than RUN_S_MAX; models do not matter in a uniform fleet."""
    kept = tasks[int(len(tasks) * SPARSE_SHARE) :]
    begin_s = kept[0].creation_s if kept else 0.0
    return [
        replace(
            task,
            creation_s=task.creation_s - begin_s,
            scheduled_s=None,
            deletion_s=task.creation_s - begin_s + min(task.lifetime_s, RUN_S_MAX),
            gpu_models=(),
        )
        for task in kept
    ]


def _whole(task: OpenbTask) -> OpenbTask:
    return replace(task, gpus=1, gpu_milli=0) if task.gpu_milli else task


def _arrivals(tasks: Sequence[OpenbTask], amount: Amount, compress: float) -> list[Arrival]:
    assigner = Assigner(PolicyFile(queues=(Queue(name=QUEUE),)), seed=amount.seed)
    return arrivals(
        tasks, qos={}, assigner=assigner, start=START, scale=amount.copies, compress=compress, seed=amount.seed
    )
