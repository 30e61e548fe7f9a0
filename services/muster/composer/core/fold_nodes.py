"""Fold facts about nodes, their grants and held devices."""

from muster.composer.core.state import State
from muster.core import Fact
from muster.core.folding import Folds
from muster.schemas.base import Payload
from muster.schemas.facts.device import PendingDetach
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job import JobFinished, JobRouted
from muster.schemas.facts.node import (
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeReturned,
    Released,
    Withheld,
    WithholdWithdrawn,
)

FOLDS = Folds[State, None]()


@FOLDS.on("node", "joined", NodeJoined)
def _joined(state: State, fact: Fact, joined: NodeJoined) -> None:
    machine, group = joined.machine, state.config.group_of.get(joined.group)
    if group is not None:
        state.hosts.machines.settle_in(machine, group.fabric, fact.time, young_s=state.bounds.young_s)
    state.hosts.machines.take(machine, fact.subject_id)
    _changed(state, fact)
    _touch_all(state, machine)


@FOLDS.on("node", ("lost", "returned"), (NodeLost, NodeReturned))
def _answers(state: State, fact: Fact, _: NodeLost | NodeReturned) -> None:
    _changed(state, fact)


def _changed(state: State, fact: Fact) -> None:
    change = state.hosts.nodes.apply(fact)
    if change is not None:
        state.hosts.grants.change_node(change)


@FOLDS.on("node", "left", NodeLeft)
def _left(state: State, fact: Fact, _: NodeLeft) -> None:
    description = state.hosts.nodes.description(fact.subject_id)
    if description is None:
        state.anomalies.note("left of no node")
        return
    machine = description.machine
    pending = PendingDetach(fact=fact.id, reason=f"node {fact.subject_id} left the cluster", keep=True)
    for name in tuple(state.attachments.on_machine.get(machine, ())):
        attachment = state.attachments[name]
        if not attachment.phase.is_over:
            state.attachments.want_away(attachment, pending)
    group = state.config.group_of.get(description.group)
    if group is not None:
        state.hosts.machines.abandon(machine, group.fabric)
    _changed(state, fact)
    _touch_all(state, machine)
    for name, request in state.requests.items():
        if request.spec is not None and request.spec.target_node == fact.subject_id:
            state.worklist.look_request(name)


def _touch_all(state: State, machine: str) -> None:
    state.attachments.kinds_on.pop(machine, None)
    for name in tuple(state.attachments.on_machine.get(machine, ())):
        state.attachments.touch(state.attachments[name])


@FOLDS.on("node", "released", Released)
def _node_released(state: State, fact: Fact, _: Released) -> None:
    state.hosts.grants.release_node(fact.subject_id)
    node = state.hosts.nodes.get(fact.subject_id)
    for uuid in node.shown if node is not None else ():
        _touch_device(state, uuid)


@FOLDS.on("device", "released", Released)
def _device_released(state: State, fact: Fact, _: Released) -> None:
    state.hosts.grants.release_device(fact.subject_id)
    _touch_device(state, fact.subject_id)


def _touch_device(state: State, uuid: str) -> None:
    name = state.attachments.by_uuid.get(uuid)
    if name is not None:
        state.attachments.touch(state.attachments[name])


@FOLDS.on(("node", "device"), "withheld", Withheld)
def _withheld(state: State, fact: Fact, withheld: Withheld) -> None:
    name = state.attachments.withholding.get(withheld.request_id)
    if name is not None:
        attachment = state.attachments[name]
        if attachment.withdrawn_id == withheld.request_id:  # it crossed the withdrawal and is valid
            attachment.request_id, attachment.withdrawn_id = attachment.withdrawn_id, ""
        attachment.is_withheld, attachment.holders = True, withheld.holders
        state.attachments.touch(attachment)
    if fact.kind == "device":
        state.hosts.grants.withhold_device(fact.subject_id)
    else:
        state.hosts.grants.withhold_node(fact.subject_id)


@FOLDS.on(("node", "device"), "withhold-withdrawn", WithholdWithdrawn)
def _withdrawn(state: State, _fact: Fact, withdrawn: WithholdWithdrawn) -> None:
    """Fold a withdrawal of the composer. The scheduler ignores one that crossed its answer: then it is repeated."""
    name = state.attachments.withholding.get(withdrawn.request_id)
    if name is None:
        return
    attachment = state.attachments[name]
    state.attachments.touch(attachment)
    if not withdrawn.after_withheld:
        if not attachment.is_withheld:
            attachment.request_id, attachment.withdrawn_id = "", withdrawn.request_id
        return
    del state.attachments.withholding[withdrawn.request_id]
    attachment.request_id, attachment.is_withheld = "", False
    if attachment.phase.is_over:
        state.attachments.drop(attachment)


@FOLDS.on("job", "routed", JobRouted)
def _routed(state: State, fact: Fact, routed: JobRouted) -> None:
    state.hosts.host_resources.describe(fact.subject_id, routed.job.spec)


@FOLDS.on("job", ("placed", "resize-requested", "resized", "pods-started", "pods-exited", "queued"), Payload)
def _held(state: State, fact: Fact, _: Payload) -> None:
    state.hosts.holds.apply(fact)


@FOLDS.on("job", ("succeeded", "failed", "cancelled", "timed-out", "returned"), (JobFinished, JobReturned))
def _ended(state: State, fact: Fact, _: JobFinished | JobReturned) -> None:
    state.hosts.holds.apply(fact)
    state.hosts.host_resources.forget(fact.subject_id)
