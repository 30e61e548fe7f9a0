"""Answer questions from the state; answers append nothing."""

from muster.composer.core.capacity import Refusal
from muster.composer.core.config import FabricConfig
from muster.composer.core.core import ComposerCore
from muster.composer.core.decision import Tally
from muster.composer.core.nodes import Hosts
from muster.composer.core.plans import Plan, Wait
from muster.composer.core.records import Attachment, Request, pool_of
from muster.composer.core.state import Attachments
from muster.core import Core, Instant
from muster.schemas.base import Wire
from muster.schemas.devices import DeviceView, FabricView, RequestPhase, RequestView
from muster.schemas.queries import (
    AskCompose,
    AskDetach,
    AskFleet,
    DeviceCheckAnswer,
    DevicesAnswer,
    RequestsAnswer,
)


def answer_devices(core: Core, asked: Wire, now: Instant) -> DevicesAnswer:
    """Answer `devices`: attached devices and those in transition, by node, and the fabrics; or one device."""
    composer = _composer(core)
    state = composer.state
    if only := _only(asked):
        owner = state.attachments.by_uuid.get(only)
        alone = state.attachments[owner] if owner is not None else None
        return DevicesAnswer(devices=(device_view(state.hosts, alone),) if alone is not None else ())
    live = [one for one in state.attachments.values() if not one.phase.is_over]
    devices = sorted((device_view(state.hosts, one) for one in live), key=lambda view: (view.node, view.id))
    fabrics = (_fabric_view(composer, config, now) for config in state.config.fabrics)
    return DevicesAnswer(devices=tuple(devices), fabrics=tuple(fabrics))


def answer_requests(core: Core, asked: Wire, now: Instant) -> RequestsAnswer:  # noqa: ARG001 - the port
    """Answer `requests`: ComposabilityRequests, newest first, or one; including those that are not judged yet."""
    state = _composer(core).state
    if only := _only(asked):
        one = state.requests.get(only)
        alone = _request_view(state.attachments, one) if one is not None else None
        return RequestsAnswer(requests=(alone,) if alone is not None else ())
    known = sorted(state.requests.values(), key=lambda request: (-request.since, request.name))
    views = [view for request in known if (view := _request_view(state.attachments, request)) is not None]
    return RequestsAnswer(requests=tuple(views))


def answer_compose_check(core: Core, asked: Wire, now: Instant) -> DeviceCheckAnswer:  # noqa: ARG001 - the port
    """Answer `compose-check`: whether a request would be accepted now. It may be, while a fabric has no survey."""
    assert isinstance(asked, AskCompose)
    found = _composer(core).planner.compose(asked.name, asked.spec, Tally(), may_force=asked.may_force)
    return DeviceCheckAnswer() if isinstance(found, Plan | Wait) else _refused(found)


def answer_detach_check(core: Core, asked: Wire, now: Instant) -> DeviceCheckAnswer:  # noqa: ARG001 - the port
    """Answer `detach-check`: whether a device or request may be detached. A held one may: it goes when it is free."""
    assert isinstance(asked, AskDetach)
    composer = _composer(core)
    if asked.request:
        found = composer.requests.deletion_refusal(asked.request, force=asked.force, may_force=asked.may_force)
        if found is None:
            return DeviceCheckAnswer()
        return _refused(found).model_copy(update={"unknown": found.field == "name"})
    attachments = composer.state.attachments
    name = attachments.by_uuid.get(asked.device_uuid)
    if name is None:
        reason = f"no fabric put device {asked.device_uuid} on a machine"
        return DeviceCheckAnswer(field="device_uuid", reason=reason, unknown=True)
    holders = attachments.hosts.holders(attachments[name])
    if holders and asked.force and not asked.may_force:
        reason = f"{asked.device_uuid} is held by {holders[0]}, and taking it by force needs an operator's role"
        return DeviceCheckAnswer(field="force", reason=reason, holder=holders[0])
    return DeviceCheckAnswer()


def device_view(hosts: Hosts, attachment: Attachment) -> DeviceView:
    """Return the view of one attachment."""
    return DeviceView(
        id=attachment.id,
        type=attachment.requested.type,
        model=attachment.requested.model,
        node=hosts.node_of(attachment),
        fabric=attachment.fabric,
        device_uuid=attachment.device_uuid,
        device_id=attachment.device_id,
        phase=attachment.phase,
        origin=attachment.requested.origin,
        request=attachment.requested.request,
        attempt=attachment.attempt,
        error=attachment.error,
        holders=hosts.holders(attachment) if attachment.has_device else (),
        since=attachment.since,
    )


def _request_view(attachments: Attachments, request: Request) -> RequestView | None:
    if not request.is_live and request.wishes:
        return _waiting_view(request)
    if request.spec is None:
        return None
    return RequestView(
        name=request.name,
        spec=request.spec,
        phase=request.phase,
        error=request.error,
        field=request.field,
        principal=request.principal,
        origin=request.origin,
        jobs=request.jobs,
        resources=tuple(device_view(attachments.hosts, attachments[name]) for name in request.attachments),
        since=request.since,
    )


def _waiting_view(request: Request) -> RequestView | None:
    """Return the view that the request has if it is accepted."""
    pending = next(iter(request.wishes.values()))
    if pending.compose is None:
        return None
    return RequestView(
        name=request.name,
        spec=pending.compose.spec,
        phase=RequestPhase.NODE_ALLOCATING,
        principal=pending.compose.principal,
        since=pending.at,
    )


def _fabric_view(composer: ComposerCore, config: FabricConfig, now: Instant) -> FabricView:
    state = composer.state
    fabric, look = state.fabrics[config.name], composer.surveys.at(config.name)
    return FabricView(
        name=config.name,
        driver=config.driver,
        pool=pool_of(fabric.pool),
        breaker=fabric.breaker_at(now),
        error=look.error or (fabric.error if fabric.retry_at or fabric.failures else ""),
        retry_at=fabric.retry_at,
        in_flight=state.attachments.in_flight(config.name, now),
        limit=config.limit,
        orphans=len(fabric.orphans),
        surveyed_at=look.began_at,
    )


def _refused(found: Refusal) -> DeviceCheckAnswer:
    return DeviceCheckAnswer(field=found.field, reason=found.reason, holder=found.holder)


def _only(asked: Wire) -> str:
    assert isinstance(asked, AskFleet)
    return asked.only


def _composer(core: Core) -> ComposerCore:
    assert isinstance(core, ComposerCore), "the composer's answers come from the composer's core"
    return core
