"""Preemption: which running jobs are asked to stop or shrink so that a pending job can run.

A blocked pending queue is tried when something changed since its last trial: a job, a queue, a node, the end of a time
slice, or its first job began to starve. Most are ruled out by comparing a few numbers. For the others the gang is
placed in simulation, on the capacity that would be idle if the jobs that the rules allow had left. Only then are facts
emitted, all at once: notices to the targets, and the reservation of their places.

Shares and quota are judged as planned: stopping jobs hold nothing, and jobs for which others are preempted hold what
they wait for. So successive decisions never preempt twice for one job.
"""

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from muster.core import Draft, Instant, after
from muster.placement.relief import Victim, Way, make_way
from muster.quota.formulas import NON_PREEMPTIBLE
from muster.quota.shares import own_share
from muster.scheduler.core.admit.access import passable
from muster.scheduler.core.admit.alternatives import alternatives
from muster.scheduler.core.preempt.candidates import Candidates, Prospects
from muster.scheduler.core.preempt.notices import notices
from muster.scheduler.core.preempt.rules import Part, Rule, Rules, Wanting, starving_at
from muster.scheduler.core.requeue import Pace, Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.capacity import amounts_of
from muster.scheduler.core.stores.exclusions import closed, is_apart
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.core.stores.pending_queue import PendingQueue
from muster.schemas.facts.queue import FairShareRule, OverSlice
from muster.schemas.job import Phase

QUEUES_MAX = 64
"""Pending queues that one decision checks, about 50 microseconds each."""

LOOKS_BURST, LOOKS_PER_S = 4_096, 1_024
"""Pending queues that are checked, at once and per second in the long run."""

TRIAL_MS_MAX = 20.0
"""Estimated time of the simulated placements of one decision, in milliseconds; one is always tried."""

TRIAL_MS_BURST, TRIAL_MS_PER_S = 1_000, 80
"""Time for simulated placements, at once and per second in the long run, whatever the size of the fleet."""

TRIAL_MS, TRIAL_MS_PER_NODE, TRIAL_MS_PER_PART = 1.0, 1 / 120, 1 / 200
"""Estimated time of one simulated placement: it reads a table of all nodes, and all candidates."""

TRIAL_MS_PER_ASK = 1 / 20
"""Additional time for each query of the rules, which is known afterwards."""

GO_ON_S = 0.01
"""Wait after a decision that left pending queues unchecked, before the next one continues."""

WAYS_MAX = 256
"""Jobs of one pending queue for which other jobs may be preempted at the same time."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """A request that a job may count as, and what the rules allow for it."""

    wanting: Wanting
    rules: Rules
    reach: Mapping[str, int]
    parts: dict[str, Part]
    """The parts that may be preempted; empty before `Candidates.find`."""

    def cost_ms(self, *, nodes: int) -> float:
        """Return the estimated time of the trial, in milliseconds."""
        searched = TRIAL_MS_PER_NODE * nodes + TRIAL_MS_PER_PART * len(self.parts)
        return TRIAL_MS + searched + TRIAL_MS_PER_ASK * self.rules.asks


@dataclass(frozen=True, slots=True)
class _Found:
    """A preemption that lets the job run."""

    trial: _Trial
    way: Way
    victims: Sequence[Victim]

    @property
    def cost(self) -> tuple[tuple[int, ...], int, float, int]:
        """Return the sort key: the worst order of a victim, victims of the job's own queue, lost work, victims.

        Jobs of a queue that borrows go before jobs of the own queue, as in Kueue.
        """
        worst = max((victim.order for victim in self.victims), default=())
        queue = self.trial.wanting.record.queue
        own = sum(self.trial.parts[victim.key].record.queue == queue for victim in self.victims)
        return worst, own, sum(victim.cost for victim in self.victims), len(self.victims)


class Preemptions:
    """Finds preemption targets, for one gang per decision. Its own state derives from folded facts."""

    def __init__(self, state: State, requeue: Requeue, *, trial_ms_per_s: float = TRIAL_MS_PER_S) -> None:
        self._state = state
        self._requeue = requeue
        self._looks = Pace(burst=LOOKS_BURST, per_s=LOOKS_PER_S)
        self._tries = Pace(burst=TRIAL_MS_BURST, per_s=trial_ms_per_s)
        self._todo: dict[PendingQueue, None] = {}
        self._seen = -1
        self._emitted: list[Draft] = []
        self._emitted_at = -1
        self._looked_at = Instant(-1)
        self._wakeups = Wakeups()
        self._backoff = Backoff()

    def make(self, now: Instant, drafts: list[Draft]) -> str:
        """Add to `drafts` the preemption that lets one job in. Return the job's id; "" if no preemption is possible.

        The same again until a fact is folded.
        """
        state = self._state
        if not state.pending.queues:
            return ""
        is_same = self._emitted_at == state.progress.folded and (bool(self._emitted) or self._looked_at == now)
        drafted = {draft.subject_id for draft in drafts if draft.kind == "job"} if is_same else set()
        if is_same and drafted.isdisjoint(draft.subject_id for draft in self._emitted):
            self._await(now)
            drafts += self._emitted
            return self._emitted[-1].subject_id if self._emitted else ""
        self._emitted = []
        if state.runs.expire_slices(now, state.jobs):
            self._seen = -1
        self._todo.update(dict.fromkeys(self._wakeups.due(now)))
        self._gather(now, {draft.subject_id for draft in drafts if draft.kind == "job"})
        is_ready = bool(self._todo) and state.runs.has_expired() and self._tries.is_ready(now)
        emitted = self._look(now, drafts) if is_ready else []
        self._emitted, self._emitted_at, self._looked_at = emitted, state.progress.folded, now
        if emitted:
            self._seen = -1  # if the drafts are never stored, the preemption has to be found again
        self._await(now)
        drafts += emitted
        return emitted[-1].subject_id if emitted else ""

    def would_ask(self, record: JobRecord, now: Instant) -> tuple[str, ...]:
        """Return the jobs that would be preempted for a job if it were submitted now. The state is unchanged."""
        state = self._state
        if record.queue not in state.queues.queues:
            return ()
        if not state.pending.queues:
            state.runs.expire_slices(now, state.jobs)  # no job waits for these slices to end
        with self._as_planned(set()):
            prospects, candidates = Prospects(state.queues, state.runs.expired_queues()), Candidates(state, now)
            found = list[_Found]()
            for trial in self._trials(record, prospects, starves=False):
                trial.parts.update(candidates.find(trial.wanting, trial.reach))
                way = self._try(trial, candidates) if trial.parts else None
                found += [] if way is None else [way]
            emitted = self._emit(found, candidates)
        return tuple(draft.subject_id for draft in emitted[:-1])

    # --- when pending queues are checked ---------------------------------------------------------------------

    def _gather(self, now: Instant, drafted: set[str]) -> None:
        """Collect all blocked pending queues again if anything changed, in order of their shares from the top down.

        A queue's own jobs rank beside the queues below it. A pending queue that was not checked yet comes after one
        whose queue has a lower share by now.
        """
        state = self._state
        if self._seen == state.progress.generation or not state.runs.has_expired() or not self._looks.is_ready(now):
            return
        tree, shares = state.queues, dict[str, tuple[float, ...]]()
        found = list[tuple[tuple[float, ...], PendingQueue]]()
        with self._as_planned(drafted):
            for pending in state.pending.queues.values():
                if pending.is_blocked and pending.queue in tree.queues:
                    share = shares.get(pending.queue)
                    if share is None:
                        above = map(tree.share, reversed(tree.path(pending.queue)))
                        own = own_share(tree.queues[pending.queue], tree.capacity)
                        share = shares[pending.queue] = (*above, own)
                    found.append((share, pending))
        found.sort(key=lambda entry: (entry[0], entry[1].jobs[0], entry[1].number))
        self._looks.spend(sum(pending not in self._todo for _, pending in found))
        self._todo = dict.fromkeys(pending for _, pending in found)
        self._seen = state.progress.generation

    def _await(self, now: Instant) -> None:
        """Request a decision when a slice ends, when a pending queue is due, or when the rate allows more trials."""
        state, requeue = self._state, self._requeue
        next_end = state.runs.next_end(state.jobs)
        if next_end is not None:
            requeue.wait_until(next_end)
        if not state.runs.has_expired():
            return
        wakeup = self._wakeups.next_at()
        if wakeup is not None:
            requeue.wait_until(wakeup)
        if self._todo and not self._emitted:
            requeue.wait_until(max(after(now, GO_ON_S), self._tries.next_at()))
        elif self._seen != state.progress.generation and not self._emitted:
            requeue.wait_until(self._looks.next_at())

    # --- which jobs preempt ----------------------------------------------------------------------------------

    def _look(self, now: Instant, drafts: list[Draft]) -> list[Draft]:
        """Check pending queues until a preemption is found, or the limit of one decision is reached.

        Jobs that already have drafts in this decision are left out.
        """
        state = self._state
        drafted = {draft.subject_id for draft in drafts if draft.kind == "job"}
        spent_ms = 0.0
        with self._as_planned(drafted):
            prospects = Prospects(state.queues, state.runs.expired_queues())
            candidates = Candidates(state, now, drafted)
            for pending in tuple(itertools.islice(self._todo, QUEUES_MAX)):
                record = self._preemptor(pending, now, drafted)
                trials = [] if record is None else self._trials(record, prospects, starves=self._starves(record, now))
                if record is None or not trials:
                    del self._todo[pending]
                    continue
                if spent_ms >= TRIAL_MS_MAX or not self._tries.is_ready(now):
                    break
                del self._todo[pending]
                found, tried_ms = list[_Found](), 0.0
                for trial in trials:
                    trial.parts.update(candidates.find(trial.wanting, trial.reach))
                    if trial.parts and self._is_enough(trial):
                        way = self._try(trial, candidates)
                        found += [] if way is None else [way]
                        tried_ms += trial.cost_ms(nodes=len(state.nodes))
                if not tried_ms:
                    continue
                spent_ms += tried_ms
                self._tries.spend(tried_ms)
                emitted = self._emit(found, candidates)
                if emitted:
                    self._backoff.over(pending)
                    return emitted
                self._backoff.failed(pending, record.id, now)
        return []

    def _preemptor(self, pending: PendingQueue, now: Instant, drafted: set[str]) -> JobRecord | None:
        """Return the first job of a pending queue that waits for capacity; None if preemption would not help it."""
        state = self._state
        if not pending.is_blocked or state.pending.queues.get((pending.queue, pending.job_class)) is not pending:
            return None
        tree, record = state.queues, self._first_without_way(pending, drafted)
        if record is None or record.phase is not Phase.QUEUED or pending.queue not in tree.queues:
            return None
        policy = tree.policy(pending.queue)
        starves_at, rests_until = starving_at(record, policy), self._backoff.until(pending, record.id)
        if policy.over_slice is OverSlice.STARVING and now < starves_at:
            self._wakeups.set(pending, starves_at)
        if now < rests_until:
            self._wakeups.set(pending, rests_until)
            return None
        return record

    def _starves(self, record: JobRecord, now: Instant) -> bool:
        return now >= starving_at(record, self._state.queues.policy(record.queue))

    def _trials(self, record: JobRecord, prospects: Prospects, *, starves: bool) -> list["_Trial"]:
        """Return the requests that the job may count as, for which the rules may preempt any job."""
        state, trials = self._state, list[_Trial]()
        preemptible = record.job_class.preemptible
        for one in alternatives(record, record.job_class.gang.least, state.queues, state.capacity):
            ceiling = state.queues.ceiling(record.queue, one.amounts, preemptible=preemptible)
            if ceiling is not None and ceiling.reason == NON_PREEMPTIBLE:
                continue
            wanting, parts = Wanting(record, one.amounts, one.gang, starves=starves), dict[str, Part]()
            rules = Rules(state.queues, wanting, parts, prospects.before(record.queue))
            reach = prospects.reach(wanting, rules)
            if reach:
                trials.append(_Trial(wanting, rules, reach, parts))
        return trials

    def _first_without_way(self, pending: PendingQueue, drafted: set[str]) -> JobRecord | None:
        for *_, job_id in pending.jobs[:WAYS_MAX]:
            record = self._state.jobs.records[job_id]
            if job_id not in drafted and (record.reserved is None or not record.reserved.victims):
                return record
        return None

    def _is_enough(self, trial: "_Trial") -> bool:
        """Return whether quota could admit the job if all these parts left. The estimate never rules out a job in
        error.

        A part that leaves below a limit frees at most its own amounts.
        """
        tree, wanting, record = self._state.queues, trial.wanting, trial.wanting.record
        ceiling = tree.ceiling(record.queue, wanting.amounts, preemptible=record.job.spec.preemptible)
        if ceiling is None:
            return True
        resource = ceiling.resource
        held = sum(
            part.amounts.get(resource, 0)
            for part in trial.parts.values()
            if not part.is_leaving and ceiling.queue in tree.path(part.record.queue)
        )
        return ceiling.available + held >= wanting.amounts[resource]

    @contextmanager
    def _as_planned(self, drafted: set[str]) -> Iterator[None]:
        """Count the tree as if all requested stops were done. `drafted` jobs are already counted as decided."""
        state = self._state
        changes = list(self._planned(drafted))
        for record, amounts, sign in changes:
            state.queues.hold(record.queue, amounts, sign=sign, preemptible=record.job.spec.preemptible)
        try:
            yield
        finally:
            for record, amounts, sign in reversed(changes):
                state.queues.hold(record.queue, amounts, sign=-sign, preemptible=record.job.spec.preemptible)

    def _planned(self, drafted: set[str]) -> Iterator[tuple[JobRecord, dict[str, int], int]]:
        """Yield by job the amounts that will be held no longer (-1) or in addition (1)."""
        state = self._state
        records, runs = state.jobs.records, state.runs
        for job_id in runs.leaving:
            yield records[job_id], dict(records[job_id].counted), -1
        for job_id in runs.resizing:
            record = records[job_id]
            if record.resize is not None and job_id not in runs.leaving:
                left = amounts_of(record.job_class, record.resize.slots, state.capacity.models)
                given = {name: amount - left.get(name, 0) for name, amount in record.counted.items()}
                yield record, given, -1
        for job_id in runs.reserved:
            record = records[job_id]
            is_awaited = record.reserved is not None and bool(record.reserved.victims) and job_id not in drafted
            if is_awaited and record.queue in state.queues.queues:
                yield record, dict(record.job_class.amounts_least), 1

    # --- simulated placement ---------------------------------------------------------------------------------

    def _try(self, trial: "_Trial", candidates: Candidates) -> "_Found | None":
        """Place the gang in simulation: first by the final share, then by the initial share too."""
        state, record = self._state, trial.wanting.record
        victims = candidates.victims(trial.parts, apart=record.job_class.avoided)
        fair_share = state.queues.policy(record.queue).fair_share
        has_both = {*FairShareRule} <= {*fair_share}
        for shares in ((FairShareRule.FINAL_SHARE,), fair_share) if has_both else (fair_share,):
            trial.rules.fair_share = shares
            opened = (record.id, *passable(state.bookings, record, candidates.now))
            with state.bookings.opened(opened), closed(state.fleet, record.job_class.avoided):
                way = make_way(state.fleet, trial.wanting.gang, victims, trial.rules)
            if way is not None and is_apart(way.holds, record.job_class.avoided):
                taken = [victim for victim in victims if victim.key in way.victims]
                return _Found(trial, way, taken)
        return None

    def _emit(self, found: Sequence["_Found"], candidates: Candidates) -> list[Draft]:
        """Return the drafts of the way that costs least; none if it needs no preemption."""
        if not found:
            return []
        best = min(found, key=lambda one: one.cost)
        rules = self._rules_of(best.way, best.trial.rules)
        return notices(
            best.trial.wanting, best.way, best.trial.parts, rules, candidates=candidates, ledger=self._state.ledger
        )

    @staticmethod
    def _rules_of(way: Way, rules: Rules) -> dict[str, Rule]:
        found = dict[str, Rule]()
        for key in way.victims:
            rule = rules.rule_of(key)
            if rule is not None:
                found[key] = rule
            rules.take(key)
        rules.undo()
        return found


FREE_FAILURES = 4
"""Failed trials of a pending queue before it has to wait; each further failure doubles the wait, from 1 s on."""

PAUSE_S_MAX = 256.0
"""Maximum wait of a pending queue after a failed trial."""

TRACES_MAX = 4_096
"""Pending queues whose failed trials are remembered; beyond it all are forgotten, which costs trials."""


class Backoff:
    """Pending queues that are not tried for a while, because trials of their first job failed repeatedly."""

    def __init__(self) -> None:
        self._failures: dict[PendingQueue, tuple[str, int, Instant]] = {}

    def until(self, pending: PendingQueue, job_id: str) -> Instant:
        """Return until when the pending queue is not tried, if this is still its first job."""
        known = self._failures.get(pending)
        return known[2] if known is not None and known[0] == job_id else Instant(0)

    def failed(self, pending: PendingQueue, job_id: str, now: Instant) -> None:
        """Count one more failed trial."""
        known = self._failures.get(pending)
        times = 1 if known is None or known[0] != job_id else known[1] + 1
        if len(self._failures) >= TRACES_MAX:
            self._failures.clear()
        pause_s = 0.0 if times < FREE_FAILURES else min(PAUSE_S_MAX, 2.0 ** (times - FREE_FAILURES))
        self._failures[pending] = (job_id, times, after(now, pause_s))

    def over(self, pending: PendingQueue) -> None:
        """Reset the failures after a successful trial."""
        self._failures.pop(pending, None)


class Wakeups:
    """Pending queues that are due at a time: one time each, the earliest that was set."""

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, int, PendingQueue]] = []
        self._set: dict[PendingQueue, Instant] = {}

    def set(self, pending: PendingQueue, moment: Instant) -> None:
        """Check the pending queue at this time."""
        known = self._set.get(pending)
        if known is None or moment < known:
            self._set[pending] = moment
            heapq.heappush(self._heap, (moment, pending.number, pending))

    def due(self, now: Instant) -> list[PendingQueue]:
        """Remove and return the pending queues that are due."""
        pending_queues = list[PendingQueue]()
        while self._heap and self._heap[0][0] <= now:
            moment, _, pending = heapq.heappop(self._heap)
            if self._set.get(pending) == moment:
                del self._set[pending]
                pending_queues.append(pending)
        return pending_queues

    def next_at(self) -> Instant | None:
        """Return when the next pending queue is due."""
        while self._heap and self._set.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
