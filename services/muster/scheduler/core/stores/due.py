"""Jobs that need a decision: new jobs, jobs changed by a fact, and jobs that are due at a known time.

The heaps keep entries of runs and exclusions that are over; these are dropped when they become due.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from muster.core import Instant
from muster.quota.queues import QueueTree
from muster.scheduler.core.stores.jobs import JobBook, JobRecord


@dataclass(slots=True)
class Arrivals:
    """Jobs that have to be queued or refused, by id."""

    jobs: dict[str, None] = field(default_factory=dict)
    awaited: dict[str, dict[str, None]] = field(default_factory=dict)
    """Queues of users that have to be created, with the jobs that wait for each."""

    def await_queue(self, record: JobRecord, queues: QueueTree) -> None:
        """Request the queue of a job, if it is the queue of a user and does not exist."""
        if record.queue not in queues.queues and record.queue != record.job.spec.queue_name:
            self.awaited.setdefault(record.queue, {})[record.id] = None


class DueJobs:
    """Jobs that are due, by what makes them due."""

    def __init__(self) -> None:
        self.dirty: dict[str, None] = {}
        """Jobs that may need a fact because one was folded."""
        self._verdicts: list[tuple[Instant, str]] = []
        self._deadlines: list[tuple[Instant, str, int]] = []
        self._lifts: list[tuple[Instant, str]] = []

    def mark_dirty(self, job_id: str) -> None:
        """Decide about the job in the next decision."""
        self.dirty[job_id] = None

    # --- waits for a verdict -----------------------------------------------------------------------------

    def await_verdict(self, job_id: str, due: Instant) -> None:
        """Decide about the job again at this time even if no fact arrives."""
        heapq.heappush(self._verdicts, (due, job_id))

    def wake(self, now: Instant) -> None:
        """Mark the jobs dirty whose wait for a verdict is over."""
        while self._verdicts and self._verdicts[0][0] <= now:
            self.mark_dirty(heapq.heappop(self._verdicts)[1])

    def next_verdict(self) -> Instant | None:
        """Return when the next wait for a verdict is over."""
        return self._verdicts[0][0] if self._verdicts else None

    # --- total run times ---------------------------------------------------------------------------------

    def begin_run(self, record: JobRecord) -> None:
        """Schedule the end of the total run time of a job that begins to run."""
        heapq.heappush(self._deadlines, (record.deadline(), record.id, record.attempt))

    def next_deadline(self, jobs: JobBook) -> Instant | None:
        """Return when the next running job's total run time is over."""
        return jobs.first_of_runs(self._deadlines)

    def overdue(self, now: Instant, jobs: JobBook) -> list[JobRecord]:
        """Return running jobs whose total run time is over; they stay on the heap until that is folded."""
        due: list[tuple[Instant, str, int]] = []
        while (when := self.next_deadline(jobs)) is not None and when <= now:
            due.append(heapq.heappop(self._deadlines))
        for entry in due:
            heapq.heappush(self._deadlines, entry)
        return [jobs.records[job_id] for _, job_id, _ in due]

    # --- exclusions of nodes -----------------------------------------------------------------------------

    def await_lift(self, record: JobRecord) -> None:
        """Schedule when the job may be tried on its excluded nodes again."""
        for one in record.excluded:
            if one.until:
                heapq.heappush(self._lifts, (Instant(one.until), record.id))

    def pop_lifts(self, now: Instant) -> Iterator[str]:
        """Yield jobs with an exclusion that expired."""
        while self._lifts and self._lifts[0][0] <= now:
            yield heapq.heappop(self._lifts)[1]

    def next_lift(self) -> Instant | None:
        """Return when the next exclusion ends."""
        return self._lifts[0][0] if self._lifts else None
