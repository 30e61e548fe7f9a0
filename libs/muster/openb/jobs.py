"""A task of the trace as a job of Muster, sped up. Pure."""

from collections.abc import Sequence

from muster.openb.trace import OpenbTask
from muster.schemas.job import RUN_TIME_S_MAX, JobSpec, TaskGroup
from muster.schemas.labels import EXIT_CODE, RUN_S

WALL_S = 120.0  # what the whole trace is sped up to, if nobody says otherwise
TOTAL_RUN_TIME_S_MIN = 7 * 86_400.0


def default_speedup(tasks: Sequence[OpenbTask], *, wall_s: float = WALL_S) -> float:
    """So many trace seconds per second that the last deletion comes after `wall_s`; never slower than the trace."""
    return max(1.0, max((task.deletion_s for task in tasks), default=0.0) / wall_s)


def job_spec(task: OpenbTask, *, speedup: float, team: str, queue: str | None = None) -> JobSpec:
    """The job that asks what the task asked and runs as long, divided by `speedup`; it fails if the task had failed."""
    run_s = task.lifetime_s / speedup
    return JobSpec(
        name=task.name,
        team=team,
        queue=queue,
        task_groups=(
            TaskGroup(
                gpus=task.gpus,
                gpu_milli=task.gpu_milli,
                gpu_models=task.gpu_models,
                cpu_milli=task.cpu_milli,
                memory_mib=task.memory_mib,
            ),
        ),
        total_run_time_s=min(RUN_TIME_S_MAX, max(TOTAL_RUN_TIME_S_MIN, 2 * run_s)),
        labels={RUN_S: f"{run_s:.6f}", EXIT_CODE: "1" if task.has_failed else "0"},
    )
