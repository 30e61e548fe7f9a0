"""Fold facts about nodes, devices, queues, and what an autoscaler outside wants."""

from collections.abc import Callable

from muster.cluster.node_records import NODE
from muster.core import Fact
from muster.scaler.core.choices import REMOVE_NODE, Outcome
from muster.scaler.core.state import State
from muster.schemas.facts.node import (
    Cordon,
    CordonRequested,
    NodeJoined,
    Withheld,
    WithholdRequested,
    WithholdWithdrawn,
)
from muster.schemas.facts.queue import QueueChanged
from muster.schemas.facts.scale import ProvisionFailed


def _joined(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, NodeJoined)
    name = fact.subject_id
    is_new = state.cluster.nodes.description(name) is None
    state.cluster.changed.mark(name)
    state.cluster.ledger.join(name, fact.payload, fact=fact.id)
    note_node(state, name, at=fact.time)
    state.changes.added += 1
    if is_new and fact.payload.group:
        state.cooldowns.note_moved(fact.payload.group, fact.time)
        state.cooldowns.note_moved(name, fact.time)


def _lost_or_returned(state: State, fact: Fact) -> None:
    state.cluster.changed.mark(fact.subject_id)
    if not state.cluster.ledger.set_lost(fact.subject_id, fact.name == "lost", fact=fact.id):
        state.anomalies[f"{fact.name} of no node"] += 1


def _left(state: State, fact: Fact) -> None:
    name = fact.subject_id
    group, description = state.cluster.node_groups.group_of(name), state.cluster.nodes.description(name)
    if description is not None:
        state.choices.came.pop(description.scale, None)
    state.cluster.changed.mark(name)
    if not state.cluster.ledger.leave(name, fact=fact.id):
        state.anomalies["left of no node"] += 1
        return
    note_node(state, name, at=fact.time)
    state.changes.added += 1
    state.signals.forget_node(name)
    state.refused.pop(name, None)
    if group:
        state.cooldowns.note_moved(group, fact.time)


def note_node(state: State, name: str, *, at: int = 0) -> None:
    """The node came, went, or is another one: jobs on it may hold another model. at 0: a checkpoint says so."""
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


def _withhold_requested(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, WithholdRequested)
    _touch(state, fact)
    if not state.cluster.grants.ask(fact.kind, fact.subject_id, fact.payload, fact=fact.id, at=fact.time):
        state.anomalies["withhold requested twice"] += 1


def _cordoned(state: State, fact: Fact) -> None:
    """A person closes the node, or (resume) wants it used again."""
    assert isinstance(fact.payload, CordonRequested)
    _touch(state, fact)
    cordon = None if fact.name == "resume-forwarded" else Cordon(principal=fact.payload.principal, since=fact.time)
    state.cluster.grants.cordon(fact.subject_id, cordon, fact=fact.id, seq=fact.seq)
    state.changes.freed += cordon is None


def _withhold_withdrawn(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, WithholdWithdrawn)
    _touch(state, fact)
    said = fact.payload
    state.cluster.grants.withdraw(
        fact.kind, fact.subject_id, said.request_id, after_withheld=said.after_withheld, fact=fact.id, seq=fact.seq
    )
    state.changes.freed += 1


def _withheld(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, Withheld)
    _touch(state, fact)
    if not state.cluster.grants.answered(fact.kind, fact.subject_id, fact.payload.request_id, fact=fact.id):
        state.anomalies["withheld out of turn"] += 1
    if fact.kind == NODE:
        state.choices.withheld[fact.subject_id] = None
    for choice in state.choices.on.get(fact.subject_id, {}).values():
        if choice.name == REMOVE_NODE and choice.chosen.request_id == fact.payload.request_id:
            choice.withheld = True


def _released(state: State, fact: Fact) -> None:
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
        state.cluster.changed.mark(node)


def _provision_failed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, ProvisionFailed)
    if fact.payload.scale in state.choices.open:
        state.choices.given_up[fact.payload.scale] = Outcome(True, fact.payload.reason, fact.id)
        state.choices.mark_dirty(fact.payload.scale)


def _queue_changed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, QueueChanged)
    state.queues.set(fact.payload.spec, changed_at=fact.time, at=fact.time)
    state.changes.added += 1


def _signal(state: State, fact: Fact) -> None:
    state.signals.fold(fact)
    state.changes.added += 1


NODE_HANDLERS: dict[tuple[str, str], Callable[[State, Fact], None]] = {
    ("node", "joined"): _joined,
    **{("node", name): _lost_or_returned for name in ("lost", "returned")},
    ("node", "left"): _left,
    ("node", "provision-failed"): _provision_failed,
    **{(kind, "withhold-requested"): _withhold_requested for kind in ("node", "device")},
    **{("node", f"{ask}-forwarded"): _cordoned for ask in ("cordon", "drain", "resume")},
    **{(kind, "withhold-withdrawn"): _withhold_withdrawn for kind in ("node", "device")},
    **{(kind, "withheld"): _withheld for kind in ("node", "device")},
    **{(kind, "released"): _released for kind in ("node", "device")},
    ("queue", "changed"): _queue_changed,
    **{
        ("autoscaler", name): _signal
        for name in ("node-wanted", "node-refused", "node-unneeded", "removal-blocked", "settled")
    },
}
