"""A job's row from what a checkpoint says of the job, and what follows from both facts and checkpoints."""

from muster.core.instant import NS_PER_S
from muster.projector.core.job_table import LiveJob
from muster.schemas.facts import job as jobs
from muster.schemas.job import Phase, Slot
from muster.schemas.views import JobView, follow_state


def restore(job: LiveJob, state: jobs.JobState) -> None:
    """Bring the row to how the job's newest facts left it. What it holds is still to be counted."""
    row = job.row
    follow_state(row, state)
    row.reason, row.detail = explanation(state)
    if state.phase is Phase.SUBMITTED:
        row.attempt = 0
    if state.phase.is_terminal:
        row.reserved_at, row.made_way_for = 0, ""
        return
    row.exit_code = 0  # a row tells it of the job alone, not of runs before
    job.exited_s = state.exited.ran_s if state.exited is not None else None
    if state.min_slice_s is not None:
        job.slice_s = state.min_slice_s
    row.slice_ends_at = slice_ends_at(job) if state.phase is Phase.RUNNING else 0


def lost_work_s(row: JobView, at: int) -> float:
    """Seconds of work of the run that ended at `at`, since its newest checkpoint or its start."""
    return max(0.0, (at - max(row.checkpointed_at, row.running_at)) / NS_PER_S) if row.running_at else 0.0


def slice_ends_at(job: LiveJob) -> int:
    """Until when the present run is left alone; 0 if it does not run, or is never made to make way."""
    row = job.row
    return row.running_at + round(job.slice_s * NS_PER_S) if row.running_at and row.preemptible else 0


def coming(slots: tuple[Slot, ...], resize: jobs.JobResizeRequested | None) -> tuple[Slot, ...]:
    """What the job is to get beside `slots`: it is held from the request on."""
    if resize is None:
        return ()
    known = frozenset(slots)
    return tuple(slot for slot in resize.slots if slot not in known)


def explanation(state: jobs.JobState) -> tuple[str, str]:
    """Reason and detail as the job's newest fact left them in its row."""
    if state.phase is Phase.STOPPING and state.stop_reason is not None:
        return state.stop_reason.value, state.detail
    if state.phase is Phase.QUEUED and not state.reason and state.queued_reason is not None:
        return state.queued_reason.value, state.queued_detail
    return state.reason, state.detail
