"""The work that the strategies are compared on: an openb trace, compressed so that a fleet of a given size is busy.

Every strategy gets the same tasks at the same times. Where GPUs are not shared, a task that requests a fraction gets
one whole GPU.
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
"""Fraction of the tasks left out at the start: in the published trace they take the first 116 of its 149 days."""
RUN_S_MAX = 86_400.0
"""Maximum run time of a task: 60 of the published ones run for weeks, and would take most of all GPU time."""
TAIL_S = 3600.0
"""The comparison ends this long after the last arrival: an empty fleet would favor strategies that switch it off."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Amount of work."""

    gpus: int
    """GPUs of the fleet."""
    load: float
    """Share of the fleet's GPU time that tasks request in whole GPUs until the last arrival."""
    copies: float
    """Number of jobs per task."""
    seed: int


@dataclass(frozen=True, slots=True)
class Work:
    """The same jobs in both forms."""

    split: Sequence[Arrival]
    """Jobs with the request of their task."""
    whole: Sequence[Arrival]
    """Jobs with requests in whole GPUs."""
    asked_milli: dict[str, int]
    """Requested GPU shares, by job id."""
    compress: float
    """Factor by which arrivals are faster than in the trace."""
    ends_at: Instant
    """End of the comparison."""
    tasks: int

    @property
    def window_s(self) -> float:
        """Return the duration of the comparison, in seconds."""
        return seconds_between(START, self.ends_at)


def work_of(tasks: Sequence[OpenbTask], amount: Amount) -> Work:
    """Make the work from a trace. Raises InputError if no task requests a GPU, or all come at one moment."""
    dense = _dense(tasks)
    span_s = dense[-1].creation_s if dense else 0.0
    gpu_s = sum(task.gpus * task.lifetime_s for task in map(_whole, dense))
    if not gpu_s or not span_s:
        raise InputError("tasks", "too few tasks, or no task that requests a GPU: there is nothing to compare")
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
    """Return one queue in arrival order, without preemption."""
    nobody = PreemptionPolicy(
        within_queue=WithinQueue.NEVER, reclaim=Reclaim.NEVER, fair_share=(), over_slice=OverSlice.NEVER
    )
    return QueueSpec(name=QUEUE, preemption=nobody)


def _dense(tasks: Sequence[OpenbTask]) -> list[OpenbTask]:
    """Drop the sparse beginning, start at 0, limit run times to RUN_S_MAX, and drop models (the fleet is uniform)."""
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
