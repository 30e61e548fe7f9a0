"""What follows for a job from what was observed: at most one fact, and only the scheduler's own."""

import heapq

from muster.core import Draft, Instant
from muster.scheduler.core import federated, preflight, wishes
from muster.scheduler.core.blame import infrastructure, judged_at
from muster.scheduler.core.jobs import WAITING, JobRecord
from muster.scheduler.core.reasons import Reason
from muster.scheduler.core.remains import MOVES_MAX, Remains
from muster.scheduler.core.state import State
from muster.schemas.base import TEXT_CHARS_MAX, Payload
from muster.schemas.facts.job import (
    JobFinished,
    JobQueued,
    JobResized,
    JobRunning,
    JobStopRequested,
    PodsExited,
    PodsOutcome,
    QueuedReason,
    StopReason,
)
from muster.schemas.facts.operations import NodeExcluded
from muster.schemas.job import Phase

NODE_LOSSES_MAX = 50
"""Runs in a row that may end with their node before they came anywhere; then something about the job kills nodes.

A job on thousands of nodes loses one every few hours as long as it lives, and goes on from its checkpoints.
"""


def follow_ups(state: State, now: Instant, remains: Remains, *, blame_s: float = 0.0) -> list[Draft]:
    """The facts that follow for jobs that moved and for those whose run time, or whose wait for a verdict, is over.

    blame_s: see `blame`.
    """
    drafts, verdicts = list[Draft](), state.verdicts
    while verdicts and verdicts[0][0] <= now:
        state.dirty[heapq.heappop(verdicts)[1]] = None
    for job_id in tuple(state.dirty):
        if len(drafts) >= MOVES_MAX:
            remains.more = True
            return drafts
        record = state.jobs.records.get(job_id)
        answer = _follow_up(state, record, now, blame_s) if record is not None else None
        if answer is not None:
            drafts.append(answer)
            continue
        del state.dirty[job_id]
        if record is not None and (record.preflight_plan is not None or record.exited is not None):
            due = _verdict_due(record, blame_s)
            if due is not None and due > now:
                heapq.heappush(verdicts, (due, job_id))
    for record in state.overdue(now):
        if len(drafts) >= MOVES_MAX:
            remains.more = True
            return drafts
        if record.id not in state.dirty:
            answer = _follow_up(state, record, now, blame_s)
            drafts += [answer] if answer is not None else []
    if verdicts:
        remains.wait_until(verdicts[0][0])
    return drafts


def _verdict_due(record: JobRecord, blame_s: float) -> Instant | None:
    """When a job that only waits needs an answer though nothing happens; None: its deadline apart, never."""
    if record.exited is not None:
        return judged_at(record, blame_s=blame_s)
    if record.phase is Phase.PLACED and record.started_fact and preflight.is_gated(record):
        return preflight.judged_by(record)
    return None


def _follow_up(state: State, record: JobRecord, now: Instant, blame_s: float) -> Draft | None:
    """The fact that the job needs now; None if it has only to wait."""
    if record.phase in WAITING:
        if record.cancel_fact:
            return _finish(record, Phase.CANCELLED, causes=(record.cancel_fact,))
        return _to_wish(record) if record.recall is None else federated.answer(record)
    wanted = federated.answer(record) if record.recall is not None else None
    return wanted or _of_run(state, record, now, blame_s)


def _of_run(state: State, record: JobRecord, now: Instant, blame_s: float) -> Draft | None:
    """The fact that a job needs that has its places."""
    if record.exited is not None:
        because = ""
        if record.exited.outcome is PodsOutcome.FAILED and record.stop_reason is None:
            because = infrastructure(record, state.nodes, state.grants, state.ledger)
            if not because and now < judged_at(record, blame_s=blame_s):
                return None
        return _after_exit(record, record.exited, now, because)
    if record.cancel_fact and record.phase is not Phase.STOPPING:
        return _stop(record, StopReason.CANCELLED, record.cancel_fact)
    if record.wishes or record.phase is Phase.STOPPING:
        return _to_wish(record)
    if record.phase is Phase.PLACED:
        if record.preflight_plan is not None:
            return preflight.first_step(record, record.preflight_plan, now)
        if record.started_fact:
            return draft(record, "running", JobRunning(attempt=record.attempt), causes=(record.started_fact,))
        return None
    if now >= record.deadline():
        return _stop(record, StopReason.TIMED_OUT, record.last_fact, grace_s=record.job.spec.grace_s)
    if record.resize is not None and record.resized_fact:
        resized = JobResized(attempt=record.attempt, slots=record.resize.slots)
        return draft(record, "resized", resized, causes=(record.resized_fact,))
    return None


def queued(record: JobRecord) -> Draft:
    """`queued` for a job that just came."""
    return draft(record, "queued", _queued(record, attempt=record.attempt), causes=(record.last_fact,))


def failed(record: JobRecord, reason: Reason, detail: str) -> Draft:
    """`failed` for a job that can never run."""
    payload = JobFinished(attempt=0, reason=f"{reason.value}: {detail}", assignment=record.assignment)
    return draft(record, "failed", payload, causes=(record.last_fact,))


def draft(record: JobRecord, name: str, payload: Payload, *, causes: tuple[str, ...]) -> Draft:
    """A fact about this job, in its trace."""
    return Draft("job", record.job.id, name, payload, causes, record.job.trace)


def _to_wish(record: JobRecord) -> Draft | None:
    """The answer to the first that was asked of it; None if nothing was, or it is yet to be queued."""
    if not record.wishes or record.phase is Phase.SUBMITTED:
        return None
    wish = record.wishes[0]
    name, payload = wishes.answer(record, wish)
    return draft(record, name, payload, causes=(wish.fact,))


def _after_exit(record: JobRecord, exited: PodsExited, now: Instant, because: str) -> Draft:
    """A cancellation or a deadline is done when the pods are gone, however they ended; a success stays a success.

    because: what was wrong with what the job held, if it ended with an error.
    """
    causes = (record.cancel_fact, record.exited_fact) if record.cancel_fact else (record.exited_fact,)
    spec, total_run_time_s = record.job.spec, record.total_run_time_s
    if exited.outcome is PodsOutcome.SUCCEEDED:
        return _finish(record, Phase.SUCCEEDED, causes=causes)
    if record.cancel_fact or record.stop_reason is StopReason.CANCELLED:
        return _finish(record, Phase.CANCELLED, causes=causes)
    if record.stop_reason is StopReason.TIMED_OUT or record.ran_s + exited.ran_s >= total_run_time_s:
        return _finish(record, Phase.TIMED_OUT, reason=_over(total_run_time_s), causes=causes)
    if record.stop_reason is StopReason.PREEMPTED:  # a process that ends with an error when it is told did not fail
        detail = f"made way for {record.made_way_for}" if record.made_way_for else record.stop_detail
        return _requeue(record, QueuedReason.PREEMPTED, detail, causes)
    is_early = preflight.ended_before_first_step(record)
    if is_early and (record.preflight_failed is not None or exited.outcome is PodsOutcome.FAILED):
        return _before_first_step(record, exited, now, causes)
    is_told_to_end = record.stop_reason is StopReason.NODE_LOST or record.stop_detail == federated.OUT_OF_CONTACT
    if exited.outcome is PodsOutcome.FAILED and not is_told_to_end and not because:
        told = _told(f"exit code {exited.exit_code}", exited.reason)
        in_row = 0 if record.came_further(record.exited_at) else record.failures_in_row
        if in_row >= spec.retries:
            so_often = f"; {in_row + 1} failures in a row without progress" if in_row else ""
            reason = told[: TEXT_CHARS_MAX - len(so_often)] + so_often
            return _finish(record, Phase.FAILED, reason=reason, causes=causes)
        return _requeue(record, QueuedReason.RETRY, told, causes, failures_in_row=in_row + 1)
    if record.losses_in_row >= NODE_LOSSES_MAX and not record.made_progress(record.exited_at):
        reason = f"{Reason.NODE_LOSSES.value}: {record.losses_in_row + 1} runs ended with their node"
        return _finish(record, Phase.FAILED, reason=_told(reason, exited.reason), causes=causes)
    detail = because or record.stop_detail or _told(f"node {exited.node}" if exited.node else "", exited.reason)
    return _requeue(record, QueuedReason.NODE_LOST, detail[:TEXT_CHARS_MAX], causes)


def _before_first_step(record: JobRecord, exited: PodsExited, now: Instant, causes: tuple[str, ...]) -> Draft:
    """The gate was never opened: the whole gang waits again, away from what failed; or it happened too often."""
    if too_often := preflight.too_often(record, exited):
        return _finish(record, Phase.FAILED, reason=too_often, causes=causes)
    payload = _queued(
        record,
        attempt=record.attempt + 1,
        reason=QueuedReason.PREFLIGHT_FAILED,
        detail=preflight.words(record, exited),
        excluded=preflight.excluded(record, exited, now),
    )
    return draft(record, "queued", payload, causes=causes)


def _told(what: str, reason: str) -> str:
    """With what the cluster said of it, as far as a fact may say it."""
    return ": ".join(filter(None, (what, reason)))[:TEXT_CHARS_MAX]


def _over(total_run_time_s: float) -> str:
    return f"{Reason.RUN_TIME.value}: its {total_run_time_s:g} s are over"


def _finish(record: JobRecord, phase: Phase, *, causes: tuple[str, ...], reason: str = "") -> Draft:
    exited = record.exited
    payload = JobFinished(
        attempt=record.attempt - 1 if record.phase in WAITING else record.attempt,
        exit_code=exited.exit_code if exited else 0,
        reason=reason,
        ran_s=record.ran_s + (exited.ran_s if exited else 0.0),
        assignment=record.assignment,
    )
    return draft(record, phase.value, payload, causes=causes)


def _requeue(
    record: JobRecord, reason: QueuedReason, detail: str, causes: tuple[str, ...], *, failures_in_row: int | None = None
) -> Draft:
    """The job waits again. failures_in_row: None: of the job itself none is added, and progress ends their row."""
    if failures_in_row is None and record.failures_in_row and record.came_further(record.exited_at):
        failures_in_row = 0
    payload = _queued(record, attempt=record.attempt + 1, reason=reason, detail=detail, failures_in_row=failures_in_row)
    return draft(record, "queued", payload, causes=causes)


def _queued(
    record: JobRecord,
    *,
    attempt: int,
    reason: QueuedReason = QueuedReason.SUBMITTED,
    detail: str = "",
    excluded: tuple[NodeExcluded, ...] = (),
    failures_in_row: int | None = None,
) -> JobQueued:
    """The payload of `queued`; run times are named where the queue made them other than the job's own."""
    spec, total_run_time_s, min_slice_s = record.job.spec, record.total_run_time_s, record.min_slice_s
    return JobQueued(
        queue=record.queue,
        attempt=attempt,
        reason=reason,
        detail=detail,
        total_run_time_s=None if total_run_time_s == spec.total_run_time_s else total_run_time_s,
        min_slice_s=None if min_slice_s == spec.min_slice_s else min_slice_s,
        excluded=excluded,
        failures_in_row=failures_in_row,
    )


def _stop(record: JobRecord, reason: StopReason, cause: str, *, grace_s: float = 0.0) -> Draft:
    payload = JobStopRequested(attempt=record.attempt, reason=reason, grace_s=grace_s)
    return draft(record, "stop-requested", payload, causes=(cause,))
