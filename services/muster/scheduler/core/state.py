"""All that the scheduler believes. Folds change it (`fold*.py`), decisions only read it (`cycle.py`).

What a decision may touch are caches: which lanes were judged, what is proposed, which jobs need no answer any more.
They follow from the rest, and dropping them costs time, not truth.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from muster.cluster.grants import Grants
from muster.cluster.ledger import Ledger, LedgerListener
from muster.cluster.node_records import NodeTable
from muster.core import Fact, Instant
from muster.core.contact import Contact
from muster.placement import Fleet, GangRequest, TaskShape
from muster.quota.amounts import NO_AMOUNTS, changes
from muster.quota.queues import QueueTree
from muster.scheduler.core.bookings import Bookings
from muster.scheduler.core.holdings import Capacity, amounts_of
from muster.scheduler.core.jobs import HOLDING, WAITING, JobBook, JobRecord, avoided_at
from muster.scheduler.core.planned import LaterRequests, PlannedDrains
from muster.scheduler.core.proposals import Proposals
from muster.scheduler.core.reasons import Reason
from muster.scheduler.core.reservations import Reservations
from muster.scheduler.core.victims import Runs
from muster.scheduler.core.waiting import Line
from muster.schemas.facts.control import ClusterDescribed, ClusterSummary
from muster.schemas.facts.operations import NodeExcluded, PreflightPlan
from muster.schemas.job import JobSpec, Phase, Slot

REPLICAS_MAX = 4_096
"""Replicas of one gang: its `placed` must stay a message of bounded size."""

DEMAND_SHAPES_MAX = 4_096
"""Task shapes counted for the fragmentation score; beyond it all counts start afresh."""

DEMAND_TASKS_MAX = 65_536
"""Tasks counted; beyond it all counts are halved, so that the newest count most."""


NO_SHARING = "none"
"""How a cluster says that it gives no part of a GPU."""

OF_NO_SHARING = "this cluster shares no GPU between jobs (sharing: none): ask for whole ones with gpus"

_SAYS_NOTHING = frozenset({"", Reason.RELEASED})
"""Reasons of jobs that are yet to be told why they wait."""


PlanOf = Callable[[JobSpec], PreflightPlan | None]
"""Which checks a job gets before its first step; the same answer for the same job."""


@dataclass(slots=True)
class Demand:
    """How often each task shape was asked for: what the fragmentation score takes as typical."""

    tasks: Counter[TaskShape] = field(default_factory=Counter)
    total: int = 0
    seen: int = 0

    def count(self, record: JobRecord) -> None:
        """One more job of this sort."""
        if len(self.tasks) >= DEMAND_SHAPES_MAX:
            self.tasks.clear()
            self.total = 0
        for group in record.kind.gang.groups:
            self.tasks[group.shape] += group.replicas
            self.total += group.replicas
        self.seen += 1
        if self.total > DEMAND_TASKS_MAX:
            self.tasks = Counter({shape: half for shape, n in self.tasks.items() if (half := n // 2)})
            self.total = self.tasks.total()


@dataclass(slots=True)
class State:
    """arrivals: routed, not yet queued. awaited: queues of users that are yet to be made, with the arrivals that wait
    for each. capacity: what the nodes have. dirty: jobs that may need an answer. deadlines: (when, job, attempt), a
    heap with entries of runs that are over. exclusions: (until, job) of nodes that jobs are kept off, the same.
    verdicts: when a job needs an answer though nothing happens, the same. runs: who could make way. anomalies: facts
    that fitted nothing, by what. contact: with the federation. described: what the cluster can do, as its agent says.
    facts: folded since the last `checkpoint-requested`; folded: ever. moves: grows when a job, queue or node changed;
    checkpoints: when a job wrote one. plan_of: as the settings say. pages_read_at: newest reading of a job's GPUs.
    contact_lost_at: when jobs were last told to end for want of contact, 0 once none is ending so.
    """

    cluster: str
    jobs: JobBook = field(default_factory=JobBook)
    nodes: NodeTable = field(default_factory=NodeTable)
    fleet: Fleet = field(default_factory=Fleet)
    grants: Grants = field(init=False)
    ledger: Ledger = field(init=False)
    bookings: Bookings = field(init=False)
    proposals: Proposals = field(init=False)
    drains: PlannedDrains = field(init=False)
    later_requests: LaterRequests = field(default_factory=LaterRequests)
    queues: QueueTree = field(default_factory=QueueTree)
    capacity: Capacity = field(default_factory=Capacity)
    line: Line = field(init=False)
    reservations: Reservations = field(init=False)
    demand: Demand = field(default_factory=Demand)
    arrivals: dict[str, None] = field(default_factory=dict)
    awaited: dict[str, dict[str, None]] = field(default_factory=dict)
    dirty: dict[str, None] = field(default_factory=dict)
    deadlines: list[tuple[Instant, str, int]] = field(default_factory=list)
    exclusions: list[tuple[Instant, str]] = field(default_factory=list)
    verdicts: list[tuple[Instant, str]] = field(default_factory=list)
    runs: Runs = field(default_factory=Runs)
    anomalies: Counter[str] = field(default_factory=Counter)
    summary: ClusterSummary | None = None
    summarised_at: int = 0
    summary_stale: bool = False
    described: ClusterDescribed = field(default_factory=ClusterDescribed)
    contact: Contact = field(default_factory=Contact)
    facts: int = 0
    folded: int = 0
    moves: int = 0
    checkpoints: int = 0
    plan_of: PlanOf | None = None
    checkpoint_cause: str = ""
    pages_read_at: int = 0
    contact_lost_at: int = 0

    def __post_init__(self) -> None:
        bookings = self.bookings = Bookings(self.fleet)
        self.proposals = Proposals(self.nodes, self.fleet, bookings)
        self.drains = PlannedDrains(self.nodes, bookings)
        self.grants = Grants(self.nodes, self.fleet, on_change=self.drains.follow)
        listener = LedgerListener(bookings.give_way, bookings.touch, self.proposals.clear)
        self.ledger = Ledger(self.nodes, self.fleet, self.grants, listener)
        self.reservations = Reservations(bookings)
        self.line = Line(self.fleet.rooms, self.queues)

    def preflight_of(self, record: JobRecord) -> PreflightPlan | None:
        """What is checked before the first step of the run that begins now."""
        return self.plan_of(record.job.spec) if self.plan_of is not None else None

    def refusal(self, record: JobRecord) -> tuple[Reason, str] | None:
        """Why a job that just came can never run here; None if it may wait."""
        if record.kind.replicas > REPLICAS_MAX:
            return Reason.TOO_LARGE, f"{record.kind.replicas} replicas, at most {REPLICAS_MAX} are placed at once"
        if record.kind.has_shares and self.described.sharing == NO_SHARING:
            return Reason.NO_SHARING, OF_NO_SHARING
        queues = self.queues.queues
        queue, asked = queues.get(record.queue), queues.get(record.job.spec.queue_name)
        if queue is None and (asked is None or record.queue not in self.awaited):
            return Reason.UNKNOWN_QUEUE, f"there is no queue {record.queue}"
        for one in (queue, asked):
            if one is not None and one.spec.closed:
                return Reason.CLOSED_QUEUE, f"queue {one.name} takes no new jobs"
        return None

    def settle_arrival(self, record: JobRecord) -> None:
        """A job that was not queued yet goes where it would go if it came now: its queue may have changed."""
        spec = record.job.spec
        queue = self.queues.queue_for(spec.queue_name, record.job.principal)
        total_s, slice_s = self.queues.policy_for(queue, spec.queue_name).run_times(spec)
        self.settle_job(record, queue=queue, total_run_time_s=total_s, min_slice_s=slice_s)
        self.await_queue(record)
        self.enlist(record)

    def settle_job(self, record: JobRecord, *, queue: str, total_run_time_s: float, min_slice_s: float) -> None:
        """The job waits in this queue, with these run times."""
        known = record.queue, record.total_run_time_s, record.min_slice_s
        if known == (queue, total_run_time_s, min_slice_s):
            return
        avoided = record.kind.avoided
        self.line.remove(record)
        record.queue, record.total_run_time_s, record.min_slice_s = queue, total_run_time_s, min_slice_s
        kind = self.jobs.kind_of(
            record.job, total_run_time_s=total_run_time_s, min_slice_s=min_slice_s, avoided=avoided
        )
        if kind is not record.kind:
            self.jobs.change_kind(record, kind)

    def exclude(self, record: JobRecord, added: Sequence[NodeExcluded], *, most: int, at: int) -> None:
        """Keep a job off these nodes too; of all its nodes off the newest `most`."""
        names = {one.node for one in added}
        record.excluded = (*(one for one in record.excluded if one.node not in names), *added)[-most:]
        self.avoid(record, avoided_at(record, at))
        self.await_lift(record)

    def await_lift(self, record: JobRecord) -> None:
        """Remember when the job may be tried on its nodes again."""
        for one in record.excluded:
            if one.until:
                heapq.heappush(self.exclusions, (Instant(one.until), record.id))

    def lift_exclusions(self, now: Instant) -> Instant | None:
        """Let jobs be tried again where they were kept off for long enough. Returns when the next ones may be."""
        heap = self.exclusions
        while heap and heap[0][0] <= now:
            record = self.jobs.records.get(heapq.heappop(heap)[1])
            if record is not None and record.kind.avoided:
                self.avoid(record, avoided_at(record, now))
        return heap[0][0] if heap else None

    def avoid(self, record: JobRecord, avoided: frozenset[str]) -> None:
        """The job is kept off exactly these nodes; it waits in another lane if it waits."""
        if avoided == record.kind.avoided:
            return
        is_in_lane = self.line.lane_of(record) is not None
        self.line.remove(record)
        kind = self.jobs.kind_of(
            record.job, total_run_time_s=record.total_run_time_s, min_slice_s=record.min_slice_s, avoided=avoided
        )
        self.jobs.change_kind(record, kind)
        if is_in_lane:
            self.enlist(record)

    def await_queue(self, record: JobRecord) -> None:
        """Have the queue of a job that just came made, if it is one of a user and not there."""
        if record.queue not in self.queues.queues and record.queue != record.job.spec.queue_name:
            self.awaited.setdefault(record.queue, {})[record.id] = None

    def hold(self, job_id: str, slots: Sequence[Slot], gang: GangRequest) -> None:
        """The job holds these slots from now on; where only counts matter, perhaps at other places than they say."""
        holds = self.proposals.confirm(job_id, slots)
        if holds is not None:
            self.ledger.note(job_id, holds, gang)
        else:
            self.ledger.take(job_id, slots, gang)
        self._follow_moves()

    def recount(self, record: JobRecord, *, at: int = 0) -> None:
        """Let the queue count what the job holds from `at` on, whatever it counted before. 0: a checkpoint says so."""
        before, after = record.counted, NO_AMOUNTS
        if record.phase in HOLDING:
            after = amounts_of(record.kind, record.held_slots, self.capacity.models)
        if after is before:
            return
        record.counted = after
        for sign, amounts in ((1, after), (-1, before)) if not (after and before) else changes(after, before):
            if amounts:
                self.queues.hold(
                    record.queue,
                    amounts,
                    sign=sign,
                    preemptible=record.kind.preemptible,
                    at=at,
                    principal=record.job.principal,
                )

    def let_go(self, record: JobRecord, fact: Fact) -> None:
        """The run is over: nothing is held, and what was observed of it is answered."""
        self.ledger.free(record.id, record.held_slots, fact=fact.id, seq=fact.seq)
        record.resize = None
        self.recount(record, at=fact.time)
        if record.exited is not None:
            record.ran_s += record.exited.ran_s
            record.lost_s += record.lost_last_s if record.phase is Phase.QUEUED else 0.0
            record.exit_code = record.exited.exit_code
        record.started_fact = record.exited_fact = record.resized_fact = record.made_way_for = ""
        record.exited = record.stop_reason = None
        record.resized_at = 0
        record.picked = ()
        record.stop_detail = ""
        record.started_at = record.exited_at = 0
        if record.preflight_plan is not None:
            record.preflight_plan = record.preflight_failed = None
            record.preflight_fact = record.preflight_failed_fact = ""

    def note_node(self, name: str, *, at: int = 0) -> None:
        """The node came, went, or is another one: the cluster has more or less, and jobs on it hold another model."""
        node = self.nodes.get(name)
        self._follow_moves()
        is_other_model = self.capacity.set(name, node.description if node is not None else None)
        self.queues.set_capacity(self.capacity.totals)
        if is_other_model and node is not None:
            for job_id in tuple(node.jobs):
                self.recount(self.jobs.records[job_id], at=at)

    def _follow_moves(self) -> None:
        """Records say the places that the ledger keeps, so that a checkpoint says them too."""
        for job_id in self.ledger.moved:
            record = self.jobs.records[job_id]
            record.slots = self.ledger.placed(job_id, record.slots)
            if record.resize is not None:
                slots = self.ledger.placed(job_id, record.resize.slots)
                record.resize = record.resize.model_copy(update={"slots": slots})
        self.ledger.moved.clear()

    def begin_run(self, record: JobRecord) -> None:
        """The job runs: its total run time and its slice will end."""
        heapq.heappush(self.deadlines, (record.deadline(), record.id, record.attempt))
        self.runs.begin(record)

    def enlist(self, record: JobRecord) -> None:
        """Put the job into its lane, or take it out, as its state wants."""
        waits = record.phase in WAITING and not record.cancel_fact and not record.is_set_aside
        if waits and record.phase is Phase.SUBMITTED:
            waits = record.queue in self.queues.queues and self.refusal(record) is None
        if not waits:
            self.line.remove(record)
            return
        self.line.add(record)
        if record.phase is Phase.QUEUED and record.reason in _SAYS_NOTHING:
            self.line.tell(record)

    def next_deadline(self) -> Instant | None:
        """When the next running job's total run time is over."""
        heap = self.deadlines
        while heap:
            when, job_id, attempt = heap[0]
            record = self.jobs.records.get(job_id)
            if record is not None and record.phase is Phase.RUNNING and record.attempt == attempt:
                return when
            heapq.heappop(heap)
        return None

    def overdue(self, now: Instant) -> list[JobRecord]:
        """Running jobs whose total run time is over; they stay on the heap until that is folded."""
        due: list[tuple[Instant, str, int]] = []
        while (when := self.next_deadline()) is not None and when <= now:
            due.append(heapq.heappop(self.deadlines))
        for entry in due:
            heapq.heappush(self.deadlines, entry)
        return [self.jobs.records[job_id] for _, job_id, _ in due]


Handler = Callable[[State, Fact], None]
"""How one sort of fact changes the state."""
