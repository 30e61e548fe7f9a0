"""Drains: jobs on a node or device that is being drained are stopped as the request says, and queued again.

`finish` stops no job. `requeue` stops all jobs at once, from the time of the request on. `move` stops the jobs that
allow it (preemptible, with checkpoints) after a fresh checkpoint if one comes in time, so that little work is lost: a
job that reports one every `interval_s` gets that long, at most MOVE_WAIT_S (see `withholds`), starting early enough to
be finished when a planned drain starts. A job is not moved within its time slice, which protects it from requests of
others, except from hardware that health reports as failing.
"""

from collections.abc import Iterator
from typing import NamedTuple

from muster.cluster.grants import Grants
from muster.cluster.node_records import DeviceRecord, NodeRecord
from muster.cluster.withholds import MOVE_WAIT_NS, planned
from muster.core import NS_PER_S, Draft, Instant
from muster.scheduler.core.admit.access import may_be_moved
from muster.scheduler.core.lifecycle.follow_ups import HEALTH, draft
from muster.scheduler.core.requeue import DRAFTS_MAX, Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.drains import LaterRequests
from muster.scheduler.core.stores.holders import Holders
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.base import TEXT_CHARS_MAX
from muster.schemas.facts.job import JobStopRequested, StopReason
from muster.schemas.facts.node import Released, RunningJobs, Withheld
from muster.schemas.job import Phase

FRESH_S = 60.0
"""A checkpoint of at most this age is fresh."""

_NEVER = Instant(1 << 62)


class Leave(NamedTuple):
    """A request that jobs leave a node or device."""

    kind: str
    name: str
    running: RunningJobs
    asked_at: Instant
    at: Instant
    """When the drain starts."""
    by: str
    """The service or user that requested it."""
    reason: str
    fact: str
    """The id of the requesting fact."""


class Vacating:
    """Stops jobs on drained nodes and devices. Its own state only saves work."""

    def __init__(self, state: State, requeue: Requeue) -> None:
        self._state = state
        self._requeue = requeue
        self._seen = (-1, -1)
        self._folded = -1
        self._has_emitted = False
        self._next = _NEVER

    def make(self, now: Instant, drafts: list[Draft]) -> None:
        """Add `stop-requested` for jobs that have to leave now; the same again until a fact is folded."""
        state = self._state
        if not state.drains.vacated:
            return
        seen = (state.progress.generation, state.progress.checkpoints)
        if seen != self._seen or now >= self._next or (self._has_emitted and self._folded == state.progress.folded):
            self._seen, self._folded, self._next = seen, state.progress.folded, _NEVER
            before = len(drafts)
            self._look(now, drafts)
            self._has_emitted = len(drafts) > before
        if self._next < _NEVER:
            self._requeue.wait_until(self._next)

    def _look(self, now: Instant, drafts: list[Draft]) -> None:
        emitted = {one.subject_id for one in drafts if one.kind == "job"}
        for (kind, name), begins in self._state.drains.vacated.items():
            if now < begins:
                self._next = min(self._next, begins)
                continue
            for leave in self._leaves(kind, name):
                for record in self._holders(kind, name):
                    if record.id in emitted or not _is_bound(record):
                        continue
                    at = leaves_at(record, leave)
                    if at is None:
                        continue
                    if now < at:
                        self._next = min(self._next, at)
                    elif len(emitted) >= DRAFTS_MAX:
                        self._requeue.more, self._seen = True, (-1, -1)
                        return
                    else:
                        emitted.add(record.id)
                        drafts.append(_stop(record, leave, now))

    def _leaves(self, kind: str, name: str) -> Iterator[Leave]:
        """Yield the requests for the node or device that make jobs leave, the most urgent first."""
        record = self._state.grants.record_of(kind, name)
        if record is None:
            return
        for running in (RunningJobs.REQUEUE, RunningJobs.MOVE):
            for request in record.wishes:
                if request.running is running and not request.answered:
                    asked_at, at = Instant(request.asked_at), Instant(max(request.asked_at, request.from_at))
                    yield Leave(kind, name, running, asked_at, at, request.by, request.reason, request.fact)
        cordon = record.cordon if isinstance(record, NodeRecord) else None
        if cordon is not None and cordon.draining:
            since = Instant(cordon.since)
            yield Leave(kind, name, RunningJobs.MOVE, since, since, cordon.principal, cordon.reason, cordon.fact)

    def _holders(self, kind: str, name: str) -> Iterator[JobRecord]:
        return map(self._state.jobs.records.__getitem__, self._state.holders.of(kind, name))


def leaves_at(record: JobRecord, leave: Leave) -> Instant | None:
    """Return when a job that holds something there is stopped; None if never."""
    if leave.running is RunningJobs.REQUEUE:
        return leave.at
    if not may_be_moved(record.job.spec):
        return None
    if record.phase is Phase.PLACED:
        return leave.at  # it has done no work yet
    checkpointing = record.job.spec.checkpointing
    assert checkpointing is not None
    wait_ns = min(round(checkpointing.interval_s * NS_PER_S), MOVE_WAIT_NS)
    begins = max(leave.asked_at, Instant(leave.at - wait_ns))
    if leave.by != HEALTH:
        begins = max(begins, record.slice_end())
    fresh_ns = min(round(FRESH_S * NS_PER_S), wait_ns)
    is_fresh = record.checkpointed_at >= max(record.running_at, begins - fresh_ns)
    return max(begins, Instant(record.checkpointed_at)) if is_fresh else Instant(begins + wait_ns)


def _is_bound(record: JobRecord) -> bool:
    """Return whether the job runs, or is about to, and nothing else ends its run."""
    is_ending = record.exited is not None or bool(record.cancel_fact) or record.requeue is not None
    return record.phase in (Phase.PLACED, Phase.RUNNING) and not is_ending


def _stop(record: JobRecord, leave: Leave, now: Instant) -> Draft:
    is_moved = leave.running is RunningJobs.MOVE
    why = ": ".join(filter(None, (leave.by, leave.reason)))
    payload = JobStopRequested(
        attempt=record.attempt,
        reason=StopReason.PREEMPTED if is_moved else StopReason.NODE_LOST,
        grace_s=record.job.spec.grace_s if is_moved else 0.0,
        detail=f"{'moved off' if is_moved else 'taken off'} {leave.kind} {leave.name} ({why}); "
        f"at most {record.lost_by(now):.0f} s of work are lost"[:TEXT_CHARS_MAX],
    )
    return draft(record, "stop-requested", payload, causes=(leave.fact,))


def grant_answers(
    grants: Grants, later_requests: LaterRequests, holders: Holders, now: Instant, requeue: Requeue
) -> list[Draft]:
    """Return the answers to all nodes and devices whose grant waits for one; drop those that need none."""
    pending, drafts = grants.pending, list[Draft]()
    pending.update(dict.fromkeys(later_requests.pop_due(now)))
    for kind, name in tuple(pending):
        if len(drafts) >= DRAFTS_MAX:
            requeue.more = True
            break
        record = grants.record_of(kind, name)
        answers = _grant_answers(grants, holders, (kind, name), record, now) if record is not None else []
        if answers:
            drafts += answers
            continue
        if record is None or all(request.answered or request.from_at > now for request in record.wishes):
            del pending[kind, name]
        if record is not None and record.wishes:
            later_requests.add(kind, name, (request for request in planned(record.wishes) if request.from_at > now))
    due = later_requests.next_due
    if due is not None:
        requeue.wait_until(due)
    return drafts


def _grant_answers(
    grants: Grants, holders: Holders, key: tuple[str, str], record: NodeRecord | DeviceRecord, now: Instant
) -> list[Draft]:
    kind, name = key
    if grants.wants_release(kind, name):
        return [Draft(kind, name, "released", Released(), (record.last_fact,) if record.last_fact else ())]
    open_requests = [request for request in record.wishes if not request.answered and request.from_at <= now]
    if not open_requests:
        return []
    held_by = holders.of(kind, name)
    return [
        Draft(
            kind,
            name,
            "withheld",
            Withheld(request_id=request.request_id, forced=bool(held_by), holders=held_by),
            (request.fact,),
        )
        for request in open_requests
        if request.force or not held_by
    ]
