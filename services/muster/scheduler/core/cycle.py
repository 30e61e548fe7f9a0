"""One decision: who is placed, released, stopped, ended and told, given what is believed now.

Every part is bounded by a count, because a core has no clock; what is left over is done by the next decision, and
`more` says so. The order of the drafts is the order in the log: `queued` of a job stands before its `placed`.
"""

import heapq
import itertools
from dataclasses import dataclass

from muster.core import NS_PER_S, Draft, Instant
from muster.placement import Slot as Place
from muster.scheduler.core.fleet import DEVICE, NODE, DeviceRecord, NodeRecord
from muster.scheduler.core.follow import draft, failed, follow_up
from muster.scheduler.core.jobs import HOLDING, JobRecord
from muster.scheduler.core.order import Turn, turn
from muster.scheduler.core.reasons import Reason, of_ceiling
from muster.scheduler.core.state import State
from muster.scheduler.core.waiting import Cap, Lane
from muster.scheduler.core.words import unknown_queue, why_blocked
from muster.schemas.facts.control import CheckpointRequested, ClusterSummary
from muster.schemas.facts.job import JobPlaced, JobQueued, JobUnschedulable
from muster.schemas.facts.node import Released, Withheld
from muster.schemas.facts.queue import QueueChanged, QueueChangeRefused, QueueSpec
from muster.schemas.job import Phase, Slot

PLACEMENTS_MAX = 512
"""Gangs placed by one decision: about 50 ms of work."""

SLOTS_MAX = 8_192
"""Replicas placed by one decision; one gang more may begin below it."""

ATTEMPTS_MAX = 2_048
"""Gangs tried by one decision, placed or not."""

MOVES_MAX = 1_024
"""Drafts of each other sort by one decision."""

DEMAND_FIRST = 64
DEMAND_EVERY = 2_048
"""The fragmentation score learns after 64 jobs, then whenever their number doubled, at last every 2,048 jobs."""

WORDS_MAX = 16
"""Lanes whose reason is put into words by one decision: each looks at the whole fleet, about 50 microseconds."""

SUMMARY_INTERVAL_S = 10.0

_Heads = list[tuple[int, int, Lane, int]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What the settings say. unschedulable_interval_s: per job; checkpoint_every_facts: folded facts."""

    unschedulable_interval_s: float = 5.0
    checkpoint_every_facts: int = 100_000


class Cycle:
    """Makes decisions. Between two calls it remembers only when to ask again: `more` (at once), `due` (by time)."""

    def __init__(self, state: State, limits: Limits) -> None:
        self._state = state
        self._limits = limits
        self._learnt = 0
        self.more = False
        self.due: Instant | None = None

    def decide(self, now: Instant) -> list[Draft]:
        """All drafts, at most a bounded number of each sort."""
        self.more, self.due = False, None
        state = self._state
        state.books.settle()
        changes = self._queue_changes()
        drafts = [*changes, *self._grants(), *self._follow_ups(now), *self._summary(now)]
        if changes:
            self.more = True  # who may run is judged when the new limits stand in the log
        else:
            drafts += self._arrivals_refused()
            placed = self._placements(drafts)
            self._arrivals_queued(placed, drafts)
            self._explanations(now, placed, drafts)
            state.queues.withdraw_proposals()
        if state.facts >= self._limits.checkpoint_every_facts:
            reason = CheckpointRequested(reason=f"{state.facts} facts since the last one")
            drafts.append(Draft("log", state.cluster, "checkpoint-requested", reason, (state.checkpoint_cause,)))
        return drafts

    # --- queues, nodes, jobs that moved ------------------------------------------------------------------

    def _queue_changes(self) -> list[Draft]:
        accepted: dict[str, QueueSpec] = {}
        drafts = []
        for wish in tuple(self._state.queues.wishes.values())[:MOVES_MAX]:
            refusal = self._state.queues.check(wish.spec, accepted)
            if refusal is None:
                accepted[wish.spec.name] = wish.spec
                payload: QueueChanged | QueueChangeRefused = QueueChanged(spec=wish.spec)
            else:
                payload = QueueChangeRefused(field=refusal.field, reason=refusal.reason)
            name = "changed" if refusal is None else "change-refused"
            drafts.append(Draft("queue", wish.spec.name, name, payload, (wish.fact,), wish.trace))
        return drafts

    def _grants(self) -> list[Draft]:
        books, drafts = self._state.books, list[Draft]()
        for kind, name in tuple(books.pending):
            if len(drafts) >= MOVES_MAX:
                self.more = True
                break
            record = books.nodes.get(name) if kind == NODE else books.devices.get(name)
            answers = self._grant_answers(kind, name, record) if record is not None else []
            if answers:
                drafts += answers
            elif record is None or all(wish.answered for wish in record.wishes):
                del books.pending[kind, name]
        return drafts

    def _grant_answers(self, kind: str, name: str, record: NodeRecord | DeviceRecord) -> list[Draft]:
        books = self._state.books
        if books.wants_release(kind, name):
            return [Draft(kind, name, "released", Released(), (record.last_fact,) if record.last_fact else ())]
        open_wishes = [wish for wish in record.wishes if not wish.answered]
        if not open_wishes:
            return []
        holders = self._holders(kind, name)
        return [
            Draft(
                kind,
                name,
                "withheld",
                Withheld(request_id=wish.request_id, forced=bool(holders), holders=holders),
                (wish.fact,),
            )
            for wish in open_wishes
            if wish.force or not holders
        ]

    def _holders(self, kind: str, name: str) -> tuple[str, ...]:
        books, records = self._state.books, self._state.jobs.records
        place = books.place_of(name) if kind == DEVICE else (name, 0)
        node = books.nodes.get(place[0]) if place is not None else None
        if node is None:
            return ()
        return books.holders(kind, name, ((job_id, records[job_id].slots) for job_id in node.jobs))

    def _follow_ups(self, now: Instant) -> list[Draft]:
        state, drafts = self._state, list[Draft]()
        for job_id in tuple(state.dirty):
            if len(drafts) >= MOVES_MAX:
                self.more = True
                return drafts
            record = state.jobs.records.get(job_id)
            answer = follow_up(record, now) if record is not None else None
            if answer is not None:
                drafts.append(answer)
            else:
                del state.dirty[job_id]
        for record in state.overdue(now):
            if len(drafts) >= MOVES_MAX:
                self.more = True
                return drafts
            if record.id not in state.dirty:
                answer = follow_up(record, now)
                drafts += [answer] if answer is not None else []
        return drafts

    # --- jobs that wait ----------------------------------------------------------------------------------

    def _arrivals_refused(self) -> list[Draft]:
        state, drafts = self._state, list[Draft]()
        for job_id in state.arrivals:
            record = state.jobs.records[job_id]
            refusal = None if record.cancel_fact else state.refusal(record)
            if refusal is not None:
                drafts.append(failed(record, *refusal))
                if len(drafts) >= MOVES_MAX:
                    self.more = True
                    break
        return drafts

    def _placements(self, drafts: list[Draft]) -> set[str]:
        """Queues take turns, one gang each, the least served first; within a queue the first in line that fits."""
        state = self._state
        self._learn()
        books, queues, line = state.books, state.queues, state.line
        line.refresh(version=books.fleet.version, withdrawn=books.withdrawn, left_milli=queues.left_milli)
        fresh = self._fresh()
        names = dict.fromkeys(fresh)
        for short in line.hopes.values():
            names.update(dict.fromkeys(short.lanes))
        turns: list[tuple[Turn, str]] = [(turn(queues.queues[queue]), queue) for queue in names]
        heapq.heapify(turns)
        heads: dict[str, _Heads] = {}
        placed: set[str] = set()
        attempts = slots = 0
        narrow_at = 1  # after the first placement, then whenever their number doubled
        while turns:
            if len(placed) >= PLACEMENTS_MAX or slots >= SLOTS_MAX or attempts >= ATTEMPTS_MAX:
                self.more = line.unfinished = True
                break
            queue = turns[0][1]
            if len(placed) >= narrow_at:
                narrow_at = 2 * len(placed)
                line.narrow()
                for heap in heads.values():
                    heap[:] = [head for head in heap if head[2].short is None or head[2].short.watch in line.hopes]
                    heapq.heapify(heap)
            if queue not in heads:
                heads[queue] = self._heads(queue, fresh.get(queue, []))
            record, tried = self._serve(heads[queue], drafts)
            attempts += tried
            if record is None:
                heapq.heappop(turns)
                continue
            placed.add(record.id)
            slots += record.kind.replicas
            heapq.heapreplace(turns, (turn(queues.queues[queue]), queue))
        return placed

    def _fresh(self) -> dict[str, list[Lane]]:
        """The lanes that were never judged, or judged by what is over, by queue."""
        fresh: dict[str, list[Lane]] = {}
        line, queues = self._state.line, self._state.queues.queues
        for lane in tuple(line.open):
            if lane.queue in queues:
                fresh.setdefault(lane.queue, []).append(lane)
            else:
                line.run_into(lane, Cap(lane.queue, 0, unknown_queue(lane.queue)))
        return fresh

    def _heads(self, queue: str, fresh: list[Lane]) -> _Heads:
        """A heap of the first jobs of a queue's lanes that are worth trying, by their place in line."""
        line = self._state.line
        lanes = [*fresh, *(short.lanes[queue] for short in line.hopes.values() if queue in short.lanes)]
        heads = [(lane.jobs[0][0], lane.number, lane, 0) for lane in lanes]
        heapq.heapify(heads)
        return heads

    def _serve(self, heads: _Heads, drafts: list[Draft]) -> tuple[JobRecord | None, int]:
        """Place the first of these jobs that can be. Returns it, and how many were tried."""
        state, tried = self._state, 0
        line = state.line
        while heads and tried < ATTEMPTS_MAX:
            _, number, lane, at = heads[0]
            if not line.may_fit(lane):
                if lane.short is None:
                    line.fall_short(lane, tried=False)
                heapq.heappop(heads)
                continue
            record = state.jobs.records[lane.jobs[at][1]]
            tried += 1
            if not self._place(record, lane, drafts):
                heapq.heappop(heads)
                continue
            if at + 1 < len(lane.jobs):
                heapq.heapreplace(heads, (lane.jobs[at + 1][0], number, lane, at + 1))
            else:
                heapq.heappop(heads)
            return record, tried
        return None, tried

    def _place(self, record: JobRecord, lane: Lane, drafts: list[Draft]) -> bool:
        """Propose a place for one gang, or block its lane. A gang of whole nodes may hold more than it asked."""
        books, queues, wanted = self._state.books, self._state.queues, lane.kind.gpu_milli
        if self._is_capped(lane, wanted):
            return False
        holds = books.propose(record.id, lane.kind.gang)
        if holds is None:
            self._state.line.fall_short(lane)
            return False
        held = sum(hold.slot.gpu_milli * len(hold.slot.devices) for hold in holds)
        if held > wanted and self._is_capped(lane, held):
            books.retract(record.id)
            return False
        queues.propose(lane.queue, held)
        if record.phase is Phase.SUBMITTED:
            drafts.append(_queued(record))
        causes: tuple[str, ...] = (record.last_fact,)
        if lane.held_up and books.freed_seq > record.routed_seq:
            causes = (record.last_fact, books.freed_fact)
        slots = tuple(_slot(hold.slot) for hold in holds)
        drafts.append(draft(record, "placed", JobPlaced(attempt=record.attempt, slots=slots), causes=causes))
        return True

    def _is_capped(self, lane: Lane, milli: int) -> bool:
        """Whether so much more would break a limit; then the lane waits for that limit."""
        ceiling = self._state.queues.ceiling(lane.queue, milli)
        if ceiling is None:
            return False
        # A gang of whole nodes may find a smaller node one day: it is tried whenever anything came free.
        queue = ceiling.queue if milli == lane.kind.gpu_milli else ""
        self._state.line.run_into(lane, Cap(queue, milli, of_ceiling(ceiling, wanted_milli=milli)))
        return True

    def _arrivals_queued(self, placed: set[str], drafts: list[Draft]) -> None:
        state, queued = self._state, 0
        for job_id in state.arrivals:
            if job_id in placed:
                continue
            record = state.jobs.records[job_id]
            if record.cancel_fact or state.refusal(record) is not None:
                continue
            if queued >= MOVES_MAX:
                self.more = True
                return
            drafts.append(_queued(record))
            queued += 1

    def _explanations(self, now: Instant, placed: set[str], drafts: list[Draft]) -> None:
        """`unschedulable`: the first of a lane hears of every change, those behind it once."""
        line, told, words = self._state.line, 0, 0
        line.wake(now)
        for lane in tuple(line.to_explain):
            if told >= MOVES_MAX or words >= WORDS_MAX:
                self.more = True
                break
            if not lane.is_blocked or lane.jobs[0][1] in placed:
                line.explained(lane)
                continue
            due = self._all_told_just_now(lane, now)
            if due is None:
                words += self._find_word(lane, now)
                said, due = self._tell(lane, now, drafts, most=MOVES_MAX - told)
                if said:
                    told += said
                    continue
                if due is None and lane.word_epoch != line.epoch and lane.short is not None:
                    due = lane.short.word_until
            if due is not None:
                line.put_off(lane, due)
            else:
                line.explained(lane)
        due = line.next_due()
        if due is not None:
            self.due = due if self.due is None else min(self.due, due)

    def _find_word(self, lane: Lane, now: Instant) -> bool:
        """Bring the lane's word up to date. A shortage is looked for at most once per kind and interval.

        Returns whether the fleet was looked at.
        """
        short, epoch = lane.short, self._state.line.epoch
        if short is None or self._state.queues.ceiling(lane.queue, lane.kind.gpu_milli) is not None:
            lane.word, lane.word_epoch = why_blocked(self._state, lane), epoch
            return False
        is_new = short.word is None or now >= short.word_until
        if is_new:
            short.word, short.word_epoch = why_blocked(self._state, lane), epoch
            short.word_until = self._after_interval(now)
        lane.word, lane.word_epoch = short.word, short.word_epoch
        return is_new

    def _tell(self, lane: Lane, now: Instant, drafts: list[Draft], *, most: int) -> tuple[int, Instant | None]:
        """Tell the lane's word to the first and to those who never heard one.

        Returns how many were told, and when the next may be who was told something else just now.
        """
        word, said, due = lane.word, 0, list[Instant]()
        if word is None or word.reason == Reason.TURN:
            return 0, None
        for job_id in itertools.islice({lane.jobs[0][1]: None} | lane.untold, most):
            record = self._state.jobs.records[job_id]
            if record.phase is not Phase.QUEUED or (record.reason, record.detail) == word:
                continue
            if now < self._told_until(record):
                due.append(self._told_until(record))
                continue
            payload = JobUnschedulable(reason=word.reason, detail=word.detail)
            drafts.append(draft(record, "unschedulable", payload, causes=(record.last_fact,)))
            said += 1
        return said, min(due, default=None)

    def _all_told_just_now(self, lane: Lane, now: Instant) -> Instant | None:
        """When more may be told, if nobody may be told anything yet, and what they were told may be out of date."""
        first = self._state.jobs.records[lane.jobs[0][1]]
        due = self._told_until(first)
        if lane.untold or now >= due:
            return None
        is_known = lane.word_epoch == self._state.line.epoch and (first.reason, first.detail) == lane.word
        return None if is_known else due

    def _told_until(self, record: JobRecord) -> Instant:
        """Before this moment the job may not be told anything more."""
        if not record.explained_at:
            return Instant(0)
        return self._after_interval(Instant(record.explained_at))

    def _after_interval(self, moment: Instant) -> Instant:
        return Instant(moment + round(self._limits.unschedulable_interval_s * NS_PER_S))

    # --- the cluster as a whole --------------------------------------------------------------------------

    def _learn(self) -> None:
        """Teach the fragmentation score what is typical, seldom enough to cost nothing."""
        demand = self._state.demand
        if demand.seen >= max(DEMAND_FIRST, min(2 * self._learnt, self._learnt + DEMAND_EVERY)):
            self._learnt = demand.seen
            self._state.books.fleet.set_demand(demand.tasks)

    def _summary(self, now: Instant) -> list[Draft]:
        state = self._state
        if not state.summary_stale:
            return []
        due = Instant(state.summarised_at + round(SUMMARY_INTERVAL_S * NS_PER_S))
        if state.summary is not None and now < due:
            self.due = due if self.due is None else min(self.due, due)
            return []
        summary = summarise(state)
        if summary == state.summary:
            state.summary_stale = False
            return []
        return [Draft("cluster", state.cluster, "summarised", summary)]


def summarise(state: State) -> ClusterSummary:
    """How full the cluster is."""
    totals = state.books.fleet.totals.values()
    return ClusterSummary(
        cluster=state.cluster,
        nodes=sum(record.description is not None for record in state.books.nodes.values()),
        gpu_milli_total=sum(total.total_milli for total in totals),
        gpu_milli_free=sum(total.free_milli for total in totals),
        jobs_queued=state.jobs.counts[Phase.SUBMITTED] + state.jobs.counts[Phase.QUEUED],
        jobs_running=sum(state.jobs.counts[phase] for phase in HOLDING),
    )


def _queued(record: JobRecord) -> Draft:
    payload = JobQueued(queue=record.queue, attempt=record.attempt)
    return draft(record, "queued", payload, causes=(record.last_fact,))


def _slot(place: Place) -> Slot:
    return Slot(
        group=place.group, replica=place.replica, node=place.node, devices=place.devices, gpu_milli=place.gpu_milli
    )
