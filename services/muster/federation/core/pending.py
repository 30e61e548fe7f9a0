"""Pending queues: jobs that wait for a cluster, by team, rule and size.

If the first job of a queue cannot be routed, neither can the others, so a queue that was tried is skipped until a
relevant change. The queues are derived from the rest of the state.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class QueueKey(NamedTuple):
    """The common properties of the jobs of a queue."""

    team: str
    rule: str
    """Name of the routing rule; "" without rules."""
    milli: int
    to: tuple[str, ...] = ()
    """Clusters requested instead of the rule's."""
    avoid: tuple[str, ...] = ()
    """Clusters that the jobs may not use."""
    left: str = ""
    """The lost cluster that still has the jobs; "" for none."""
    ends: bool = False
    """The jobs were cancelled, and only the lost cluster has to drop them."""
    last: str = ""
    """The cluster of last resort; "" for none."""


@dataclass(slots=True)
class PendingQueue:
    """jobs: (submitted, id), the oldest first. judged: version at which the first job could not be routed."""

    key: QueueKey
    jobs: list[tuple[int, str]] = field(default_factory=list)
    judged: int = -1


class PendingQueues:
    """All pending queues. version: grows with every change that may help a waiting job."""

    def __init__(self) -> None:
        self.queues: dict[QueueKey, PendingQueue] = {}
        self.version = 0
        self._keys: dict[str, tuple[QueueKey, int]] = {}

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: QueueKey, *, submitted_at: int, job_id: str) -> None:
        """Add the job to its queue, and remove it from any other."""
        self.remove(job_id)
        queue = self.queues.setdefault(key, PendingQueue(key))
        place = submitted_at, job_id
        if not queue.jobs or place < queue.jobs[0]:
            queue.judged = -1
        insort(queue.jobs, place)
        self._keys[job_id] = key, submitted_at

    def remove(self, job_id: str) -> None:
        """Remove the job from its queue, if it is in one."""
        found = self._keys.pop(job_id, None)
        if found is None:
            return
        key, submitted_at = found
        queue = self.queues[key]
        at = bisect_left(queue.jobs, (submitted_at, job_id))
        del queue.jobs[at]
        if not queue.jobs:
            del self.queues[key]

    def mark_dirty(self) -> None:
        """Record a relevant change: queues that were tried are worth trying again."""
        self.version += 1

    def open(self) -> Iterator[PendingQueue]:
        """Return the pending queues that are worth trying."""
        return (queue for queue in self.queues.values() if queue.judged != self.version)

    def of(self, job_id: str) -> PendingQueue | None:
        """Return the queue of the job; None if it is not in one."""
        found = self._keys.get(job_id)
        return self.queues[found[0]] if found is not None else None

    def jobs(self) -> Iterator[str]:
        """Return all waiting jobs."""
        return iter(self._keys)
