"""The next fact of a job, from what was observed: at most one at a time, and only facts of the scheduler.

If pods end with an error on a device or node that health drains, or on a lost node, the hardware is the cause: the job
uses no retry. Health may see the fault a moment after the process ended, so where it watches, an error of a job with
GPUs is judged only `blame_s` later; until then the job holds its places. Where GPU pages are not read, waiting is
useless; a `use-reported` fact of telemetry shows that they are read.
"""

from muster.cluster.grants import Grants
from muster.cluster.node_records import DEVICE, NodeTable
from muster.core import Draft, Instant, after
from muster.quota.policy import Policy
from muster.scheduler.core.lifecycle import preflight
from muster.scheduler.core.reasons import Reason
from muster.scheduler.core.requeue import DRAFTS_MAX, Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.holders import Holders
from muster.scheduler.core.stores.jobs import HOLDING, WAITING, JobRecord
from muster.schemas.base import TEXT_CHARS_MAX, Payload
from muster.schemas.facts.federation import JobReturned, JobReturnRefused
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
from muster.schemas.facts.job_requests import (
    Ask,
    JobEdited,
    JobHeld,
    JobReprioritised,
    JobRequestRefused,
    PendingEdit,
    PendingJobRequest,
    PendingRequeue,
)
from muster.schemas.facts.node import DrainRequest
from muster.schemas.facts.operations import NodeExcluded
from muster.schemas.job import Phase

NODE_LOSSES_MAX = 50
"""Attempts in a row that may end with their node without progress; then the job itself is taken to be the cause.

A job on thousands of nodes loses one every few hours as long as it lives, and resumes from its checkpoints."""


def follow_ups(state: State, now: Instant, requeue: Requeue, *, blame_s: float = 0.0) -> list[Draft]:
    """Return the facts that follow for dirty jobs and for jobs whose run time, or wait for a verdict, is over.

    `blame_s`: how long an error is not judged, in seconds.
    """
    drafts = list[Draft]()
    state.due.wake(now)
    for job_id in tuple(state.due.dirty):
        if len(drafts) >= DRAFTS_MAX:
            requeue.more = True
            return drafts
        record = state.jobs.records.get(job_id)
        answer = _follow_up(state, record, now, blame_s) if record is not None else None
        if answer is not None:
            drafts.append(answer)
            continue
        del state.due.dirty[job_id]
        if record is not None and (record.preflight_plan is not None or record.exited is not None):
            due = _verdict_due(record, blame_s)
            if due is not None and due > now:
                state.due.await_verdict(job_id, due)
    for record in state.due.overdue(now, state.jobs):
        if len(drafts) >= DRAFTS_MAX:
            requeue.more = True
            return drafts
        if record.id not in state.due.dirty:
            answer = _follow_up(state, record, now, blame_s)
            drafts += [answer] if answer is not None else []
    verdict_at = state.due.next_verdict()
    if verdict_at is not None:
        requeue.wait_until(verdict_at)
    return drafts


def _verdict_due(record: JobRecord, blame_s: float) -> Instant | None:
    """Return when a job needs a decision though no fact arrives, its deadline apart; None if never."""
    if record.exited is not None:
        return judged_at(record, blame_s=blame_s)
    if record.phase is Phase.PLACED and record.started_fact and preflight.is_gated(record):
        return preflight.judged_by(record)
    return None


def _follow_up(state: State, record: JobRecord, now: Instant, blame_s: float) -> Draft | None:
    """Return the fact that the job needs now; None if it has to wait."""
    if record.phase in WAITING:
        if record.cancel_fact:
            return _finish(record, Phase.CANCELLED, causes=(record.cancel_fact,))
        return _answer_requests(state, record) if record.recall is None else answer_recall(record)
    wanted = answer_recall(record) if record.recall is not None else None
    return wanted or _of_run(state, record, now, blame_s)


def _of_run(state: State, record: JobRecord, now: Instant, blame_s: float) -> Draft | None:
    if record.exited is not None:
        because = ""
        if record.exited.outcome is PodsOutcome.FAILED and record.stop_reason is None:
            because = infrastructure(record, state.nodes, state.grants, state.holders)
            if not because and now < judged_at(record, blame_s=blame_s):
                return None
        return _after_exit(record, record.exited, now, because)
    if record.cancel_fact and record.phase is not Phase.STOPPING:
        return _stop_run(record, StopReason.CANCELLED, record.cancel_fact)
    if record.wishes or record.requeue or record.edit or record.phase is Phase.STOPPING:
        return _answer_requests(state, record)
    if record.phase is Phase.PLACED:
        if record.preflight_plan is not None:
            return preflight.first_step(record, record.preflight_plan, now)
        if record.started_fact:
            return draft(record, "running", JobRunning(attempt=record.attempt), causes=(record.started_fact,))
        return None
    if now >= record.deadline():
        return _stop_run(record, StopReason.TIMED_OUT, record.last_fact, grace_s=record.job.spec.grace_s)
    if record.resize is not None and record.resized_fact:
        resized = JobResized(attempt=record.attempt, slots=record.resize.slots)
        return draft(record, "resized", resized, causes=(record.resized_fact,))
    return None


def queued_draft(record: JobRecord) -> Draft:
    """Return `queued` for a job that just arrived."""
    return draft(record, "queued", _queued(record, attempt=record.attempt), causes=(record.last_fact,))


def failed_draft(record: JobRecord, reason: Reason, detail: str) -> Draft:
    """Return `failed` for a job that can never run."""
    payload = JobFinished(attempt=0, reason=f"{reason.value}: {detail}", assignment=record.assignment)
    return draft(record, "failed", payload, causes=(record.last_fact,))


def draft(record: JobRecord, name: str, payload: Payload, *, causes: tuple[str, ...]) -> Draft:
    """Return a fact about this job, in its trace."""
    return Draft("job", record.job.id, name, payload, causes, record.job.trace)


def _answer_requests(state: State, record: JobRecord) -> Draft | None:
    """Return the answer to the job's first request; None if there is none, or if the job is not queued yet."""
    if record.phase is Phase.SUBMITTED:
        return None
    if not record.wishes:
        if record.edit is not None:
            return _answer_edit(record, record.edit, state.queues.policy_for(record.queue, record.job.spec.queue_name))
        return None if record.requeue is None else _answer_requeue(record, record.requeue)
    request = record.wishes[0]
    name, payload = answer_request(record, request)
    return draft(record, name, payload, causes=(request.fact,))


def _answer_edit(record: JobRecord, request: PendingEdit, policy: Policy) -> Draft:
    """Return `edited`, or the refusal for a job that does not wait, or for a time that its queue does not allow."""
    asked = request.asked
    total_s, slice_s = asked.total_run_time_s, asked.min_slice_s
    wrong = ""
    if record.phase is not Phase.QUEUED:
        wrong = f"{_STANDS[record.phase]}: only a job that waits can be edited"
    elif total_s is not None and policy.run_time_max_s is not None and total_s > policy.run_time_max_s:
        wrong = _above("total_run_time_s", total_s, policy.run_time_max_s, record.queue)
    elif slice_s is not None and policy.min_slice_max_s is not None and slice_s > policy.min_slice_max_s:
        wrong = _above("min_slice_s", slice_s, policy.min_slice_max_s, record.queue)
    elif total_s is not None and total_s <= record.ran_s:
        wrong = f"total_run_time_s {total_s:g} is used up: its attempts ran for {record.ran_s:g} s; ask for more"
    if wrong:
        return draft(record, "edit-refused", _refused(asked.principal, wrong), causes=(request.fact,))
    edited = JobEdited(
        total_run_time_s=record.total_run_time_s if total_s is None else total_s,
        min_slice_s=record.min_slice_s if slice_s is None else slice_s,
        principal=asked.principal,
        reason=asked.reason,
    )
    return draft(record, "edited", edited, causes=(request.fact,))


def _above(field: str, value: float, most: float, queue: str) -> str:
    return f"{field} {value:g} is above {most:g}, the maximum of queue {queue}: ask for at most {most:g}"


def _answer_requeue(record: JobRecord, request: PendingRequeue) -> Draft:
    """Return the stop of the attempt, or the refusal for a job without one."""
    if record.phase not in (Phase.PLACED, Phase.RUNNING):
        reason = f"{_STANDS.get(record.phase, 'it waits')}: only a job that is placed or running can be requeued"
        return draft(record, "requeue-refused", _refused(request.principal, reason), causes=(request.fact,))
    stop = JobStopRequested(
        attempt=record.attempt,
        reason=StopReason.PREEMPTED,
        grace_s=record.job.spec.grace_s,
        detail=request.words[:TEXT_CHARS_MAX],
        requeued=True,
    )
    return draft(record, "stop-requested", stop, causes=(request.fact,))


def _after_exit(record: JobRecord, exited: PodsExited, now: Instant, because: str) -> Draft:
    """Return the fact after all pods ended. A cancellation or time-out is complete, however they ended; a success stays
    one.

    `because` is the fault of the infrastructure that explains an error, "" if there is none.
    """
    causes = (record.cancel_fact, record.exited_fact) if record.cancel_fact else (record.exited_fact,)
    spec, total_run_time_s = record.job.spec, record.total_run_time_s
    if exited.outcome is PodsOutcome.SUCCEEDED:
        return _finish(record, Phase.SUCCEEDED, causes=causes)
    if record.cancel_fact or record.stop_reason is StopReason.CANCELLED:
        return _finish(record, Phase.CANCELLED, causes=causes)
    if record.stop_reason is StopReason.TIMED_OUT or record.ran_s + exited.ran_s >= total_run_time_s:
        return _finish(record, Phase.TIMED_OUT, reason=_over(total_run_time_s), causes=causes)
    if record.stop_reason is StopReason.PREEMPTED:  # an error after the notice of preemption is no failure
        detail = f"made way for {record.made_way_for}" if record.made_way_for else record.stop_detail
        return _requeue(record, QueuedReason.PREEMPTED, detail, causes)
    is_early = preflight.ended_before_first_step(record)
    if is_early and (record.preflight_failed is not None or exited.outcome is PodsOutcome.FAILED):
        return _before_first_step(record, exited, now, causes)
    is_told_to_end = record.stop_reason is StopReason.NODE_LOST or record.stop_detail == OUT_OF_CONTACT
    if exited.outcome is PodsOutcome.FAILED and not is_told_to_end and not because:
        reported = _with_reason(f"exit code {exited.exit_code}", exited.reason)
        in_row = 0 if record.came_further(record.exited_at) else record.failures_in_row
        if in_row >= spec.retries:
            so_often = f"; {in_row + 1} failures in a row without progress" if in_row else ""
            reason = reported[: TEXT_CHARS_MAX - len(so_often)] + so_often
            return _finish(record, Phase.FAILED, reason=reason, causes=causes)
        return _requeue(record, QueuedReason.RETRY, reported, causes, failures_in_row=in_row + 1)
    if record.losses_in_row >= NODE_LOSSES_MAX and not record.made_progress(record.exited_at):
        reason = f"{Reason.NODE_LOSSES.value}: {record.losses_in_row + 1} runs ended with their node"
        return _finish(record, Phase.FAILED, reason=_with_reason(reason, exited.reason), causes=causes)
    detail = because or record.stop_detail or _with_reason(f"node {exited.node}" if exited.node else "", exited.reason)
    return _requeue(record, QueuedReason.NODE_LOST, detail[:TEXT_CHARS_MAX], causes)


def _before_first_step(record: JobRecord, exited: PodsExited, now: Instant, causes: tuple[str, ...]) -> Draft:
    """Requeue the whole gang, away from the failed node; or fail it if its checks failed too often."""
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


def _with_reason(what: str, reason: str) -> str:
    """Join a text with the reason that the cluster gave, cut to the maximum length of a fact's text."""
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
    """Return `queued` again. With `failures_in_row` None the row is unchanged, or ends if the job made progress."""
    if failures_in_row is None and record.failures_in_row and record.came_further(record.exited_at):
        failures_in_row = 0
    payload = _queued(record, attempt=record.attempt + 1, reason=reason, detail=detail, failures_in_row=failures_in_row)
    if reason is QueuedReason.PREEMPTED and record.requeued:
        payload = payload.model_copy(update={"requeued": True})
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
    """Return the payload of `queued`; run times are set only where the queue changed them."""
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


def _stop_run(record: JobRecord, reason: StopReason, cause: str, *, grace_s: float = 0.0) -> Draft:
    payload = JobStopRequested(attempt=record.attempt, reason=reason, grace_s=grace_s)
    return draft(record, "stop-requested", payload, causes=(cause,))


_ENDING = frozenset({StopReason.CANCELLED, StopReason.TIMED_OUT})
"""Stop reasons after which a job is not queued again."""

_STANDS = {
    Phase.PLACED: "it has its places already, and its pods are starting",
    Phase.RUNNING: "it runs",
    Phase.STOPPING: "its pods are being ended",
}


def answer_request(record: JobRecord, request: PendingJobRequest) -> tuple[str, Payload]:
    """Return the name and body of the fact that answers this request, for a job that was queued and has not ended.

    A request for the present state is accepted, except the release of a job that is not held.
    """
    match request.ask:
        case Ask.HOLD:
            if record.phase in HOLDING:
                return "hold-refused", _refused(
                    request.principal, f"{_STANDS[record.phase]}: only a job that waits can be held"
                )
            return "held", JobHeld(principal=request.principal, reason=request.reason)
        case Ask.RELEASE:
            if record.held is None:
                return "release-refused", _refused(request.principal, "it is not held")
            return "unheld", JobHeld(principal=request.principal, reason=request.reason)
        case Ask.PRIORITY:
            if record.cancel_fact or record.stop_reason in _ENDING:
                return "priority-refused", _refused(request.principal, "it is being ended for good")
            return "reprioritised", _reprioritised(record, request)


def _refused(principal: str, reason: str) -> JobRequestRefused:
    return JobRequestRefused(principal=principal, reason=reason)


def _reprioritised(record: JobRecord, request: PendingJobRequest) -> JobReprioritised:
    assert request.priority is not None, f"{request.fact}: a request for another priority has a priority"
    return JobReprioritised(
        priority=request.priority, was=record.effective_priority, principal=request.principal, reason=request.reason
    )


ATTEMPTS_OF_ASSIGNMENT = 1_000
"""Attempt numbers of each later assignment start at a multiple of this: a cluster may get a job a second time, and its
attempts must have distinct numbers."""

OUT_OF_CONTACT = "out of contact with the federation: it may be given to another cluster"

GIVEN_AWAY = "it was given to another cluster while this one was out of contact"


def first_attempt(assignment: int) -> int:
    """Return the number of the first attempt of an assignment."""
    return 1 + (assignment - 1) * ATTEMPTS_OF_ASSIGNMENT


def has_started(record: JobRecord) -> bool:
    """Return whether the job has or had a place on this cluster."""
    return record.phase not in WAITING or record.attempt > first_attempt(record.assignment)


def answer_recall(record: JobRecord) -> Draft | None:
    """Return the answer to the federation's recall of the job; None if it has to wait for the job's pods."""
    recall = record.recall
    assert recall is not None, "only a recall is answered"
    job = record.job
    causes: tuple[str, ...] = (record.recall_fact,)
    if record.recall_drops and record.phase not in WAITING:
        if record.exited is None:
            return _stop_given_away(record) if record.phase is not Phase.STOPPING else None
        causes = (record.recall_fact, record.exited_fact)
    elif not record.recall_drops and has_started(record):
        refused = JobReturnRefused(assignment=recall.assignment, reason="it has started")
        return Draft("job", job.id, "return-refused", refused, causes, job.trace)
    return Draft("job", job.id, "returned", JobReturned(assignment=recall.assignment), causes, job.trace)


def _stop_given_away(record: JobRecord) -> Draft:
    """Return a stop without grace, because the job may be running elsewhere."""
    stop = JobStopRequested(attempt=record.attempt, reason=StopReason.CANCELLED, detail=GIVEN_AWAY)
    return Draft("job", record.job.id, "stop-requested", stop, (record.recall_fact,), record.job.trace)


READ_LATELY_S = 86_400.0
"""GPU pages read within this time count as being read; telemetry reports running jobs far more often."""

HEALTH = "health"
"""The service that drains faulty hardware."""


def infrastructure(record: JobRecord, nodes: NodeTable, grants: Grants, holders: Holders) -> str:
    """Return the fault of a node or device that the job holds, in words; "" if none is known."""
    for name in dict.fromkeys(slot.node for slot in record.slots):
        node = nodes.get(name)
        if node is None or node.description is None:
            return f"node {name} left"
        if node.lost:
            return f"node {name} is lost"
        if (request := _of_health(node.wishes)) is not None:
            return f"health withholds node {name}: {request.reason or request.request_id}"
    for uuid, device in grants.devices.items():
        request = _of_health(device.wishes)
        if request is not None and record.id in holders.of(DEVICE, uuid):
            return f"health withholds device {uuid}: {request.reason or request.request_id}"
    return ""


def pages_are_read(read_at: int, now: Instant) -> bool:
    """Return whether GPU pages are being read. `read_at` is the newest reported reading, 0 if there is none."""
    return bool(read_at) and now <= after(Instant(read_at), READ_LATELY_S)


def judged_at(record: JobRecord, *, blame_s: float) -> Instant:
    """Return when the end of a run is judged: at once, except an error of a job with GPUs that was not stopped.

    An error before the first step is never a failure of the job.
    """
    exited = record.exited
    is_doubtful = exited is not None and exited.outcome is PodsOutcome.FAILED and record.stop_reason is None
    is_early = preflight.ended_before_first_step(record)
    if not blame_s or not is_doubtful or is_early or not record.job_class.gpu_milli or record.cancel_fact:
        return Instant(record.exited_at)
    return after(Instant(record.exited_at), blame_s)


def _of_health(requests: tuple[DrainRequest, ...]) -> DrainRequest | None:
    return next(
        (request for request in requests if request.by == HEALTH and (request.answered or not request.from_at)), None
    )
