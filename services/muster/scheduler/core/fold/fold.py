"""How each fact changes what the scheduler believes. What fits no state is counted and changes nothing."""

from muster.core import Fact
from muster.scheduler.core.fold.jobs import HANDLERS as OF_JOBS
from muster.scheduler.core.fold.nodes import HANDLERS as OF_NODES
from muster.scheduler.core.fold.queues import HANDLERS as OF_QUEUES
from muster.scheduler.core.fold.queues import set_queue
from muster.scheduler.core.fold.requests import HANDLERS as OF_REQUESTS
from muster.scheduler.core.fold.updates import (
    Handler,
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
from muster.schemas.facts.control import ClusterDescribed, ClusterState, ClusterSummary
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import GrantState, NodeState
from muster.schemas.facts.queue import QueueState
from muster.schemas.facts.telemetry import JobUseReported
from muster.schemas.job import Phase


def fold(state: State, fact: Fact) -> None:
    """One fact further. Facts that the scheduler has no use for cost one look-up."""
    state.holders.holds.apply(fact)
    handler = HANDLERS.get((fact.kind, fact.name))
    if handler is not None:
        handler(state, fact)
        state.progress.generation += fact.kind in _GROUNDS
    state.progress.folded += 1
    if fact.name != "state-recorded":
        state.progress.facts += 1
        state.progress.checkpoint_cause = fact.id


_GROUNDS = frozenset({"queue", "node", "device", "reservation"})
"""Kinds of which every fact that is folded may change who can run."""


def _summarised(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ClusterSummary)
    state.summary.numbers, state.summary.at = fact.payload, fact.time
    state.status.contact.summarised(fact.payload, at=fact.time)
    state.summary.is_stale = True  # what moved since the numbers were taken is not in them


def _described(state: State, fact: Fact) -> None:
    """What the cluster can do; those that just came may be impossible now, or not any more."""
    assert isinstance(fact.payload, ClusterDescribed)
    state.status.described = fact.payload
    for job_id in state.arrivals.jobs:
        enlist(state, state.jobs.records[job_id])
    state.progress.generation += 1


def _used(state: State, fact: Fact) -> None:
    """Of what the job used nothing follows here, but that somebody reads the pages of GPUs."""
    assert isinstance(fact.payload, JobUseReported)
    state.status.pages_read_at = max(state.status.pages_read_at, fact.payload.until)


def _checkpoint_requested(state: State, _fact: Fact) -> None:
    state.progress.facts = -1  # this one itself is counted afterwards


def _state_recorded(state: State, fact: Fact) -> None:
    match fact.payload:
        case JobState():
            _load_job(state, fact.payload)
        case QueueState():
            set_queue(state, fact.payload)
        case GrantState():
            state.grants.load(fact.kind, fact.subject_id, fact.payload)
        case NodeState(description=description, lost=lost):
            state.ledger.load_node(fact.subject_id, description, lost=lost, fact=fact.payload.last_fact)
            note_node(state, fact.subject_id)
        case ClusterState() as cluster:
            state.summary.numbers, state.summary.at = cluster.summary, cluster.summarised_at
            state.queues.wishes.update({wish.fact: wish for wish in cluster.wishes})
            state.status.contact.restore(cluster.contact)
            state.status.pages_read_at = max(state.status.pages_read_at, cluster.pages_read_at)
            state.status.contact_lost_at = cluster.contact_lost_at
            _cut_off(state)
        case ClusterDescribed() as described:
            state.status.described = described
            for job_id in state.arrivals.jobs:
                enlist(state, state.jobs.records[job_id])
        case _:
            return  # another service's view of its own subjects
    state.summary.is_stale = True


def _load_job(state: State, stored: JobState) -> None:
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


def _cut_off(state: State) -> None:
    """Jobs that came before the contact did."""
    for record in state.jobs.records.values():
        if record.lost_after_s and not record.phase.is_terminal:
            record.is_cut_off = state.status.contact.is_lost
            enlist(state, record)


OF_STATES: dict[tuple[str, str], Handler] = {
    (kind, "state-recorded"): _state_recorded for kind in ("job", "queue", "node", "device", "cluster")
}

HANDLERS: dict[tuple[str, str], Handler] = {
    **OF_JOBS,
    **OF_REQUESTS,
    **OF_QUEUES,
    **OF_NODES,
    **OF_STATES,
    ("cluster", "described"): _described,
    ("cluster", "summarised"): _summarised,
    ("job", "use-reported"): _used,
    ("log", "checkpoint-requested"): _checkpoint_requested,
}
