"""`unschedulable`: the first of a lane hears of every change, those behind it once."""

import itertools
from collections.abc import Mapping

from muster.core import NS_PER_S, Draft, Instant
from muster.scheduler.core.explain.why import why_blocked
from muster.scheduler.core.lifecycle.follow_ups import draft
from muster.scheduler.core.preempt.defragmentation import SCATTERED
from muster.scheduler.core.reasons import Blocked, Reason
from muster.scheduler.core.requeue import MOVES_MAX, Remains
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.core.stores.pending_queue import Lane
from muster.schemas.facts.job import JobUnschedulable
from muster.schemas.job import Phase

WORDS_MAX = 16
"""Lanes whose reason is put into words by one decision: each looks at the whole fleet, about 50 microseconds."""

LANES_MAX = 512
"""Lanes that are looked at by one decision, about 10 microseconds each where a quota stands in the way."""


class Explanations:
    """Tells those who wait why. interval_s: how long a job hears nothing more after it was told something.

    advice: what else to tell jobs for which the idle places are scattered.
    """

    def __init__(self, state: State, remains: Remains, *, interval_s: float, advice: Mapping[str, str]) -> None:
        self._state = state
        self._advice = advice
        self._remains = remains
        self._interval_ns = round(interval_s * NS_PER_S)
        self._asked_at = Instant(-self._interval_ns)

    def make(self, now: Instant, placed: set[str], drafts: list[Draft]) -> None:
        """Add what is to be said to `drafts`. placed: jobs that this decision placed."""
        line, told, words, looked = self._state.pending, 0, 0, 0
        line.wake(now)
        self._ask_again(now)
        for lane in tuple(itertools.islice(line.to_explain, LANES_MAX)):
            if told >= MOVES_MAX or words >= WORDS_MAX:
                break
            looked += 1
            if not lane.is_blocked or lane.jobs[0][1] in placed:
                line.explained(lane)
                continue
            due = self._all_told_just_now(lane, now)
            if due is None:
                words += self._find_word(lane, now)
                said, due = self._tell(lane, now, drafts, most=MOVES_MAX - told)
                if said:
                    told += said
                    continue
                if due is None and lane.word_epoch != line.epoch and lane.short is not None:
                    due = lane.short.word_until
            if due is not None:
                line.put_off(lane, due)
            else:
                line.explained(lane)
        if line.to_explain and (told >= MOVES_MAX or words >= WORDS_MAX or looked >= LANES_MAX):
            self._remains.more = True
        due = line.next_due()
        if due is not None:
            self._remains.wait_until(due)

    def _ask_again(self, now: Instant) -> None:
        """Look again at all lanes if there was news, once in the interval: otherwise each news would cost them all."""
        if not self._state.pending.is_out_of_date:
            return
        due = self._after_interval(self._asked_at)
        if now >= due:
            self._asked_at = now
            self._state.pending.ask_again()
        else:
            self._remains.wait_until(due)

    def _find_word(self, lane: Lane, now: Instant) -> bool:
        """Bring the lane's word up to date. A shortage is looked for at most once per kind and interval.

        Returns whether the fleet was looked at.
        """
        short, epoch = lane.short, self._state.pending.epoch
        if (
            short is None
            or self._state.queues.ceiling(lane.queue, lane.kind.amounts_least, preemptible=lane.kind.preemptible)
            is not None
        ):
            lane.word, lane.word_epoch = why_blocked(self._state, lane), epoch
            return False
        is_new = short.word is None or now >= short.word_until
        if is_new:
            short.word, short.word_epoch = why_blocked(self._state, lane), epoch
            short.word_until = self._after_interval(now)
        lane.word, lane.word_epoch = short.word, short.word_epoch
        advice = self._advice.get(lane.jobs[0][1])
        if advice and lane.word is not None and lane.word.reason in SCATTERED:
            lane.word = Blocked(lane.word.reason, f"{lane.word.detail}; {advice}")
        return is_new

    def _tell(self, lane: Lane, now: Instant, drafts: list[Draft], *, most: int) -> tuple[int, Instant | None]:
        """Tell the lane's word to the first and to those who never heard one.

        Returns how many were told, and when the next may be who was told something else just now.
        """
        word, said, due = lane.word, 0, list[Instant]()
        if word is None or word.reason == Reason.TURN:
            return 0, None
        for job_id in itertools.islice({lane.jobs[0][1]: None} | lane.untold, most):
            record = self._state.jobs.records[job_id]
            if record.phase is not Phase.QUEUED or (record.reason, record.detail) == word:
                continue
            if now < self._told_until(record):
                due.append(self._told_until(record))
                continue
            payload = JobUnschedulable(reason=word.reason, detail=word.detail)
            drafts.append(draft(record, "unschedulable", payload, causes=(record.last_fact,)))
            said += 1
        return said, min(due, default=None)

    def _all_told_just_now(self, lane: Lane, now: Instant) -> Instant | None:
        """When more may be told, if nobody may be told anything yet, and what they were told may be out of date."""
        first = self._state.jobs.records[lane.jobs[0][1]]
        due = self._told_until(first)
        if lane.untold or now >= due:
            return None
        is_known = lane.word_epoch == self._state.pending.epoch and (first.reason, first.detail) == lane.word
        return None if is_known else due

    def _told_until(self, record: JobRecord) -> Instant:
        """Before this moment the job may not be told anything more."""
        if not record.explained_at:
            return Instant(0)
        return self._after_interval(Instant(record.explained_at))

    def _after_interval(self, moment: Instant) -> Instant:
        return Instant(moment + self._interval_ns)
