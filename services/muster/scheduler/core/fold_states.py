"""How the parts of a checkpoint, which come in any order, become what the scheduler believes."""

from muster.core import Fact
from muster.scheduler.core import booked_jobs
from muster.scheduler.core.fold_queues import set_queue
from muster.scheduler.core.jobs import HOLDING
from muster.scheduler.core.state import Handler, State
from muster.schemas.facts.control import ClusterDescribed, ClusterState
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import GrantState, NodeState
from muster.schemas.facts.queue import QueueState
from muster.schemas.job import Phase


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
            state.note_node(fact.subject_id)
        case ClusterState() as cluster:
            state.summary, state.summarised_at = cluster.summary, cluster.summarised_at
            state.queues.wishes.update({wish.fact: wish for wish in cluster.wishes})
            state.contact.restore(cluster.contact)
            state.pages_read_at = max(state.pages_read_at, cluster.pages_read_at)
            state.contact_lost_at = cluster.contact_lost_at
            _cut_off(state)
        case ClusterDescribed() as described:
            state.described = described
            for job_id in state.arrivals:
                state.enlist(state.jobs.records[job_id])
        case _:
            return  # another service's view of its own subjects
    state.summary_stale = True


def _load_job(state: State, stored: JobState) -> None:
    if stored.job.id in state.jobs.records:
        state.anomalies["state recorded twice"] += 1
        return
    record = state.jobs.restored(stored)
    record.is_cut_off = bool(record.lost_after_s) and state.contact.is_lost
    state.contact.is_wanted = state.contact.is_wanted or bool(record.lost_after_s)
    state.jobs.add(record)
    if record.phase.is_terminal:
        return
    state.demand.count(record)
    state.dirty[record.id] = None
    if record.phase is Phase.SUBMITTED:
        state.arrivals[record.id] = None
    if record.phase in HOLDING:
        state.hold(record.id, record.held_slots, record.kind.gang)
        state.ledger.pick(record.id, record.slots, record.picked)
        state.recount(record)
    if record.phase is Phase.RUNNING:
        state.begin_run(record)
    state.await_lift(record)
    state.runs.file(record)
    booked_jobs.follow(state.bookings, record)
    if record.phase is Phase.SUBMITTED:
        state.settle_arrival(record)
    else:
        state.enlist(record)


def _cut_off(state: State) -> None:
    """Jobs that came before the contact did."""
    for record in state.jobs.records.values():
        if record.lost_after_s and not record.phase.is_terminal:
            record.is_cut_off = state.contact.is_lost
            state.enlist(record)


HANDLERS: dict[tuple[str, str], Handler] = {
    (kind, "state-recorded"): _state_recorded for kind in ("job", "queue", "node", "device", "cluster")
}
