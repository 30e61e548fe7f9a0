"""Checkpoints: restore all parts, which come in any order, and write the composer's own."""

from collections.abc import Iterator

from muster.composer.core.records import Attachment, Fabric, Request
from muster.composer.core.state import Handler, State
from muster.core import Draft, Fact
from muster.schemas.devices import RequestPhase
from muster.schemas.facts.composability import RequestState
from muster.schemas.facts.device import AttachmentState
from muster.schemas.facts.fabric import FabricState
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import GrantState, NodeState
from muster.schemas.registry import STATE_NAME


def _state_recorded(state: State, fact: Fact) -> None:
    state.attachments.kinds_on.clear()
    match fact.payload:
        case AttachmentState():
            attachment = Attachment.restored(fact.payload, id=fact.subject_id)
            state.fabrics.ensure(attachment.fabric)
            state.attachments.add(attachment)
        case RequestState():
            _load_request(state, fact.subject_id, fact.payload)
        case FabricState():
            _load_fabric(state, fact.subject_id, fact.payload)
        case NodeState(description=description):
            state.hosts.nodes.apply(fact)
            state.hosts.machines.take(description.machine, fact.subject_id)
        case GrantState():
            state.hosts.grants.load(fact.kind, fact.subject_id, fact.payload)
        case JobState() as job:
            if not job.phase.is_terminal:
                state.hosts.host_resources.describe(fact.subject_id, job.job.spec)
            state.hosts.holds.apply(fact)
        case _:
            return  # another service's view of its own subjects


def _load_request(state: State, name: str, stored: RequestState) -> None:
    request = Request.restored(stored, name=name, attachments=state.requests.ensure(name).attachments)
    state.requests.put(request)
    if request.phase in (RequestPhase.REFUSED, RequestPhase.ENDED):
        state.requests.end(request, request.phase, request.since)
    state.worklist.look_request(name)


def _load_fabric(state: State, name: str, stored: FabricState) -> None:
    state.fabrics.put(Fabric.restored(stored, name=name))
    state.hosts.machines.load(name, stored.machines)


def state_drafts(state: State) -> Iterator[Draft]:
    """The composer's part of a checkpoint. Requests come in the order in which they ended."""
    for request in sorted(state.requests.values(), key=lambda request: request.since):
        if request.spec is not None or request.wishes or request.error:
            yield Draft("composability", request.name, STATE_NAME, request.as_body(RequestState), trace=request.trace)
    for attachment in state.attachments.values():
        body = attachment.as_body(AttachmentState)
        yield Draft("attachment", attachment.id, STATE_NAME, body, trace=attachment.trace)
    for fabric in state.fabrics.values():
        yield Draft("fabric", fabric.name, STATE_NAME, _fabric_state(state, fabric))


def _fabric_state(state: State, fabric: Fabric) -> FabricState:
    body = fabric.as_body(FabricState)
    body.pool = dict(sorted(body.pool.items()))
    body.machines = tuple(state.hosts.machines.stored(fabric.name))
    return body


STATE_HANDLERS: dict[tuple[str, str], Handler] = {
    (kind, "state-recorded"): _state_recorded
    for kind in ("attachment", "composability", "fabric", "node", "device", "job")
}
