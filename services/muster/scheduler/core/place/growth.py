"""Growth of elastic jobs into idle places while no other job waits for them. Preemption shrinks them again.

A job that runs with fewer replicas than its maximum gets more if its quota admits them, the queue with the least share
first. It grows only while no gang waits for capacity of the fleet or for quota in its own tree, and not soon after its
last resize, because each resize costs the job time. All of this follows from the facts, so a restarted scheduler
decides the same. A gang that requires one topology domain does not grow: the engine places the new replicas alone and
would not keep them in the domain of the old ones.
"""

from collections.abc import Sequence
from dataclasses import replace

from muster.core import Draft, Instant, after
from muster.placement import GangRequest, GroupRequest, Hold
from muster.placement import Slot as Place
from muster.quota.amounts import gang_amounts
from muster.scheduler.core.lifecycle.follow_ups import draft
from muster.scheduler.core.requeue import Pace, Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.capacity import amounts_of
from muster.scheduler.core.stores.exclusions import closed
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.facts.job import JobResizeRequested
from muster.schemas.job import Phase

GROW_EVERY_S = 10.0
"""Minimum time between two resizes of a job."""

LOOKS_BURST, LOOKS_PER_GROWTH = 4_096, 4_096
"""Jobs that are tried, at once and per GROW_EVERY_S in the long run: some 100 microseconds each."""

QUEUES_PER_LOOK = 64
"""Visits of pending queues that cost as much as one trial."""

GROWN_MAX = 32
"""Jobs that one decision grows."""

NEVER = Instant(1 << 62)


class Growth:
    """Grows elastic jobs. Its own state only saves work."""

    def __init__(self, state: State, requeue: Requeue, *, every_s: float = GROW_EVERY_S) -> None:
        self._every_s = every_s
        self._state = state
        self._requeue = requeue
        self._pace = Pace(burst=LOOKS_BURST, per_s=max(1.0, LOOKS_PER_GROWTH / every_s))
        self._again = NEVER
        self._seen = -1
        self._folded = -1
        self._emitted: list[str] = []

    def make(self, now: Instant, drafts: list[Draft]) -> None:
        """Add `resize-requested` for jobs that grow; the same again until a fact is folded."""
        state = self._state
        if not state.runs.small:
            return
        is_same = state.progress.folded == self._folded or self._is_lost()
        is_news = state.progress.generation != self._seen or now >= self._again
        if not is_same and is_news and not self._pace.is_ready(now):
            self._requeue.wait_until(self._pace.next_at())
        elif is_same or is_news:
            self._look(now, drafts)
        if now < self._again < NEVER:
            self._requeue.wait_until(self._again)

    def _look(self, now: Instant, drafts: list[Draft]) -> None:
        state = self._state
        self._seen, self._folded, self._again = state.progress.generation, state.progress.folded, NEVER
        pending_queues, grown = state.pending.queues.values(), list[Draft]()
        if all(pending.quota_block is not None for pending in pending_queues):
            self._pace.spend(len(pending_queues) / QUEUES_PER_LOOK)
            waiting = {
                state.queues.path(pending.queue)[-1]
                for pending in pending_queues
                if pending.queue in state.queues.queues
            }
            grown = self._grown(now, waiting, {draft.subject_id for draft in drafts if draft.kind == "job"})
        self._emitted = [draft.subject_id for draft in grown]
        drafts += grown

    def _is_lost(self) -> bool:
        records = (self._state.jobs.records.get(job_id) for job_id in self._emitted)
        return any(record is not None and record.resize is None for record in records)

    def _grown(self, now: Instant, waiting: set[str], drafted: set[str]) -> list[Draft]:
        """Return the resizes. `waiting`: trees in which jobs wait for quota; `drafted`: jobs that have drafts."""
        state, drafts = self._state, list[Draft]()
        tree = state.queues
        records = [state.jobs.records[job_id] for job_id in state.runs.small if job_id not in drafted]
        records = [record for record in records if _may_grow(record) and record.queue in tree.queues]
        records = [record for record in records if tree.path(record.queue)[-1] not in waiting]
        records = [record for record in records if not self._rests(record, now)]
        shares = {record.queue: tree.share(record.queue) for record in records}
        for record in sorted(records, key=lambda record: (shares[record.queue], record.rank, record.id)):
            if len(drafts) >= GROWN_MAX:
                break  # the facts about these jobs trigger another decision, which continues
            self._pace.spend()
            added = self._added(record)
            if added:
                payload = JobResizeRequested(
                    attempt=record.attempt, slots=(*record.slots, *map(state.ledger.slot_of, added))
                )
                drafts.append(draft(record, "resize-requested", payload, causes=(record.last_fact,)))
        return drafts

    def _rests(self, record: JobRecord, now: Instant) -> bool:
        """Return whether the job was resized a short time ago; then it is tried again when that time is over."""
        until = after(Instant(record.resized_at), self._every_s) if record.resized_at else Instant(0)
        if now < until:
            self._again = min(self._again, until)
        return now < until

    def _added(self, record: JobRecord) -> list[Place]:
        """Return places for more replicas, proposed in the fleet and in the queue; none if there is no room."""
        holds = list[Hold]()
        for index, group in enumerate(record.job_class.gang.groups):
            has = {slot.replica for slot in record.slots if slot.group == index}
            missing = [replica for replica in range(group.replicas) if replica not in has]
            if missing:
                holds += self._more(record, index, missing, holds)
        places = [hold.slot for hold in holds]
        if not holds or not self._state.proposals.propose_at(record.id, holds):
            return []
        amounts = amounts_of(record.job_class, places, self._state.capacity.models)
        self._state.queues.propose(record.queue, amounts, preemptible=record.job_class.preemptible)
        return places

    def _more(self, record: JobRecord, index: int, missing: Sequence[int], sofar: Sequence[Hold]) -> list[Hold]:
        state, gang = self._state, record.job_class.gang
        group = replace(gang.groups[index], least=1, topology=None)
        if gang.same_model and group.shape.holds_devices:
            models = {state.capacity.model_of(slot.node) for slot in record.slots if slot.gpu_count}
            group = replace(group, shape=replace(group.shape, gpu_models=tuple(sorted(models))))
        count = self._admitted(record, group, len(missing), sofar)
        if not count:
            return []
        fleet = state.fleet
        for hold in sofar:
            fleet.hold(hold)
        try:
            with closed(fleet, record.job_class.avoided):
                found = fleet.find(GangRequest((replace(group, replicas=count),)))
        finally:
            for hold in reversed(sofar):
                fleet.withdraw(hold)
        placed = zip(missing, found or (), strict=False)
        return [replace(hold, slot=replace(hold.slot, group=index, replica=replica)) for replica, hold in placed]

    def _admitted(self, record: JobRecord, group: GroupRequest, most: int, sofar: Sequence[Hold]) -> int:
        """Return how many more replicas quota admits by their request; their GPU model is not known yet."""
        state = self._state
        held = amounts_of(record.job_class, [hold.slot for hold in sofar], state.capacity.models) if sofar else {}
        least, most = 0, most + 1
        while most - least > 1:
            middle = (least + most) // 2
            asked = gang_amounts(GangRequest((group,)), (middle,)) if middle else {}
            amounts = {name: asked.get(name, 0) + held.get(name, 0) for name in (*asked, *held)}
            is_free = state.queues.ceiling(record.queue, amounts, preemptible=record.job_class.preemptible) is None
            least, most = (middle, most) if is_free else (least, middle)
        return least


def _may_grow(record: JobRecord) -> bool:
    """Return whether the job only runs, and its new replicas may be placed independently of the old ones."""
    gang = record.job_class.gang
    requests = [gang.topology, *(group.topology for group in gang.groups)]
    is_bound = any(request is not None and request.required for request in requests)
    is_busy = record.resize is not None or record.exited is not None or bool(record.cancel_fact)
    return record.phase is Phase.RUNNING and not is_bound and not is_busy
