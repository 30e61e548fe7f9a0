"""A job's row from what a checkpoint says of the job, and what follows from both facts and checkpoints."""

from muster.core.instant import NS_PER_S
from muster.projector.core.projection import LiveJob
from muster.schemas.facts import job as jobs
from muster.schemas.job import Phase, Slot
from muster.schemas.views import JobView


def restore(job: LiveJob, state: jobs.JobState) -> None:
    """The row as the job's newest facts left it, but for what is held."""
    row = job.row
    row.phase = state.phase
    row.queue = state.queue or row.queue
    row.attempt = 0 if state.phase is Phase.SUBMITTED else state.attempt
    row.queued_at = state.queued_at
    row.placed_at = state.placed_at
    row.running_at = state.running_at
    row.ended_at = state.ended_at
    row.reason, row.detail = explanation(state)
    row.preflight = state.preflight
    row.preemptions = state.preemptions
    row.ran_s = state.ran_s
    row.held = state.held is not None
    row.priority = row.priority if state.priority is None else state.priority
    row.checkpointed_at = state.checkpointed_at
    row.retries_used, row.node_losses = state.retries_used, state.node_losses
    row.failures_in_row = state.retries_used if state.failures_in_row is None else state.failures_in_row
    row.preflight_failures = state.preflight_failures
    row.lost_s, row.lost_last_s = state.lost_s, state.lost_last_s
    row.excluded = tuple(one.node for one in state.excluded)
    if state.phase.is_terminal:
        row.exit_code = state.exit_code
        return
    row.reserved_at = state.reserved.starts_at if state.reserved is not None else 0
    row.made_way_for = state.made_way_for
    job.exited_s = state.exited.ran_s if state.exited is not None else None
    if state.min_slice_s is not None:
        job.slice_s = state.min_slice_s
    row.slice_ends_at = slice_ends_at(job) if state.phase is Phase.RUNNING else 0


def follow_run(row: JobView, queued: jobs.JobQueued) -> None:
    """Count how the run ended after which the job waits again."""
    reason = queued.reason
    row.preemptions += reason is jobs.QueuedReason.PREEMPTED
    row.retries_used += reason is jobs.QueuedReason.RETRY
    row.failures_in_row = queued.failures_after(row.failures_in_row)
    row.node_losses += reason is jobs.QueuedReason.NODE_LOST
    row.preflight_failures += reason is jobs.QueuedReason.PREFLIGHT_FAILED
    row.excluded = (*row.excluded, *(one.node for one in queued.excluded if one.node not in row.excluded))


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
