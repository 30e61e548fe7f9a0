"""The fold of workloads: what the log says of them, by the uid of their object.

Objects that the gateway refused are asked for again: after a while, or when they or their queue changed. A refusal
speaks of a moment - the queue was not there, it was closed, no node was large enough - and objects stay. Each time is a
fact in two logs, so the waits double up to AGAIN_S_MAX, and grow with the number of those that wait: all of them
together ask at most PER_S times a second, but for a burst when their queue appears.
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
"""Until a refused object is asked for again: the first time, and at most, as long as few wait."""
PER_S = 2.0
SOON_S = 2.0
"""From a refusal, or a change of the queue, to the next request: whoever judges it learns of it meanwhile."""
REMEMBERED_MAX = 10_000
"""Objects that are over or can be no job of which that is remembered while they stay; the objects show it too."""
_Value = TypeVar("_Value")


class Refusals:
    """The moments at which refused ones are due. records: of all workloads, by uid. views: uids of objects as seen.

    Of an object that is not seen no moment is kept: who only folds would never take it out.
    """

    def __init__(self, records: dict[str, Workload], views: Container[str]) -> None:
        self._records = records
        self._views = views
        self._due: list[tuple[Instant, str]] = []
        self._by_queue: dict[str, dict[str, None]] = {}
        self._count = 0

    def add(self, record: Workload, at: Instant) -> None:
        """It was refused at this moment, once more."""
        record.tries += 1
        record.refused_at = at
        wait_s = min(AGAIN_S_MAX, AGAIN_S * 2.0 ** min(record.tries - 1, 16)) + self._count / PER_S
        record.again_at = after(at, wait_s)
        self.restore(record)

    def restore(self, record: Workload) -> None:
        """It waits, as a state fact says."""
        uids = self._by_queue.setdefault(record.asked.spec.queue_name, {})
        self._count += record.uid not in uids
        uids[record.uid] = None
        if record.uid in self._views:
            self.look_at(record)

    def look_at(self, record: Workload) -> None:
        """Its object is there: its moments count."""
        for moment in (Instant(record.again_at), after(Instant(record.refused_at), SOON_S)):
            heapq.heappush(self._due, (moment, record.uid))

    def remove(self, record: Workload) -> None:
        """It waits no more."""
        queue = record.asked.spec.queue_name
        uids = self._by_queue.get(queue, {})
        if record.uid in uids:
            del uids[record.uid]
            self._count -= 1
        if not uids:
            self._by_queue.pop(queue, None)

    def queue_changed(self, queue: str, at: Instant) -> None:
        """What was refused there may not be now."""
        for uid in self._by_queue.get(queue, ()):
            record = self._records[uid]
            record.again_at = again_at = min(Instant(record.again_at), after(at, SOON_S))
            if uid in self._views:
                heapq.heappush(self._due, (again_at, uid))

    def forget_views(self) -> None:
        """Nothing is seen any more: `look_at` comes for each that is seen again."""
        self._due.clear()

    def come_due(self, now: Instant) -> Iterator[str]:
        """Uids to look at, since a moment of theirs has come."""
        while self._due and self._due[0][0] <= now:
            yield heapq.heappop(self._due)[1]

    def next_change(self, waits: Callable[[str], bool]) -> Instant | None:
        """The next such moment of one that still waits. waits: whether there is anything to do about this uid."""
        while self._due and not waits(self._due[0][1]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None


class WorkloadLog:
    """What the log says of workloads that are not settled, and of objects that are over or can be no job.

    records: by uid of their object. rejected: generation and reason by uid. views: uids of objects as seen.
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
        """Fold one fact, of whatever kind.

        Return the uid of the object of which it says something new, "" if of none; None for a fact that fits no state.
        """
        if fact.kind == "job" and fact.subject_id in self._by_job and fact.name != "refusal-forwarded":
            return self._moved(fact)
        return self._FOLDS.apply(self, fact) if fact in self._FOLDS else ""

    def members_of(self, uid: str) -> tuple[str, ...]:
        """Uids of the pods, in the order of its slots, of the gang that this pod is in as the log has it; else none."""
        lead = self._leads.get(uid)
        return self.records[lead].asked.origin.members if lead is not None else ()

    def of_job(self, job_id: str) -> Workload | None:
        """The workload whose job that is."""
        uid = self._by_job.get(job_id)
        return None if uid is None else self.records.get(uid)

    def snapshot(self) -> Iterator[Draft]:
        """Workloads that are not settled."""
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
        """By the object, not by the job: where agent and gateway differ in its team, they differ in the job's id."""
        record = self.records.get(refused.workload)
        if record is None:
            return None
        if record.standing.accepted:
            return None  # a refusal that was overtaken by the job itself
        if record.is_refused or refused.wish not in ("", record.asked_fact):
            return ""  # the answer to a request before the last one, told twice
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
