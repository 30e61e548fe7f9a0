"""`unschedulable`: the first job of a pending queue hears of every change of its reason, those behind it once."""

import itertools
from collections.abc import Mapping

from muster.core import NS_PER_S, Draft, Instant
from muster.scheduler.core.explain.why import why_blocked
from muster.scheduler.core.lifecycle.follow_ups import draft
from muster.scheduler.core.preempt.defragmentation import SCATTERED
from muster.scheduler.core.reasons import Blocked, Reason
from muster.scheduler.core.requeue import DRAFTS_MAX, Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.core.stores.pending_queue import PendingQueue
from muster.schemas.facts.job import JobUnschedulable
from muster.schemas.job import Phase

SEARCHES_MAX = 16
"""Pending queues whose reason one decision finds: each looks at the whole fleet, about 50 microseconds."""

QUEUES_MAX = 512
"""Pending queues that are looked at by one decision, about 10 microseconds each where a quota stands in the way."""


class Explanations:
    """Reports to jobs why they wait.

    interval_s: how long a job gets no other report after one. advice: what else to report to jobs for which the idle
    places are scattered.
    """

    def __init__(self, state: State, requeue: Requeue, *, interval_s: float, advice: Mapping[str, str]) -> None:
        self._jobs = state.jobs
        self._queues = state.queues
        self._pending_queues = state.pending
        self._fleet = state.fleet
        self._advice = advice
        self._requeue = requeue
        self._interval_ns = round(interval_s * NS_PER_S)
        self._asked_at = Instant(-self._interval_ns)

    def make(self, now: Instant, placed: set[str], drafts: list[Draft]) -> None:
        """Add `unschedulable` to `drafts`. placed: jobs that this decision placed."""
        reasons, reported, searched, looked = self._pending_queues.reasons, 0, 0, 0
        reasons.wake(now)
        self._explain_again(now)
        for pending in tuple(itertools.islice(reasons.now, QUEUES_MAX)):
            if reported >= DRAFTS_MAX or searched >= SEARCHES_MAX:
                break
            looked += 1
            if not pending.is_blocked or pending.jobs[0][1] in placed:
                reasons.explained(pending)
                continue
            due = self._next_report_if_all_reported(pending, now)
            if due is None:
                searched += self._find_reason(pending, now)
                emitted, due = self._report(pending, now, drafts, most=DRAFTS_MAX - reported)
                if emitted:
                    reported += emitted
                    continue
                if due is None and pending.why_epoch != reasons.epoch and pending.capacity_block is not None:
                    due = pending.capacity_block.why_until
            if due is not None:
                reasons.put_off(pending, due)
            else:
                reasons.explained(pending)
        if reasons.now and (reported >= DRAFTS_MAX or searched >= SEARCHES_MAX or looked >= QUEUES_MAX):
            self._requeue.more = True
        due = reasons.next_due()
        if due is not None:
            self._requeue.wait_until(due)

    def _explain_again(self, now: Instant) -> None:
        """Find all reasons anew if something changed, once in the interval: else each change would cost them all."""
        if not self._pending_queues.reasons.is_out_of_date:
            return
        due = self._after_interval(self._asked_at)
        if now >= due:
            self._asked_at = now
            self._pending_queues.reasons.explain_again()
        else:
            self._requeue.wait_until(due)

    def _find_reason(self, pending: PendingQueue, now: Instant) -> bool:
        """Bring the reason of a pending queue up to date. A shortage is looked for once per class and interval.

        Returns whether the fleet was looked at.
        """
        block, job_class, epoch = pending.capacity_block, pending.job_class, self._pending_queues.reasons.epoch
        wanted, preemptible = job_class.amounts_least, job_class.preemptible
        if block is None or self._queues.ceiling(pending.queue, wanted, preemptible=preemptible) is not None:
            pending.why, pending.why_epoch = self._why(pending), epoch
            return False
        is_new = block.why is None or now >= block.why_until
        if is_new:
            block.why, block.why_epoch = self._why(pending), epoch
            block.why_until = self._after_interval(now)
        pending.why, pending.why_epoch = block.why, block.why_epoch
        advice = self._advice.get(pending.jobs[0][1])
        if advice and pending.why is not None and pending.why.reason in SCATTERED:
            pending.why = Blocked(pending.why.reason, f"{pending.why.detail}; {advice}")
        return is_new

    def _why(self, pending: PendingQueue) -> Blocked:
        return why_blocked(pending, queues=self._queues, pending_queues=self._pending_queues, fleet=self._fleet)

    def _report(
        self, pending: PendingQueue, now: Instant, drafts: list[Draft], *, most: int
    ) -> tuple[int, Instant | None]:
        """Report the reason to the first job and to those that never heard one.

        Returns how many reports there are, and when the next is due of those that came too early.
        """
        why, emitted, due = pending.why, 0, list[Instant]()
        if why is None or why.reason == Reason.TURN:
            return 0, None
        for job_id in itertools.islice({pending.jobs[0][1]: None} | pending.unreported, most):
            record = self._jobs.records[job_id]
            if record.phase is not Phase.QUEUED or (record.reason, record.detail) == why:
                continue
            if now < self._reported_until(record):
                due.append(self._reported_until(record))
                continue
            payload = JobUnschedulable(reason=why.reason, detail=why.detail)
            drafts.append(draft(record, "unschedulable", payload, causes=(record.last_fact,)))
            emitted += 1
        return emitted, min(due, default=None)

    def _next_report_if_all_reported(self, pending: PendingQueue, now: Instant) -> Instant | None:
        """Return when the next report is due if none may be made yet and what was reported may be out of date."""
        first = self._jobs.records[pending.jobs[0][1]]
        due = self._reported_until(first)
        if pending.unreported or now >= due:
            return None
        is_known = (
            pending.why_epoch == self._pending_queues.reasons.epoch and (first.reason, first.detail) == pending.why
        )
        return None if is_known else due

    def _reported_until(self, record: JobRecord) -> Instant:
        """Return until when the job gets no other report."""
        if not record.explained_at:
            return Instant(0)
        return self._after_interval(Instant(record.explained_at))

    def _after_interval(self, moment: Instant) -> Instant:
        return Instant(moment + self._interval_ns)
