"""Stops jobs that are past their time slice and hold what is booked, in time for the booking's start.

This applies to every job there, whatever the rules of preemption say. Jobs that were there before the booking counted
as leaving only if they could be preempted (see `forecast`), and later jobs were admitted on this condition. A job
within its time slice stays until it ends, and a non-preemptible job until its own end.
"""

from collections.abc import Iterator

from muster.core import Draft, Instant, after
from muster.scheduler.core.lifecycle.follow_ups import draft
from muster.scheduler.core.requeue import DRAFTS_MAX, Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import Booking, Want
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.facts.job import JobStopRequested, StopReason
from muster.schemas.job import GRACE_S_MAX, Phase

LOOK_EVERY_S = 1.0
"""Minimum time between two searches, as long as no job has to leave before."""


class Clearing:
    """Stops jobs for bookings. Its own state only saves work."""

    def __init__(self, state: State, requeue: Requeue) -> None:
        self._state = state
        self._requeue = requeue
        self._generation = -1
        self._folded = -1
        self._has_asked = False
        self._next = _NEVER
        self._resume_at = Instant(0)

    def make(self, now: Instant, drafts: list[Draft]) -> None:
        """Add `stop-requested` for jobs that have to leave now."""
        bookings, progress = self._state.bookings, self._state.progress
        if len(bookings.complete) == len(bookings.all) - len(bookings.withholds):
            return
        is_again = self._has_asked and progress.folded == self._folded
        if is_again or now >= self._next or (progress.generation != self._generation and now >= self._resume_at):
            self._generation, self._folded = progress.generation, progress.folded
            self._resume_at = after(now, LOOK_EVERY_S)
            self._next, before = _NEVER, len(drafts)
            self._clear(now, drafts)
            self._has_asked = len(drafts) > before
        elif progress.generation != self._generation:
            self._requeue.wait_until(self._resume_at)
        if self._next < _NEVER:
            self._requeue.wait_until(self._next)

    def _clear(self, now: Instant, drafts: list[Draft]) -> None:
        emitted = {draft.subject_id for draft in drafts if draft.kind == "job"}
        for booking in self._state.bookings.all.values():
            begins = after(Instant(booking.starts_at), -GRACE_S_MAX)
            if booking.is_withhold or self._is_made_way_for(booking):
                continue
            if booking.is_complete or now < begins:
                self._next = min(self._next, begins) if now < begins else self._next
                continue
            for record in self._in_the_way(booking):
                leaves_at = max(record.slice_end(), after(Instant(booking.starts_at), -record.job.spec.grace_s))
                if now < leaves_at:
                    self._next = min(self._next, leaves_at)
                elif record.id not in emitted:
                    if len(emitted) >= DRAFTS_MAX:
                        self._requeue.more = True
                        return
                    emitted.add(record.id)
                    drafts.append(self._stop(record, booking))

    def _is_made_way_for(self, booking: Booking) -> bool:
        """Return whether jobs are already being preempted for the booking: then no other job has to leave."""
        record = self._state.jobs.records.get(booking.key)
        return record is not None and record.reserved is not None and bool(record.reserved.victims)

    def _in_the_way(self, booking: Booking) -> Iterator[JobRecord]:
        """Yield running preemptible jobs that hold what the booking wants, without the jobs that the booking is for."""
        state, seen = self._state, set[str]()
        for name in sorted(booking.lacking):
            node = state.nodes.get(name)
            if node is None or node.description is None:
                continue
            want = booking.wants[name]
            wanted = {index for index, _ in want.devices}
            for job_id, holds in node.jobs.items():
                record = state.jobs.records[job_id]
                if job_id in seen or record.phase is not Phase.RUNNING or not record.job.spec.preemptible:
                    continue
                if record.resize is not None:
                    continue  # it may be shrinking for this very booking
                devices = {index for hold in holds for index in hold.slot.devices}
                if want.whole or devices & wanted or (not devices and self._lacks_only_the_rest(booking, name, want)):
                    seen.add(job_id)
                    if not self._is_for(booking, record):
                        yield record

    @staticmethod
    def _lacks_only_the_rest(booking: Booking, name: str, want: Want) -> bool:
        """Return whether all wanted devices of the node are kept, so that only CPU or memory is missing."""
        kept = sum(hold.slot.gpu_milli * len(hold.slot.devices) for hold in booking.kept.get(name, ()))
        return kept == sum(milli for _, milli in want.devices)

    def _is_for(self, booking: Booking, record: JobRecord) -> bool:
        if booking.job_id == record.id:
            return True
        return bool(booking.queue) and booking.queue in self._state.queues.path(record.queue)

    def _stop(self, record: JobRecord, booking: Booking) -> Draft:
        waiting = self._state.jobs.records.get(booking.key)
        whom = booking.key.partition("/")[2] if booking.is_reservation else booking.key
        if waiting is not None:
            whom = f"{waiting.job.spec.name} of queue {waiting.queue}"
        payload = JobStopRequested(
            attempt=record.attempt,
            reason=StopReason.PREEMPTED,
            grace_s=record.job.spec.grace_s,
            made_way_for=booking.key,
            detail=f"over its slice, on what is reserved for {whom}",
        )
        causes = (waiting.last_fact,) if waiting is not None else (record.last_fact,)
        return draft(record, "stop-requested", payload, causes=causes)


_NEVER = Instant(1 << 62)
