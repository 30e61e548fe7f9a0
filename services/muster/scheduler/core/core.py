"""The scheduler's core: folds the cluster's log, decides placements and preemptions, and records checkpoints."""

from collections.abc import Iterator

from muster.cluster.node_records import NodeRecord
from muster.core import Draft, Fact, Instant
from muster.core.folding import Folds
from muster.scheduler.core.cycle import Cycle, Limits
from muster.scheduler.core.explain.expected import Expectations
from muster.scheduler.core.fold import jobs, nodes, queues, requests
from muster.scheduler.core.fold.queues import set_queue
from muster.scheduler.core.fold.updates import (
    begin_run,
    enlist,
    enter_slots,
    note_node,
    recount,
    settle_arrival,
)
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import book_reserved
from muster.scheduler.core.stores.jobs import HOLDING
from muster.schemas.facts.control import CheckpointRequested, ClusterDescribed, ClusterState, ClusterSummary
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import GrantState, NodeState
from muster.schemas.facts.queue import QueueState
from muster.schemas.facts.telemetry import JobUseReported
from muster.schemas.job import Phase
from muster.schemas.registry import STATE_NAME

FOLDS = Folds[State, None](jobs.FOLDS, requests.FOLDS, queues.FOLDS, nodes.FOLDS)

_GROUNDS = frozenset({"queue", "node", "device", "reservation"})
"""Kinds of facts of which each one may change which jobs can run."""


@FOLDS.on("cluster", "summarised", ClusterSummary)
def _summarised(state: State, fact: Fact, summary: ClusterSummary) -> None:
    state.summary.numbers, state.summary.at = summary, fact.time
    state.status.contact.summarised(summary, at=fact.time)
    state.summary.is_stale = True  # changes since the numbers were taken are not in them


@FOLDS.on("cluster", ("described", STATE_NAME), ClusterDescribed)
def _described(state: State, _fact: Fact, described: ClusterDescribed) -> None:
    """Set the cluster's capabilities; jobs that just arrived may have become possible or impossible."""
    state.status.described = described
    for job_id in state.arrivals.jobs:
        enlist(state, state.jobs.records[job_id])
    state.progress.generation += 1


@FOLDS.on("job", "use-reported", JobUseReported)
def _used(state: State, _fact: Fact, used: JobUseReported) -> None:
    """Note that telemetry reads the GPU pages; the usage itself changes nothing here."""
    state.status.pages_read_at = max(state.status.pages_read_at, used.until)


@FOLDS.on("log", "checkpoint-requested", CheckpointRequested)
def _checkpoint_requested(state: State, _fact: Fact, _: CheckpointRequested) -> None:
    state.progress.facts = -1  # this fact itself is counted afterwards


@FOLDS.on("queue", STATE_NAME, QueueState)
def _load_queue(state: State, _fact: Fact, stored: QueueState) -> None:
    set_queue(state, stored)


@FOLDS.on(("node", "device"), STATE_NAME, GrantState)
def _load_grant(state: State, fact: Fact, stored: GrantState) -> None:
    state.grants.load(fact.kind, fact.subject_id, stored)


@FOLDS.on("node", STATE_NAME, NodeState)
def _load_node(state: State, fact: Fact, stored: NodeState) -> None:
    state.ledger.load_node(fact.subject_id, stored.description, lost=stored.lost, fact=stored.last_fact)
    note_node(state, fact.subject_id)


@FOLDS.on("cluster", STATE_NAME, ClusterState)
def _load_cluster(state: State, _fact: Fact, stored: ClusterState) -> None:
    state.summary.numbers, state.summary.at = stored.summary, stored.summarised_at
    state.queues.wishes.update({request.fact: request for request in stored.wishes})
    state.status.contact.restore(stored.contact)
    state.status.pages_read_at = max(state.status.pages_read_at, stored.pages_read_at)
    state.status.contact_lost_at = stored.contact_lost_at
    for record in state.jobs.records.values():  # jobs that were loaded before the contact
        if record.lost_after_s and not record.phase.is_terminal:
            record.is_cut_off = state.status.contact.is_lost
            enlist(state, record)


@FOLDS.on("job", STATE_NAME, JobState)
def _load_job(state: State, _fact: Fact, stored: JobState) -> None:
    if stored.job.id in state.jobs.records:
        state.anomalies["state recorded twice"] += 1
        return
    record = state.jobs.restored(stored)
    record.is_cut_off = bool(record.lost_after_s) and state.status.contact.is_lost
    state.status.contact.is_wanted = state.status.contact.is_wanted or bool(record.lost_after_s)
    state.jobs.add(record)
    if record.phase.is_terminal:
        return
    state.demand.count(record)
    state.due.mark_dirty(record.id)
    if record.phase is Phase.SUBMITTED:
        state.arrivals.jobs[record.id] = None
    if record.phase in HOLDING:
        enter_slots(state, record.id, record.held_slots, record.job_class.gang)
        recount(state, record)
    if record.phase is Phase.RUNNING:
        begin_run(state, record)
    state.due.await_lift(record)
    state.runs.file(record)
    book_reserved(state.bookings, record)
    if record.phase is Phase.SUBMITTED:
        settle_arrival(state, record)
    else:
        enlist(state, record)


class SchedulerCore:
    """The only writer of job phases, terminal facts and grants of one cluster.

    `decide` leaves its proposals held in the fleet until they are confirmed by being folded. Every other reader of free
    capacity (the next decision, a query) first retracts proposals that were not confirmed.
    """

    def __init__(self, *, cluster: str, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.state = State(cluster)
        self.may_grow = limits.may_grow
        self._cycle = Cycle(self.state, limits)
        self.expectations = Expectations(self.state)
        self._now = Instant(0)

    def apply(self, fact: Fact) -> None:
        """Fold one fact; one that fits no state is counted in `state.anomalies`."""
        state = self.state
        state.holders.holds.apply(fact)
        FOLDS.apply(state, fact)
        if fact.kind in _GROUNDS and fact in FOLDS:
            state.progress.generation += 1
        state.progress.folded += 1
        if fact.name == STATE_NAME:
            state.summary.is_stale = True
        else:
            state.progress.facts += 1
            state.progress.checkpoint_cause = fact.id

    def decide(self, now: Instant) -> list[Draft]:
        """Return the drafts that the state calls for; repeated calls return the same until a fact is folded."""
        self._now = now
        return self._cycle.decide(now)

    def next_wakeup(self) -> Instant | None:
        """Return the next deadline or postponed report; the time of the last decision if it left work over."""
        if self._cycle.requeue.more:
            return self._now
        moments = self.state.due.next_deadline(self.state.jobs), self._cycle.requeue.due
        return min((moment for moment in moments if moment is not None), default=None)

    def snapshot(self) -> Iterator[Draft]:
        """Yield the state of queues, grants, jobs, reservations and the cluster, for a checkpoint."""
        state = self.state
        for name, queue in state.queues.queues.items():
            yield Draft("queue", name, STATE_NAME, state.queues.state_of(queue))
        for kind, grants in (("node", state.nodes), ("device", state.grants.devices)):
            for name, grant in grants.items():
                yield Draft(
                    kind,
                    name,
                    STATE_NAME,
                    GrantState(
                        released=grant.released,
                        withhold_requests=tuple(request.request_id for request in grant.wishes),
                        withheld=bool(grant.wishes) and all(request.answered for request in grant.wishes),
                        wishes=grant.wishes,
                        last_fact=grant.last_fact,
                        cordon=grant.cordon if isinstance(grant, NodeRecord) else None,
                    ),
                )
        for record in state.jobs.stored():
            yield Draft("job", record.id, STATE_NAME, record.as_body(JobState), trace=record.job.trace)
        for name, reservation in state.reservations.states().items():
            yield Draft("reservation", name, STATE_NAME, reservation)
        requests = tuple(state.queues.wishes.values())
        contact = state.status.contact.stored()
        cluster = ClusterState(
            summary=state.summary.numbers,
            summarised_at=state.summary.at,
            wishes=requests,
            contact=contact,
            pages_read_at=state.status.pages_read_at,
            contact_lost_at=state.status.contact_lost_at,
        )
        yield Draft("cluster", state.cluster, STATE_NAME, cluster)
