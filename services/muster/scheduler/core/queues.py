"""Queues: their tree, what their jobs hold, how much more they may hold, and whether a change makes sense."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.schemas.facts.queue import QueueSpec, QueueWish


class Refusal(NamedTuple):
    """Why a queue may not be so: which field, and a sentence."""

    field: str
    reason: str


class Ceiling(NamedTuple):
    """The limit that a job would break: of which queue, and its numbers in milli-GPUs."""

    queue: str
    held_milli: int
    limit_milli: int


@dataclass(slots=True)
class QueueRecord:
    """One queue. own_milli: held by its own jobs; held_milli: and by those of the queues below it.

    pending_milli: proposed in the decision that is being made, again with the queues below.
    """

    spec: QueueSpec
    changed_at: int = 0
    own_milli: int = 0
    held_milli: int = 0
    pending_milli: int = 0
    ancestors: tuple["QueueRecord", ...] = field(default=(), repr=False, compare=False)


class QueueTree:
    """All queues, and the changes that wait for an answer."""

    def __init__(self) -> None:
        self.queues: dict[str, QueueRecord] = {}
        self.wishes: dict[str, QueueWish] = {}
        self._proposed: dict[str, QueueRecord] = {}

    def set(self, spec: QueueSpec, *, changed_at: int) -> None:
        """The queue is so from now on."""
        record = self.queues.get(spec.name)
        if record is None:
            self.queues[spec.name] = QueueRecord(spec, changed_at)
        else:
            record.spec, record.changed_at = spec, changed_at
        self._settle_ancestors()

    def hold(self, queue: str, milli: int) -> None:
        """Its jobs hold so much more (negative: less)."""
        record = self.queues.get(queue)
        if record is None or not milli:
            return
        record.own_milli += milli
        record.held_milli += milli
        for above in record.ancestors:
            above.held_milli += milli

    def propose(self, queue: str, milli: int) -> None:
        """Count a placement that is only proposed."""
        record = self.queues[queue]
        for one in (record, *record.ancestors):
            one.pending_milli += milli
            self._proposed[one.spec.name] = one

    def withdraw_proposals(self) -> None:
        """Forget everything that was proposed."""
        for record in self._proposed.values():
            record.pending_milli = 0
        self._proposed.clear()

    def path(self, queue: str) -> tuple[str, ...]:
        """The queue and those above it; only its name if it is not there."""
        record = self.queues.get(queue)
        return (queue,) if record is None else (queue, *(above.spec.name for above in record.ancestors))

    def left_milli(self, queue: str) -> int | None:
        """How much more this queue itself may hold; None for any amount, or if it is not there."""
        record = self.queues.get(queue)
        limit = record.spec.gpu_milli_limit if record is not None else None
        if record is None or limit is None:
            return None
        return limit - record.held_milli - record.pending_milli

    def ceiling(self, queue: str, milli: int) -> Ceiling | None:
        """The first limit, from the queue upwards, that so much more would break; None if there is none."""
        record = self.queues[queue]
        for one in (record, *record.ancestors):
            limit = one.spec.gpu_milli_limit
            if limit is not None and milli and one.held_milli + one.pending_milli + milli > limit:
                return Ceiling(one.spec.name, one.held_milli + one.pending_milli, limit)
        return None

    def never(self, queue: str, milli: int) -> Ceiling | None:
        """The limit that a job of this size breaks even if nothing else is held."""
        record = self.queues[queue]
        for one in (record, *record.ancestors):
            limit = one.spec.gpu_milli_limit
            if limit is not None and milli > limit:
                return Ceiling(one.spec.name, 0, limit)
        return None

    def check(self, spec: QueueSpec, accepted: Mapping[str, QueueSpec] | None = None) -> Refusal | None:
        """Why the queue may not be so; None if it may. accepted: changes to be thought of as made."""
        specs = {name: record.spec for name, record in self.queues.items()} | dict(accepted or {})
        for name, value in (("gpu_milli_quota", spec.gpu_milli_quota), ("gpu_milli_limit", spec.gpu_milli_limit)):
            if value is not None and value < 0:
                return Refusal(name, f"{name} is {value}: it must not be negative; leave it out for no bound")
        quota, limit = spec.gpu_milli_quota, spec.gpu_milli_limit
        if quota is not None and limit is not None and limit < quota:
            return Refusal(
                "gpu_milli_limit", f"the limit {limit} is below the quota {quota}: raise it or lower the quota"
            )
        if spec.parent is not None and spec.parent != spec.name and spec.parent not in specs:
            return Refusal("parent", f"there is no queue {spec.parent}: make it first")
        above, path = spec.parent, [spec.name]
        while above is not None:
            path.append(above)
            if above == spec.name:
                return Refusal("parent", f"the queue would stand above itself: {' -> '.join(path)}")
            above = specs[above].parent
        return None

    def _settle_ancestors(self) -> None:
        for record in self.queues.values():
            record.ancestors = tuple(self._above(record))
            record.held_milli = record.own_milli
        for record in self.queues.values():
            for above in record.ancestors:
                above.held_milli += record.own_milli

    def _above(self, record: QueueRecord) -> Iterator[QueueRecord]:
        name, seen = record.spec.parent, {record.spec.name}
        while name is not None and name not in seen and name in self.queues:
            seen.add(name)  # a log with a lost or reordered change may hold a cycle; it must still fold
            above = self.queues[name]
            yield above
            name = above.spec.parent
