"""Fold workloads: the log's state of them, by the uid of their object.

Objects that the gateway refused are submitted again: after a while, or when they or their queue changed. A refusal is
temporary - the queue did not exist or was closed, no node was large enough - and objects stay. Each attempt is a fact
in two logs, so the waits double up to AGAIN_S_MAX, and grow with the number of waiting objects: together they submit at
most PER_S times a second, except for a burst when their queue appears.
"""

import heapq
from collections.abc import Callable, Container, Iterator
from typing import TypeVar

from muster.agent.core.workload_values import Unfit
from muster.agent.core.workloads.records import Workload, moved
from muster.core import Draft, Fact, Instant, after
from muster.core.folding import Folds
from muster.schemas.facts import workload as facts
from muster.schemas.facts.job import JobRouted
from muster.schemas.facts.queue import QueueChanged
from muster.schemas.registry import STATE_NAME

AGAIN_S, AGAIN_S_MAX = 15.0, 600.0
"""Wait before a refused object is submitted again: the first, and the longest while few wait."""
PER_S = 2.0
SOON_S = 2.0
"""From a refusal, or a change of the queue, to the next request, so that the gateway knows of it."""
REMEMBERED_MAX = 10_000
"""Ended and rejected objects that are remembered while they exist; the objects show it too."""
_Value = TypeVar("_Value")


class Refusals:
    """The times at which refused objects are due.

    Only objects that were seen have a time: a follower would never remove it.
    """

    def __init__(self, records: dict[str, Workload], views: Container[str]) -> None:
        self._records = records
        self._views = views
        self._due: list[tuple[Instant, str]] = []
        self._by_queue: dict[str, dict[str, None]] = {}
        self._count = 0

    def add(self, record: Workload, at: Instant) -> None:
        """Record another refusal."""
        record.tries += 1
        record.refused_at = at
        wait_s = min(AGAIN_S_MAX, AGAIN_S * 2.0 ** min(record.tries - 1, 16)) + self._count / PER_S
        record.again_at = after(at, wait_s)
        self.restore(record)

    def restore(self, record: Workload) -> None:
        """Restore a refusal from a state fact."""
        uids = self._by_queue.setdefault(record.asked.spec.queue_name, {})
        self._count += record.uid not in uids
        uids[record.uid] = None
        if record.uid in self._views:
            self.look_at(record)

    def look_at(self, record: Workload) -> None:
        """Schedule an object that was seen."""
        for moment in (Instant(record.again_at), after(Instant(record.refused_at), SOON_S)):
            heapq.heappush(self._due, (moment, record.uid))

    def remove(self, record: Workload) -> None:
        """Forget an object that no longer waits."""
        queue = record.asked.spec.queue_name
        uids = self._by_queue.get(queue, {})
        if record.uid in uids:
            del uids[record.uid]
            self._count -= 1
        if not uids:
            self._by_queue.pop(queue, None)

    def queue_changed(self, queue: str, at: Instant) -> None:
        """Schedule objects of a queue that changed."""
        for uid in self._by_queue.get(queue, ()):
            record = self._records[uid]
            record.again_at = again_at = min(Instant(record.again_at), after(at, SOON_S))
            if uid in self._views:
                heapq.heappush(self._due, (again_at, uid))

    def forget_views(self) -> None:
        """Forget all times; `look_at` follows for each object that is seen again."""
        self._due.clear()

    def come_due(self, now: Instant) -> Iterator[str]:
        """Return the uids that are due."""
        while self._due and self._due[0][0] <= now:
            yield heapq.heappop(self._due)[1]

    def next_change(self, waits: Callable[[str], bool]) -> Instant | None:
        """Return the next time of an object that still waits, by `waits`."""
        while self._due and not waits(self._due[0][1]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None


class WorkloadLog:
    """The log's state of open workloads, and of ended and rejected objects.

    `records` by uid; `rejected` has generation and reason by uid; `views` are the uids of seen objects.
    """

    _FOLDS = Folds["WorkloadLog", str | None]()

    def __init__(self, views: Container[str]) -> None:
        self.records: dict[str, Workload] = {}
        self.rejected: dict[str, tuple[int, Unfit]] = {}
        self.settled: dict[str, None] = {}
        self.refusals = Refusals(self.records, views)
        self._by_job: dict[str, str] = {}
        self._leads: dict[str, str] = {}  # uid of the workload by uid of each of its pods

    def apply(self, fact: Fact) -> str | None:
        """Fold one fact.

        Return the uid of the object with news, "" for none; None for a fact that fits no state.
        """
        if fact.kind == "job" and fact.subject_id in self._by_job and fact.name != "refusal-forwarded":
            return self._moved(fact)
        return self._FOLDS.apply(self, fact) if fact in self._FOLDS else ""

    def members_of(self, uid: str) -> tuple[str, ...]:
        """Return the uids of the gang that this pod belongs to in the log, in slot order; () for none."""
        lead = self._leads.get(uid)
        return self.records[lead].asked.origin.members if lead is not None else ()

    def of_job(self, job_id: str) -> Workload | None:
        """Return the workload of a job."""
        uid = self._by_job.get(job_id)
        return None if uid is None else self.records.get(uid)

    def snapshot(self) -> Iterator[Draft]:
        """Return the open workloads."""
        for uid, record in self.records.items():
            yield Draft("workload", uid, STATE_NAME, record.as_body(facts.WorkloadState), trace=record.asked.trace)

    @_FOLDS.on("workload", "submit-requested", facts.WorkloadSubmitRequested)
    def _asked(self, fact: Fact, asked: facts.WorkloadSubmitRequested) -> str | None:
        record = self.records.get(fact.subject_id)
        if record is None:
            return self._enter(Workload(asked, fact.time, fact.id))
        if not record.is_refused:
            return None
        self.refusals.remove(record)
        self._by_job.pop(record.job_id, None)  # its namespace may act for another team since
        self._by_job[asked.job_id] = record.uid
        record.asked, record.asked_at, record.asked_fact = asked, fact.time, fact.id
        record.asked_again = True
        return record.uid

    @_FOLDS.on("queue", "changed", QueueChanged)
    def _queue_changed(self, fact: Fact, _: QueueChanged) -> str | None:
        self.refusals.queue_changed(fact.subject_id, fact.time)
        return ""

    def _enter(self, record: Workload) -> str:
        self.records[record.uid] = record
        self._by_job[record.job_id] = record.uid
        self._leads.update(dict.fromkeys(record.asked.origin.members, record.uid))
        self.rejected.pop(record.uid, None)
        return record.uid

    @_FOLDS.on("workload", "cancel-requested", facts.WorkloadCancelRequested)
    def _cancelled(self, fact: Fact, _: facts.WorkloadCancelRequested) -> str | None:
        record = self.records.get(fact.subject_id)
        if record is None:
            return None
        record.cancelled = True
        return ""

    @_FOLDS.on("workload", "rejected", facts.WorkloadRejected)
    def _rejected(self, fact: Fact, rejected: facts.WorkloadRejected) -> str | None:
        self.rejected[fact.subject_id] = rejected.generation, Unfit(rejected.reason, rejected.field, rejected.cure)
        _bound(self.rejected)
        return fact.subject_id

    @_FOLDS.on("workload", "settled", facts.WorkloadSettled)
    def _is_settled(self, fact: Fact, _: facts.WorkloadSettled) -> str | None:
        record = self.records.pop(fact.subject_id, None)
        if record is None:
            return None
        self._by_job.pop(record.job_id, None)
        self.refusals.remove(record)
        for member in record.asked.origin.members:
            self._leads.pop(member, None)
        self.settled[fact.subject_id] = None
        _bound(self.settled)
        return fact.subject_id

    @_FOLDS.on("job", "refusal-forwarded", facts.JobRefused)
    def _refused(self, fact: Fact, refused: facts.JobRefused) -> str | None:
        """Find the workload by object: agent and gateway may differ in its team, and then in the job's id."""
        record = self.records.get(refused.workload)
        if record is None:
            return None
        if record.standing.accepted:
            return None  # a refusal that was overtaken by the job itself
        if record.is_refused or refused.wish not in ("", record.asked_fact):
            return ""  # the repeated answer to a request before the last one
        record.refused, record.asked_again = refused, False
        self.refusals.add(record, fact.time)
        return record.uid

    def _moved(self, fact: Fact) -> str | None:
        record = self.records[self._by_job[fact.subject_id]]
        if isinstance(fact.payload, JobRouted):
            record.refused, record.asked_again = None, False
            self.refusals.remove(record)
        standing = moved(record.standing, fact)
        if standing is None:
            return ""
        record.standing = standing
        return record.uid

    @_FOLDS.on("workload", STATE_NAME, facts.WorkloadState)
    def _state(self, _fact: Fact, stored: facts.WorkloadState) -> str | None:
        record = Workload.restored(stored)
        uid = self._enter(record)
        if record.is_refused:
            self.refusals.restore(record)
        return uid


def _bound(remembered: dict[str, _Value]) -> None:
    while len(remembered) > REMEMBERED_MAX:
        del remembered[next(iter(remembered))]
