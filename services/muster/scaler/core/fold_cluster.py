"""Folds of facts about jobs, nodes, devices and queues, and of the signals of an external autoscaler."""

from muster.cluster.node_records import NODE
from muster.core import Fact
from muster.core.folding import Folds
from muster.scaler.core.choices import REMOVE_NODE, Outcome
from muster.scaler.core.jobs import WAITING, JobRecord
from muster.scaler.core.state import State
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job import (
    JobCancelRequested,
    JobFinished,
    JobPlaced,
    JobQueued,
    JobReservationLifted,
    JobReserved,
    JobResized,
    JobResizeRequested,
    JobRouted,
    JobUnschedulable,
    PodsStarted,
)
from muster.schemas.facts.job_requests import JobHeld
from muster.schemas.facts.node import (
    Cordon,
    CordonRequested,
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeReturned,
    Released,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.facts.queue import QueueChanged
from muster.schemas.facts.scale import AutoscalerSignal, ProvisionFailed
from muster.schemas.job import Phase

FOLDS = Folds[State, None]()


@FOLDS.on("job", "routed", JobRouted)
def _routed(state: State, fact: Fact, routed: JobRouted) -> None:
    job = routed.job
    if job.id in state.jobs.records:
        state.anomalies["routed twice"] += 1
        return
    state.jobs.add(job, queue=job.spec.queue_name, routed_seq=fact.seq)


@FOLDS.on("job", "queued", JobQueued)
def _queued(state: State, fact: Fact, queued: JobQueued) -> None:
    record = _known(state, fact)
    if record is None:
        return
    leave(state, record)
    apply_hold(state, record, fact, at=fact.time)
    state.jobs.move_to(record, queued.queue)
    record.phase, record.queued_at = Phase.QUEUED, fact.time


@FOLDS.on("job", "placed", JobPlaced)
def _placed(state: State, fact: Fact, _: JobPlaced) -> None:
    record = _known(state, fact)
    if record is None or record.phase not in WAITING:
        state.anomalies["placed out of turn"] += 1
        return
    leave(state, record)
    lift_kept(state, record)
    record.phase = Phase.PLACED
    record.reason = record.detail = record.reason_fact = ""
    record.awaits_preemption = False
    state.jobs.served_at.pop(record.id, None)
    state.refused.forget(record.id)
    apply_hold(state, record, fact, at=fact.time)


@FOLDS.on("job", "pods-started", PodsStarted)
def _pods_started(state: State, fact: Fact, _: PodsStarted) -> None:
    state.cluster.holds.apply(fact)
    hold = state.cluster.holds.jobs.get(fact.subject_id)
    if hold is not None:
        state.cluster.mark(*(slot.node for slot in hold.held if slot.gpus))


@FOLDS.on("job", ("succeeded", "failed", "cancelled", "timed-out", "returned"), (JobFinished, JobReturned))
def _ended(state: State, fact: Fact, _: JobFinished | JobReturned) -> None:
    record = _known(state, fact)
    if record is None:
        return
    leave(state, record)
    lift_kept(state, record)
    apply_hold(state, record, fact, at=fact.time)
    state.jobs.remove(record)
    state.refused.forget(record.id)


@FOLDS.on("job", "cancel-forwarded", JobCancelRequested)
def _cancelled(state: State, fact: Fact, _: JobCancelRequested) -> None:
    record = _known(state, fact)
    if record is not None:
        lift_kept(state, record)
        leave(state, record)
        record.cancelled = True


@FOLDS.on("job", ("held", "unheld"), JobHeld)
def _held(state: State, fact: Fact, held: JobHeld) -> None:
    record = _known(state, fact)
    if record is None or record.phase not in WAITING:
        state.anomalies[f"{fact.name} out of turn"] += 1
        return
    lift_kept(state, record)
    leave(state, record)
    record.held, record.awaits_preemption = fact.name == "held", False
    record.reason, record.detail = "held" if record.held else "released", held.words


@FOLDS.on("job", "unschedulable", JobUnschedulable)
def _unschedulable(state: State, fact: Fact, short: JobUnschedulable) -> None:
    record = _known(state, fact)
    if record is None or record.phase not in WAITING:
        state.anomalies["unschedulable out of turn"] += 1
        return
    record.reason, record.detail = short.reason, short.detail
    record.reason_fact, record.reason_at = fact.id, fact.time
    state.demand.put(record)


@FOLDS.on("job", ("reserved", "reservation-lifted"), (JobReserved, JobReservationLifted))
def _reservation_changed(state: State, fact: Fact, told: JobReserved | JobReservationLifted) -> None:
    awaits_preemption = isinstance(told, JobReserved) and bool(told.victims)
    record = _known(state, fact)
    if record is not None and record.awaits_preemption != awaits_preemption:
        if awaits_preemption:
            leave(state, record)
        record.awaits_preemption = awaits_preemption
        state.demand.put(record)


@FOLDS.on("job", ("resize-requested", "resized"), (JobResizeRequested, JobResized))
def _resized(state: State, fact: Fact, _: JobResizeRequested | JobResized) -> None:
    """Hold added slots from `resize-requested` on; slots that are given up stay held until `resized`."""
    record = _known(state, fact)
    if record is not None:
        apply_hold(state, record, fact, at=fact.time)


def apply_hold(state: State, record: JobRecord, fact: Fact, *, at: int) -> None:
    """Fold what the job holds, and update the ledger. `at` is 0 if the state comes from a checkpoint."""
    before = state.cluster.slots_held(record.id)
    change = state.cluster.holds.apply(fact)
    if change is None:
        return
    state.cluster.mark(*(slot.node for slot in before))
    if before:
        state.cluster.ledger.free(record.id, before, fact=fact.id, seq=fact.seq)
    after = state.cluster.slots_held(record.id)
    state.cluster.ledger.take(record.id, after, record.shape.gang)
    state.cluster.mark(*(slot.node for slot in after))
    state.changes.freed += bool(change.freed)
    state.changes.taken += bool(change.taken)
    state.recount(record, at=at)


def leave(state: State, record: JobRecord) -> None:
    """Remove a job that waits no longer, or not as before: its places are available to others."""
    if state.demand.drop(record):
        state.changes.freed += 1


def lift_kept(state: State, record: JobRecord) -> None:
    """Lift the places that choices keep for the job."""
    for choice in state.choices.of_job.get(record.id, {}).values():
        state.cluster.lift(*choice.nodes)
        state.changes.added += 1


def _known(state: State, fact: Fact) -> JobRecord | None:
    record = state.jobs.records.get(fact.subject_id)
    if record is None:
        state.anomalies[f"{fact.name} of no live job"] += 1
    return record


@FOLDS.on("node", "joined", NodeJoined)
def _joined(state: State, fact: Fact, joined: NodeJoined) -> None:
    name = fact.subject_id
    is_new = state.cluster.nodes.description(name) is None
    state.cluster.mark(name)
    state.cluster.ledger.join(name, joined, fact=fact.id)
    note_node(state, name, at=fact.time)
    state.changes.added += 1
    if is_new and joined.group:
        state.cooldowns.note_moved(joined.group, fact.time)
        state.cooldowns.note_moved(name, fact.time)


@FOLDS.on("node", ("lost", "returned"), (NodeLost, NodeReturned))
def _lost_or_returned(state: State, fact: Fact, _: NodeLost | NodeReturned) -> None:
    state.cluster.mark(fact.subject_id)
    if not state.cluster.ledger.set_lost(fact.subject_id, fact.name == "lost", fact=fact.id):
        state.anomalies[f"{fact.name} of no node"] += 1


@FOLDS.on("node", "left", NodeLeft)
def _left(state: State, fact: Fact, _: NodeLeft) -> None:
    name = fact.subject_id
    group, description = state.cluster.node_groups.group_of(name), state.cluster.nodes.description(name)
    if description is not None:
        state.choices.came.pop(description.scale, None)
    state.cluster.mark(name)
    if not state.cluster.ledger.leave(name, fact=fact.id):
        state.anomalies["left of no node"] += 1
        return
    note_node(state, name, at=fact.time)
    state.changes.added += 1
    state.signals.forget_node(name)
    state.refused.forget(name)
    if group:
        state.cooldowns.note_moved(group, fact.time)


def note_node(state: State, name: str, *, at: int = 0) -> None:
    """Follow a node that joined, left or changed: its jobs may hold another model. `at` is 0 for a checkpoint."""
    description = state.cluster.nodes.description(name)
    if description is not None and description.scale:
        state.choices.came[description.scale] = name
        state.choices.mark_dirty(description.scale)
    for device in description.present.values() if description is not None else ():
        state.find_node(device)
    if state.cluster.node_groups.note(name):
        record = state.cluster.nodes.get(name)
        for job_id in tuple(record.jobs) if record is not None else ():
            state.recount(state.jobs.records[job_id], at=at)


@FOLDS.on(("node", "device"), "withhold-requested", WithholdRequested)
def _withhold_requested(state: State, fact: Fact, asked: WithholdRequested) -> None:
    _touch(state, fact)
    if not state.cluster.grants.ask(fact.kind, fact.subject_id, asked, fact=fact.id, at=fact.time):
        state.anomalies["withhold requested twice"] += 1


@FOLDS.on("node", ("cordon-forwarded", "drain-forwarded", "resume-forwarded"), CordonRequested)
def _cordoned(state: State, fact: Fact, asked: CordonRequested) -> None:
    _touch(state, fact)
    cordon = None if fact.name == "resume-forwarded" else Cordon(principal=asked.principal, since=fact.time)
    state.cluster.grants.cordon(fact.subject_id, cordon, fact=fact.id, seq=fact.seq)
    state.changes.freed += cordon is None


@FOLDS.on(("node", "device"), "withhold-withdrawn", WithholdWithdrawn)
def _withhold_withdrawn(state: State, fact: Fact, withdrawn: WithholdWithdrawn) -> None:
    _touch(state, fact)
    state.cluster.grants.withdraw(
        fact.kind,
        fact.subject_id,
        withdrawn.request_id,
        after_withheld=withdrawn.after_withheld,
        fact=fact.id,
        seq=fact.seq,
    )
    state.changes.freed += 1


@FOLDS.on(("node", "device"), "withheld", Withheld)
def _withheld(state: State, fact: Fact, withheld: Withheld) -> None:
    _touch(state, fact)
    if not state.cluster.grants.answered(fact.kind, fact.subject_id, withheld.request_id, fact=fact.id):
        state.anomalies["withheld out of turn"] += 1
    if fact.kind == NODE:
        state.choices.withheld[fact.subject_id] = None
    for choice in state.choices.on.get(fact.subject_id, {}).values():
        if choice.name == REMOVE_NODE and choice.chosen.request_id == withheld.request_id:
            choice.withheld = True


@FOLDS.on(("node", "device"), "released", Released)
def _released(state: State, fact: Fact, _: Released) -> None:
    _touch(state, fact)
    if not state.cluster.grants.release(fact.kind, fact.subject_id, fact=fact.id, seq=fact.seq):
        state.anomalies["released out of turn"] += 1
    description = state.cluster.nodes.description(fact.subject_id) if fact.kind == NODE else None
    if description is not None and description.scale:
        state.choices.mark_dirty(description.scale)
    state.changes.freed += 1


def _touch(state: State, fact: Fact) -> None:
    node = state.cluster.nodes.node_of(fact.kind, fact.subject_id)
    if node:
        state.cluster.mark(node)


@FOLDS.on("node", "provision-failed", ProvisionFailed)
def _provision_failed(state: State, fact: Fact, failed: ProvisionFailed) -> None:
    if failed.scale in state.choices.open:
        state.choices.given_up[failed.scale] = Outcome(True, failed.reason, fact.id)
        state.choices.mark_dirty(failed.scale)


@FOLDS.on("queue", "changed", QueueChanged)
def _queue_changed(state: State, fact: Fact, changed: QueueChanged) -> None:
    state.queues.set(changed.spec, changed_at=fact.time, at=fact.time)
    state.changes.added += 1


@FOLDS.on(
    "autoscaler", ("node-wanted", "node-refused", "node-unneeded", "removal-blocked", "settled"), AutoscalerSignal
)
def _signal(state: State, fact: Fact, signal: AutoscalerSignal) -> None:
    state.signals.fold(fact, signal)
    state.changes.added += 1
