"""Pending queues: jobs that want a cluster and did not get one at once, by team, rule and size.

If the first of a queue gets no cluster, none behind it does, so a queue that was judged is left alone until something
changed that may help. Which jobs stand here follows from the rest of the state.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class QueueKey(NamedTuple):
    """What the jobs of a queue have in common."""

    team: str
    rule: str
    """By name, "" without rules."""
    milli: int
    to: tuple[str, ...] = ()
    """Clusters that were requested in place of the rule's."""
    avoid: tuple[str, ...] = ()
    """Clusters that they may not go to."""
    left: str = ""
    """The lost cluster that still has them, "" if none has."""
    ends: bool = False
    """They were canceled, and only have to be taken from the lost cluster."""
    last: str = ""
    """The cluster where they go only if no other takes them, "" for none."""


@dataclass(slots=True)
class PendingQueue:
    """jobs: (submitted, id), the oldest first. judged: at which version nothing was found for the first of them."""

    key: QueueKey
    jobs: list[tuple[int, str]] = field(default_factory=list)
    judged: int = -1


class PendingQueues:
    """All pending queues. version: grows when something changed that may help those who wait."""

    def __init__(self) -> None:
        self.queues: dict[QueueKey, PendingQueue] = {}
        self.version = 0
        self._keys: dict[str, tuple[QueueKey, int]] = {}

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: QueueKey, *, submitted_at: int, job_id: str) -> None:
        """The job waits here; if it stood elsewhere, not there any more."""
        self.remove(job_id)
        queue = self.queues.setdefault(key, PendingQueue(key))
        place = submitted_at, job_id
        if not queue.jobs or place < queue.jobs[0]:
            queue.judged = -1
        insort(queue.jobs, place)
        self._keys[job_id] = key, submitted_at

    def remove(self, job_id: str) -> None:
        """The job waits no more; if it did not, nothing changes."""
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
        """Something changed: queues that were judged are worth trying again."""
        self.version += 1

    def open(self) -> Iterator[PendingQueue]:
        """PendingQueues worth trying."""
        return (queue for queue in self.queues.values() if queue.judged != self.version)

    def of(self, job_id: str) -> PendingQueue | None:
        """Where the job waits."""
        found = self._keys.get(job_id)
        return self.queues[found[0]] if found is not None else None

    def jobs(self) -> Iterator[str]:
        """All jobs that wait."""
        return iter(self._keys)
