"""How facts about nodes, their grants and what jobs hold there change what the composer believes."""

from muster.cluster import HOLD_FACTS
from muster.composer.core.state import Handler, State
from muster.core import Fact
from muster.schemas.facts.device import DetachWish
from muster.schemas.facts.job import JobRouted
from muster.schemas.facts.node import NodeJoined, Withheld, WithholdWithdrawn
from muster.schemas.job import TERMINAL_PHASES


def _joined(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, NodeJoined)
    machine, group = fact.payload.machine, state.config.group_of.get(fact.payload.group)
    if group is not None:
        state.hosts.machines.settle_in(machine, group.fabric, fact.time, young_s=state.bounds.young_s)
    state.hosts.machines.take(machine, fact.subject_id)
    _changed(state, fact)
    _touch_all(state, machine)


def _changed(state: State, fact: Fact) -> None:
    change = state.hosts.nodes.apply(fact)
    if change is not None:
        state.hosts.grants.change_node(change)


def _left(state: State, fact: Fact) -> None:
    description = state.hosts.nodes.description(fact.subject_id)
    if description is None:
        state.anomalies.note("left of no node")
        return
    machine = description.machine
    wish = DetachWish(fact=fact.id, reason=f"node {fact.subject_id} left the cluster", keep=True)
    for name in tuple(state.attachments.on_machine.get(machine, ())):
        attachment = state.attachments[name]
        if not attachment.phase.is_over:
            state.attachments.want_away(attachment, wish)
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


def _node_released(state: State, fact: Fact) -> None:
    state.hosts.grants.release_node(fact.subject_id)
    node = state.hosts.nodes.get(fact.subject_id)
    for uuid in node.shown if node is not None else ():
        _touch_device(state, uuid)


def _device_released(state: State, fact: Fact) -> None:
    state.hosts.grants.release_device(fact.subject_id)
    _touch_device(state, fact.subject_id)


def _touch_device(state: State, uuid: str) -> None:
    name = state.attachments.by_uuid.get(uuid)
    if name is not None:
        state.attachments.touch(state.attachments[name])


def _withheld(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, Withheld)
    name = state.attachments.withholding.get(fact.payload.request_id)
    if name is not None:
        attachment = state.attachments[name]
        if attachment.withdrawn_id == fact.payload.request_id:  # it crossed the withdrawal, and stands
            attachment.request_id, attachment.withdrawn_id = attachment.withdrawn_id, ""
        attachment.is_withheld, attachment.holders = True, fact.payload.holders
        state.attachments.touch(attachment)
    if fact.kind == "device":
        state.hosts.grants.withhold_device(fact.subject_id)
    else:
        state.hosts.grants.withhold_node(fact.subject_id)


def _withdrawn(state: State, fact: Fact) -> None:
    """Ours only. One that crossed its answer is ignored by the scheduler: then it is said again, as answered."""
    assert isinstance(fact.payload, WithholdWithdrawn)
    name = state.attachments.withholding.get(fact.payload.request_id)
    if name is None:
        return
    attachment = state.attachments[name]
    state.attachments.touch(attachment)
    if not fact.payload.after_withheld:
        if not attachment.is_withheld:
            attachment.request_id, attachment.withdrawn_id = "", fact.payload.request_id
        return
    del state.attachments.withholding[fact.payload.request_id]
    attachment.request_id, attachment.is_withheld = "", False
    if attachment.phase.is_over:
        state.attachments.drop(attachment)


def _routed(state: State, fact: Fact) -> None:
    assert isinstance(fact.payload, JobRouted)
    state.hosts.host_resources.describe(fact.subject_id, fact.payload.job.spec)


def _held(state: State, fact: Fact) -> None:
    state.hosts.holds.apply(fact)


def _ended(state: State, fact: Fact) -> None:
    state.hosts.holds.apply(fact)
    state.hosts.host_resources.forget(fact.subject_id)


NODE_HANDLERS: dict[tuple[str, str], Handler] = {
    ("node", "joined"): _joined,
    ("node", "lost"): _changed,
    ("node", "returned"): _changed,
    ("node", "left"): _left,
    ("node", "released"): _node_released,
    ("device", "released"): _device_released,
    **{(kind, "withheld"): _withheld for kind in ("node", "device")},
    **{(kind, "withhold-withdrawn"): _withdrawn for kind in ("node", "device")},
    ("job", "routed"): _routed,
    **{("job", name): _held for name in HOLD_FACTS},
    ("job", "returned"): _ended,  # to the federation: it is another cluster's from here on
    **{("job", phase.value): _ended for phase in TERMINAL_PHASES},
}
