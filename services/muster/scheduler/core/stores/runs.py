"""Indexes of jobs for preemption: past their slice, stopping, resizing, with reserved places.

A new run is pushed on a heap by the end of its slice and moves to the expired runs after that time, so that
preemption never visits all running jobs to find its candidates.
"""

import heapq
from collections.abc import Iterator

from muster.core import Instant
from muster.scheduler.core.stores.jobs import WAITING, JobBook, JobRecord
from muster.schemas.job import Phase


class Runs:
    """Indexes of jobs for preemption. They derive from the records; `file` updates them."""

    def __init__(self) -> None:
        self.leaving: dict[str, None] = {}
        """Jobs that are being stopped."""
        self.resizing: dict[str, None] = {}
        self.reserved: dict[str, None] = {}
        """Waiting jobs with a reservation."""
        self.small: dict[str, None] = {}
        """Running elastic jobs with fewer replicas than their maximum."""
        self.reporting: dict[str, None] = {}
        """Running jobs that reported a checkpoint."""
        self._slices: list[tuple[Instant, str, int]] = []
        self._expired: dict[str, dict[int, dict[str, None]]] = {}

    def file(self, record: JobRecord) -> None:
        """Update the indexes after the job's record changed."""
        phase, job_id = record.phase, record.id
        is_running = phase is Phase.RUNNING
        _keep(self.leaving, job_id, phase is Phase.STOPPING)
        _keep(self.resizing, job_id, record.resize is not None)
        _keep(self.reserved, job_id, record.reserved is not None and phase in WAITING)
        is_small = is_running and record.job_class.gang.is_elastic and len(record.slots) < record.job_class.replicas
        _keep(self.small, job_id, is_small)
        _keep(self.reporting, job_id, is_running and record.checkpointed_at > 0)
        if not is_running and self._expired:
            self._drop(record, record.effective_priority)

    def begin(self, record: JobRecord) -> None:
        """Schedule the end of the time slice of a job that begins to run."""
        if record.job.spec.preemptible:
            heapq.heappush(self._slices, (record.slice_end(), record.id, record.attempt))

    def expire_slices(self, now: Instant, jobs: JobBook) -> bool:
        """Move jobs whose slice is over to the expired ones, and return whether there were any."""
        found = False
        while (when := self.next_end(jobs)) is not None and when <= now:
            record = jobs.records[heapq.heappop(self._slices)[1]]
            by_priority = self._expired.setdefault(record.queue, {})
            by_priority.setdefault(record.effective_priority, {})[record.id] = None
            found = True
        return found

    def reprioritise(self, record: JobRecord, *, was: int) -> None:
        """Update the index after the job's priority changed from `was`."""
        if self._drop(record, was):
            self._expired.setdefault(record.queue, {}).setdefault(record.effective_priority, {})[record.id] = None

    def next_end(self, jobs: JobBook) -> Instant | None:
        """Return when the next slice of a running preemptible job ends."""
        return jobs.first_of_runs(self._slices)

    def has_expired(self) -> bool:
        """Return whether any job is past its slice."""
        return bool(self._expired)

    def expired_queues(self) -> dict[str, int]:
        """Return the queues with jobs past their slice, and the lowest priority among these jobs."""
        return {queue: min(by_priority) for queue, by_priority in self._expired.items()}

    def expired(self, queue: str, *, below: int) -> Iterator[str]:
        """Yield the queue's jobs that are past their slice and of a lower priority than `below`, lowest first."""
        by_priority = self._expired.get(queue, {})
        for priority in sorted(by_priority):
            if priority >= below:
                return
            yield from by_priority[priority]

    def _drop(self, record: JobRecord, priority: int) -> bool:
        """Remove the job from the expired ones, and return whether it was one."""
        by_priority = self._expired.get(record.queue)
        if by_priority is None:
            return False
        jobs = by_priority.get(priority)
        if jobs is None or record.id not in jobs:
            return False
        del jobs[record.id]
        if not jobs:
            del by_priority[priority]
            if not by_priority:
                del self._expired[record.queue]
        return True


def _keep(group: dict[str, None], job_id: str, belongs: bool) -> None:
    if belongs:
        group[job_id] = None
    elif group:
        group.pop(job_id, None)
