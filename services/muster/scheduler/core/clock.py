"""When quota will admit a job: what its tree of queues holds comes free at known bounds."""

from bisect import insort
from collections.abc import Iterable

from muster.quota.amounts import Amounts
from muster.quota.formulas import NON_PREEMPTIBLE, Ceiling
from muster.scheduler.core.jobs import JobRecord
from muster.scheduler.core.state import State


class QuotaClock:
    """What running jobs and those planned before give back, in order of time, by tree of queues."""

    def __init__(self, state: State, ends: Iterable[tuple[int, JobRecord]], *, now: int) -> None:
        self._tree = state.queues
        self._now = now
        self._ends: dict[str, list[tuple[int, str, JobRecord, Amounts]]] = {}
        for at, record in ends:
            self._ends.setdefault(self._root(record.queue), []).append((at, record.id, record, record.counted))
        for of_tree in self._ends.values():
            of_tree.sort(key=lambda end: end[:2])

    def plan(self, record: JobRecord, *, ends_at: int) -> None:
        """What the job asks for is counted in the tree, and given back at that moment."""
        of_tree = self._ends.setdefault(self._root(record.queue), [])
        insort(of_tree, (ends_at, record.id, record, record.kind.amounts_least), key=lambda end: end[:2])

    def admits_at(self, record: JobRecord) -> tuple[int, Ceiling | None] | None:
        """When quota admits the job, and what stops it until then; None if it never does."""
        kind, tree = record.kind, self._tree
        first = ceiling = tree.ceiling(record.queue, kind.amounts_least, preemptible=kind.preemptible)
        at, gone = self._now, list[tuple[JobRecord, Amounts]]()
        ends = iter(self._ends.get(self._root(record.queue), ()))
        try:
            while ceiling is not None:
                lacking = kind.amounts_least.get(ceiling.resource, 0) - ceiling.available
                while lacking > 0:
                    end = next(ends, None)
                    if end is None:
                        return None
                    moment, _, other, amounts = end
                    tree.hold(other.queue, amounts, sign=-1, preemptible=other.kind.preemptible)
                    gone.append((other, amounts))
                    at = max(at, moment)
                    if self._relieves(other, ceiling):
                        lacking -= amounts.get(ceiling.resource, 0)
                ceiling = tree.ceiling(record.queue, kind.amounts_least, preemptible=kind.preemptible)
        finally:
            for other, amounts in reversed(gone):
                tree.hold(other.queue, amounts, preemptible=other.kind.preemptible)
        return at, first

    def _relieves(self, other: JobRecord, ceiling: Ceiling) -> bool:
        """Whether the bound sees what this job gives back."""
        if ceiling.reason == NON_PREEMPTIBLE and other.kind.preemptible:
            return False
        return ceiling.queue in self._tree.path(other.queue)

    def _root(self, queue: str) -> str:
        return self._tree.path(queue)[-1]
