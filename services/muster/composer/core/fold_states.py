"""How the parts of a checkpoint, which come in any order, become what the composer believes; and its own part."""

from collections.abc import Iterator

from muster.composer.core.handlers import Handler
from muster.composer.core.records import Attachment, Fabric, Request, pool_of
from muster.composer.core.state import State
from muster.core import Draft, Fact, Instant
from muster.schemas.devices import RequestPhase
from muster.schemas.facts.composability import RequestState
from muster.schemas.facts.device import AttachmentState
from muster.schemas.facts.fabric import FabricState
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import GrantState, NodeState
from muster.schemas.registry import STATE_NAME


def _state_recorded(state: State, fact: Fact) -> None:
    state.kinds_on.clear()
    match fact.payload:
        case AttachmentState():
            attachment = Attachment.of(fact.subject_id, fact.payload)
            state.fabric(attachment.fabric)
            state.add(attachment)
        case RequestState():
            _load_request(state, fact.subject_id, fact.payload)
        case FabricState():
            _load_fabric(state.fabric(fact.subject_id), fact.payload)
            state.nodes.load_machines(fact.subject_id, fact.payload.machines)
        case NodeState(description=description, lost=lost):
            state.nodes.load(fact.subject_id, description, is_lost=lost)
        case GrantState():
            state.nodes.load_grant(fact.kind, fact.subject_id, fact.payload)
        case JobState() as job:
            _load_job(state, job)
        case _:
            return  # another service's view of its own subjects


def _load_job(state: State, job: JobState) -> None:
    if job.phase.is_terminal:
        return
    state.holdings.describe(job.job.id, job.job.spec)
    state.holdings.take(job.job.id, job.slots)
    if job.resize is not None:
        state.holdings.take(job.job.id, job.resize.slots)


def _load_request(state: State, name: str, stored: RequestState) -> None:
    request = state.request(name)
    request.spec, request.phase, request.error, request.field = stored.spec, stored.phase, stored.error, stored.field
    request.principal, request.origin, request.jobs = stored.principal, stored.origin, stored.jobs
    request.scale, request.all_or_nothing, request.deleting = stored.scale, stored.all_or_nothing, stored.deleting
    request.was_running = stored.was_running
    request.failed, request.force, request.may_force = stored.failed, stored.force, stored.may_force
    request.since, request.last_fact, request.trace = Instant(stored.since), stored.last_fact, stored.trace
    request.wishes = {wish.fact: wish for wish in stored.wishes}
    if request.phase in (RequestPhase.REFUSED, RequestPhase.ENDED):
        state.end_request(request, request.phase, request.since)
    state.marks.look_request(name)


def _load_fabric(fabric: Fabric, stored: FabricState) -> None:
    fabric.pool = {(model.type, model.model): model for model in stored.pool}
    fabric.is_surveyed, fabric.failures, fabric.error = stored.surveyed, stored.failures, stored.error
    fabric.opened_at, fabric.retry_at = Instant(stored.opened_at), Instant(stored.retry_at)
    fabric.orphans = {orphan.device_id: orphan for orphan in stored.orphans}
    fabric.since, fabric.last_fact = Instant(stored.since), stored.last_fact
    fabric.failure, fabric.succeeded_at = stored.failure, Instant(stored.succeeded_at)
    fabric.moved_at = Instant(stored.moved_at)
    for device in stored.away:
        fabric.take_away(device)
    fabric.operator = stored.operator


def state_drafts(state: State) -> Iterator[Draft]:
    """The composer's part of a checkpoint. Requests come in the order in which they ended."""
    for request in sorted(state.requests.values(), key=lambda request: request.since):
        if request.spec is not None or request.wishes or request.error:
            yield Draft("composability", request.name, STATE_NAME, _request_state(request), trace=request.trace)
    for attachment in state.attachments.values():
        yield Draft("attachment", attachment.id, STATE_NAME, attachment.state(), trace=attachment.trace)
    for fabric in state.fabrics.values():
        yield Draft("fabric", fabric.name, STATE_NAME, _fabric_state(state, fabric))


def _request_state(request: Request) -> RequestState:
    return RequestState(
        spec=request.spec,
        phase=request.phase,
        error=request.error,
        field=request.field,
        principal=request.principal,
        origin=request.origin,
        jobs=request.jobs,
        scale=request.scale,
        all_or_nothing=request.all_or_nothing,
        deleting=request.deleting,
        force=request.force,
        may_force=request.may_force,
        since=request.since,
        last_fact=request.last_fact,
        trace=request.trace,
        failed=request.failed,
        was_running=request.was_running,
        wishes=tuple(request.wishes.values()),
    )


def _fabric_state(state: State, fabric: Fabric) -> FabricState:
    return FabricState(
        pool=pool_of(fabric.pool),
        surveyed=fabric.is_surveyed,
        failures=fabric.failures,
        opened_at=fabric.opened_at,
        retry_at=fabric.retry_at,
        error=fabric.error,
        orphans=tuple(fabric.orphans.values()),
        since=fabric.since,
        last_fact=fabric.last_fact,
        failure=fabric.failure,
        succeeded_at=fabric.succeeded_at,
        moved_at=fabric.moved_at,
        machines=tuple(state.nodes.machines(fabric.name)),
        away=tuple(fabric.away.values()),
        operator=fabric.operator,
    )


HANDLERS: dict[tuple[str, str], Handler] = {
    (kind, "state-recorded"): _state_recorded
    for kind in ("attachment", "composability", "fabric", "node", "device", "job")
}
