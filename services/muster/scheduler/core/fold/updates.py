"""Changes of a job or node that affect several stores."""

from collections.abc import Sequence

from muster.core import Fact, Instant
from muster.placement import GangRequest
from muster.quota.amounts import NO_AMOUNTS, changes
from muster.scheduler.core.admit.arrivals import refusal
from muster.scheduler.core.reasons import Reason
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import book_reserved
from muster.scheduler.core.stores.capacity import amounts_of
from muster.scheduler.core.stores.jobs import HOLDING, WAITING, JobRecord, avoided_at
from muster.schemas.facts.operations import NodeExcluded
from muster.schemas.job import Phase, Slot

_NOT_EXPLAINED = frozenset({"", Reason.RELEASED})
"""Reasons of jobs for which no report was made yet."""


def touch(state: State, record: JobRecord, fact: Fact) -> None:
    """Follow an own fact that changed the record: this job and others may need another decision now."""
    record.last_fact = fact.id
    state.due.mark_dirty(record.id)
    state.runs.file(record)
    book_reserved(state.bookings, record)
    state.progress.generation += 1
    state.summary.is_stale = True


def is_out_of_contact(state: State, record: JobRecord) -> bool:
    """Return whether the job may not run because the federation is silent and may give it to another cluster."""
    return bool(record.lost_after_s) and state.status.contact.is_lost


# --- where a job waits ---------------------------------------------------------------------------------------


def enlist(state: State, record: JobRecord) -> None:
    """Add the job to its pending queue, or remove it, as its state requires."""
    waits = record.phase in WAITING and not record.cancel_fact and not record.is_set_aside
    if waits and record.phase is Phase.SUBMITTED:
        waits = record.queue in state.queues.queues and refusal(state, record) is None
    if not waits:
        state.pending.remove(record)
        return
    state.pending.add(record)
    if record.phase is Phase.QUEUED and record.reason in _NOT_EXPLAINED:
        state.pending.want_reason(record)


def settle_arrival(state: State, record: JobRecord) -> None:
    """Resolve again the queue and run times of a job that is not queued yet: its queue may have changed."""
    spec = record.job.spec
    queue = state.queues.queue_for(spec.queue_name, record.job.principal)
    total_s, slice_s = state.queues.policy_for(queue, spec.queue_name).run_times(spec)
    settle_job(state, record, queue=queue, total_run_time_s=total_s, min_slice_s=slice_s)
    state.arrivals.await_queue(record, state.queues)
    enlist(state, record)


def settle_job(state: State, record: JobRecord, *, queue: str, total_run_time_s: float, min_slice_s: float) -> None:
    """Set the job's queue and run times."""
    known = record.queue, record.total_run_time_s, record.min_slice_s
    if known == (queue, total_run_time_s, min_slice_s):
        return
    state.pending.remove(record)
    record.queue, record.total_run_time_s, record.min_slice_s = queue, total_run_time_s, min_slice_s
    state.jobs.reclassify(record, record.job_class.avoided)


# --- nodes that a job is kept off ----------------------------------------------------------------------------


def exclude(state: State, record: JobRecord, added: Sequence[NodeExcluded], *, most: int, at: int) -> None:
    """Exclude a job from more nodes; only the newest `most` exclusions are kept."""
    names = {one.node for one in added}
    record.excluded = (*(one for one in record.excluded if one.node not in names), *added)[-most:]
    _avoid(state, record, avoided_at(record, at))
    state.due.await_lift(record)


def lift_exclusions(state: State, now: Instant) -> Instant | None:
    """Remove exclusions that expired, and return when the next ones expire."""
    for job_id in state.due.pop_lifts(now):
        record = state.jobs.records.get(job_id)
        if record is not None and record.job_class.avoided:
            _avoid(state, record, avoided_at(record, now))
    return state.due.next_lift()


def _avoid(state: State, record: JobRecord, avoided: frozenset[str]) -> None:
    """Set the nodes from which the job is excluded; a waiting job moves to another pending queue."""
    if avoided == record.job_class.avoided:
        return
    is_pending = state.pending.queue_of(record) is not None
    state.pending.remove(record)
    state.jobs.reclassify(record, avoided)
    if is_pending:
        enlist(state, record)


# --- what a job holds ----------------------------------------------------------------------------------------


def enter_slots(state: State, job_id: str, slots: Sequence[Slot], gang: GangRequest) -> None:
    """Record that the job holds these slots; where only counts matter, the ledger may choose other devices."""
    holds = state.proposals.confirm(job_id, slots)
    if holds is not None:
        state.ledger.note(job_id, holds, gang)
    else:
        state.ledger.take(job_id, slots, gang)
    _follow_places(state)


def recount(state: State, record: JobRecord, *, at: int = 0) -> None:
    """Update the amounts that the queue counts for the job from `at` on; 0 if the job comes from a checkpoint."""
    before, after = record.counted, NO_AMOUNTS
    if record.phase in HOLDING:
        after = amounts_of(record.job_class, record.held_slots, state.capacity.models)
    if after is before:
        return
    record.counted = after
    for sign, amounts in ((1, after), (-1, before)) if not (after and before) else changes(after, before):
        if amounts:
            state.queues.hold(
                record.queue,
                amounts,
                sign=sign,
                preemptible=record.job_class.preemptible,
                at=at,
                principal=record.job.principal,
            )


def let_go(state: State, record: JobRecord, fact: Fact) -> None:
    """End the run: free the job's slots, and clear the observations of the run."""
    state.ledger.free(record.id, record.held_slots, fact=fact.id, seq=fact.seq)
    record.resize = None
    recount(state, record, at=fact.time)
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


def begin_run(state: State, record: JobRecord) -> None:
    """Schedule the ends of the total run time and of the time slice of a job that begins to run."""
    state.due.begin_run(record)
    state.runs.begin(record)


def note_node(state: State, name: str, *, at: int = 0) -> None:
    """Follow a node that joined, left or changed: update the capacity, and recount jobs of another GPU model."""
    node = state.nodes.get(name)
    _follow_places(state)
    is_other_model = state.capacity.set(name, node.description if node is not None else None)
    state.queues.set_capacity(state.capacity.totals)
    if is_other_model and node is not None:
        for job_id in tuple(node.jobs):
            recount(state, state.jobs.records[job_id], at=at)


def _follow_places(state: State) -> None:
    """Copy changed places from the ledger to the records, so that a checkpoint has them."""
    for job_id in state.ledger.moved:
        record = state.jobs.records[job_id]
        record.slots = state.ledger.placed(job_id, record.slots)
        if record.resize is not None:
            slots = state.ledger.placed(job_id, record.resize.slots)
            record.resize = record.resize.model_copy(update={"slots": slots})
    state.ledger.moved.clear()
