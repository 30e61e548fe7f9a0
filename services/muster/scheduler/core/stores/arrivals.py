"""Jobs that were routed here and are not yet queued, and what all jobs that came asked for."""

from collections import Counter
from dataclasses import dataclass, field

from muster.placement import TaskShape
from muster.quota.queues import QueueTree
from muster.scheduler.core.stores.jobs import JobRecord

DEMAND_SHAPES_MAX = 4_096
"""Task shapes counted for the fragmentation score; beyond it all counts start afresh."""

DEMAND_TASKS_MAX = 65_536
"""Tasks counted; beyond it all counts are halved, so that the newest count most."""


@dataclass(slots=True)
class Arrivals:
    """Jobs that are yet to be queued or refused, by id."""

    jobs: dict[str, None] = field(default_factory=dict)
    awaited: dict[str, dict[str, None]] = field(default_factory=dict)
    """Queues of users that are yet to be made, with the jobs that wait for each."""

    def await_queue(self, record: JobRecord, queues: QueueTree) -> None:
        """Have the queue of a job made, if it is the queue of a user and does not exist."""
        if record.queue not in queues.queues and record.queue != record.job.spec.queue_name:
            self.awaited.setdefault(record.queue, {})[record.id] = None


@dataclass(slots=True)
class Demand:
    """How often each task shape was asked for: what the fragmentation score takes as typical."""

    tasks: Counter[TaskShape] = field(default_factory=Counter)
    total: int = 0
    seen: int = 0

    def count(self, record: JobRecord) -> None:
        """Count the tasks of one more job."""
        if len(self.tasks) >= DEMAND_SHAPES_MAX:
            self.tasks.clear()
            self.total = 0
        for group in record.job_class.gang.groups:
            self.tasks[group.shape] += group.replicas
            self.total += group.replicas
        self.seen += 1
        if self.total > DEMAND_TASKS_MAX:
            self.tasks = Counter({shape: half for shape, n in self.tasks.items() if (half := n // 2)})
            self.total = self.tasks.total()
