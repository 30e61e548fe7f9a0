"""A job's record as a state fact, and back."""

from muster.scheduler.core.jobs import JobBook, JobRecord, Kind
from muster.schemas.facts.job import JobState


def state_of(record: JobRecord) -> JobState:
    """The record as a state fact."""
    return JobState(
        job=record.job,
        phase=record.phase,
        attempt=record.attempt,
        retries_used=record.retries_used,
        queue=record.queue,
        slots=record.slots,
        queued_at=record.queued_at,
        placed_at=record.placed_at,
        running_at=record.running_at,
        ended_at=record.ended_at,
        stop_reason=record.stop_reason,
        cancel_requested=bool(record.cancel_fact),
        ran_s=record.ran_s,
        exit_code=record.exit_code,
        reason=record.reason,
        detail=record.detail,
        preflight=record.preflight,
        last_fact=record.last_fact,
        routed_seq=record.routed_seq,
        node_losses=record.node_losses,
        explained_at=record.explained_at,
        cancel_fact=record.cancel_fact,
        started_fact=record.started_fact,
        exited=record.exited,
        exited_fact=record.exited_fact,
        queued_reason=record.queued_reason,
        queued_detail=record.queued_detail,
        checkpointed_at=record.checkpointed_at,
        total_run_time_s=record.total_run_time_s,
        min_slice_s=record.min_slice_s,
        rank=record.rank,
        reserved=record.reserved,
        resize=record.resize,
        resized_fact=record.resized_fact,
        resized_at=record.resized_at,
        made_way_for=record.made_way_for,
        preemptions=record.preemptions,
        held=record.held,
        priority=record.asked_priority,
        wishes=record.wishes,
        picked=record.picked,
        stop_detail=record.stop_detail,
        lost_s=record.lost_s,
        lost_last_s=record.lost_last_s,
        preflight_plan=record.preflight_plan,
        preflight_fact=record.preflight_fact,
        preflight_failed=record.preflight_failed,
        preflight_failed_fact=record.preflight_failed_fact,
        preflight_failures=record.preflight_failures,
        excluded=record.excluded,
        started_at=record.started_at,
        exited_at=record.exited_at,
        losses_in_row=record.losses_in_row,
        failures_in_row=record.failures_in_row,
        assignment=record.assignment,
        lost_after_s=record.lost_after_s,
        recall=record.recall,
        recall_drops=record.recall_drops,
        recall_fact=record.recall_fact,
    )


def record_of(state: JobState, kind: Kind) -> JobRecord:
    """The record that `state_of` made this state of."""
    return JobRecord(
        job=state.job,
        kind=kind,
        queue=state.queue,
        routed_seq=state.routed_seq,
        phase=state.phase,
        attempt=state.attempt,
        retries_used=state.retries_used,
        node_losses=state.node_losses,
        slots=state.slots,
        queued_at=state.queued_at,
        placed_at=state.placed_at,
        running_at=state.running_at,
        ended_at=state.ended_at,
        stop_reason=state.stop_reason,
        cancel_fact=state.cancel_fact,
        started_fact=state.started_fact,
        exited=state.exited,
        exited_fact=state.exited_fact,
        queued_reason=state.queued_reason,
        queued_detail=state.queued_detail,
        ran_s=state.ran_s,
        exit_code=state.exit_code,
        reason=state.reason,
        detail=state.detail,
        explained_at=state.explained_at,
        preflight=state.preflight,
        last_fact=state.last_fact,
        checkpointed_at=state.checkpointed_at,
        total_run_time_s=_or(state.total_run_time_s, state.job.spec.total_run_time_s),
        min_slice_s=_or(state.min_slice_s, state.job.spec.min_slice_s),
        rank=state.routed_seq if state.rank is None else state.rank,
        reserved=state.reserved,
        resize=state.resize,
        resized_fact=state.resized_fact,
        resized_at=state.resized_at,
        made_way_for=state.made_way_for,
        preemptions=state.preemptions,
        held=state.held,
        asked_priority=state.priority,
        wishes=state.wishes,
        picked=state.picked,
        stop_detail=state.stop_detail,
        lost_s=state.lost_s,
        lost_last_s=state.lost_last_s,
        preflight_plan=state.preflight_plan,
        preflight_fact=state.preflight_fact,
        preflight_failed=state.preflight_failed,
        preflight_failed_fact=state.preflight_failed_fact,
        preflight_failures=state.preflight_failures,
        excluded=state.excluded,
        started_at=state.started_at,
        exited_at=state.exited_at,
        losses_in_row=state.losses_in_row,
        failures_in_row=state.retries_used if state.failures_in_row is None else state.failures_in_row,
        assignment=state.assignment,
        lost_after_s=state.lost_after_s,
        recall=state.recall,
        recall_drops=state.recall_drops,
        recall_fact=state.recall_fact,
    )


def load_record(jobs: JobBook, state: JobState) -> JobRecord:
    """The record of a stored job, with the kind of those that ask for the same."""
    spec = state.job.spec
    total_s = _or(state.total_run_time_s, spec.total_run_time_s)
    slice_s = _or(state.min_slice_s, spec.min_slice_s)
    avoided = frozenset(one.node for one in state.excluded)
    kind = jobs.kind_of(state.job, total_run_time_s=total_s, min_slice_s=slice_s, avoided=avoided)
    return record_of(state, kind)


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
