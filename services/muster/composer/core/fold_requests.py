"""Fold requests of people and of the scaler."""

from muster.composer.core.records import Attachment, Request
from muster.composer.core.state import State
from muster.core import Fact
from muster.core.folding import Folds
from muster.schemas.devices import AttachmentPhase, Origin, RequestPhase
from muster.schemas.facts.composability import (
    ComposeRequested,
    DecomposeRequested,
    DetachRequested,
    PendingRequestChange,
    RequestAccepted,
    RequestEnded,
    RequestMoved,
    RequestRefused,
)
from muster.schemas.facts.device import AttachmentRequested, PendingDetach
from muster.schemas.facts.scale import ScaleChosen, ScaleEnded

FOLDS = Folds[State, None]()


@FOLDS.on("composability", ("compose-requested", "compose-forwarded"), ComposeRequested)
def _compose_asked(state: State, fact: Fact, asked: ComposeRequested) -> None:
    _wish(state, fact, PendingRequestChange(fact=fact.id, at=fact.time, compose=asked, trace=fact.trace))


@FOLDS.on("composability", ("decompose-requested", "decompose-forwarded"), DecomposeRequested)
def _decompose_asked(state: State, fact: Fact, asked: DecomposeRequested) -> None:
    _wish(state, fact, PendingRequestChange(fact=fact.id, at=fact.time, decompose=asked, trace=fact.trace))


@FOLDS.on("device", "detach-forwarded", DetachRequested)
def _detach_forwarded(state: State, fact: Fact, asked: DetachRequested) -> None:
    """Fold a detachment. Without the right to force, it waits, and is given up if the device stays held."""
    name = state.attachments.by_uuid.get(fact.subject_id)
    if name is None:
        state.anomalies.note("detach of no device")
        return
    force = asked.force and asked.may_force
    reason = asked.reason or f"{asked.principal} asked for it"
    request = PendingDetach(fact=fact.id, reason=reason, force=force, trace=fact.trace)
    state.attachments.want_away(state.attachments[name], request)


@FOLDS.on("scale", ("gpu-attach-chosen", "gpu-remove-chosen"), ScaleChosen)
def _chosen(state: State, fact: Fact, chosen: ScaleChosen) -> None:
    """Fold a decision of the scaler: devices to detach, and devices to attach as an all-or-nothing request."""
    is_whole = True
    for uuid in chosen.devices:
        name = state.attachments.by_uuid.get(uuid)
        if name is None:
            is_whole = False
            continue
        request = PendingDetach(fact=fact.id, reason=chosen.reason, scale=fact.subject_id, trace=fact.trace)
        state.attachments.want_away(state.attachments[name], request)
    if chosen.parts or not is_whole:
        _wish(state, fact, PendingRequestChange(fact=fact.id, at=fact.time, chosen=chosen, trace=fact.trace))


@FOLDS.on("scale", "ended", ScaleEnded)
def _choice_ended(state: State, fact: Fact, ended: ScaleEnded) -> None:
    """Fold the end of a decision: open parts are void, and devices of an incomplete one go back.

    The scaler may decide again for the same jobs at once, and only one decision may bring their devices.
    """
    request = state.requests.get(fact.subject_id)
    if request is None:
        return
    request.wishes = {name: pending for name, pending in request.wishes.items() if pending.chosen is None}
    if request.is_live:
        if ended.failed and request.all_or_nothing and not (request.was_running or request.deleting):
            request.error = request.error or ended.reason or "its choice ended"
    elif request.spec is None and not request.wishes:
        state.requests.forget(request.name)
    state.worklist.look_request(request.name)


def _wish(state: State, fact: Fact, request: PendingRequestChange) -> None:
    state.requests.ensure(fact.subject_id).wishes[request.fact] = request
    state.worklist.look_request(fact.subject_id)


def _answered(request: Request, fact: Fact) -> PendingRequestChange | None:
    """Return and remove the request that this fact answers."""
    return next((pending for cause in fact.causes if (pending := request.wishes.pop(cause, None)) is not None), None)


@FOLDS.on("composability", "accepted", RequestAccepted)
def _accepted(state: State, fact: Fact, accepted: RequestAccepted) -> None:
    request = state.requests.ensure(fact.subject_id)
    pending = _answered(request, fact)
    if not request.is_live:
        request = state.requests.renew(fact.subject_id)
    request.spec, request.principal, request.origin = accepted.spec, accepted.principal, accepted.origin
    request.jobs, request.scale, request.all_or_nothing = accepted.jobs, accepted.scale, accepted.all_or_nothing
    request.may_force = pending is not None and pending.compose is not None and pending.compose.may_force
    request.phase, request.since, request.last_fact = RequestPhase.UPDATING, fact.time, fact.id
    request.error = request.field = ""
    if pending is None and accepted.origin is Origin.SCALER:
        request.error = "its choice ended before it was accepted"
    request.trace = fact.trace or request.trace
    for order in accepted.orders:
        requested = AttachmentRequested(
            request=request.name,
            type=accepted.spec.type,
            model=order.model or accepted.spec.model,
            node=order.node,
            fabric=order.fabric,
            machine=order.machine,
            origin=accepted.origin,
            jobs=accepted.jobs,
        )
        state.fabrics.ensure(order.fabric)
        state.attachments.add(
            Attachment(
                requested, AttachmentPhase.REQUESTED, id=order.id, requested_at=fact.time, since=fact.time,
                last_fact=fact.id, trace=fact.trace, said=False,
            )
        )  # fmt: skip
    force = accepted.spec.force_detach and request.may_force
    less = PendingDetach(fact=fact.id, reason="the request asks for fewer", force=force, keep=True, trace=fact.trace)
    for name in accepted.devices:
        attachment = state.attachments.get(name)
        if attachment is not None:
            state.attachments.want_away(attachment, less)
    state.worklist.look_request(request.name)


@FOLDS.on("composability", "refused", RequestRefused)
def _refused(state: State, fact: Fact, refused: RequestRefused) -> None:
    request = state.requests.ensure(fact.subject_id)
    _answered(request, fact)
    request.last_fact = fact.id
    state.worklist.look_request(request.name)
    if request.is_live:
        if not request.all_or_nothing:  # there an error means that it could not be had
            request.error, request.field = refused.reason, refused.field
        return
    request = state.requests.renew(fact.subject_id)
    request.spec, request.principal = refused.spec, refused.principal
    request.error, request.field, request.last_fact = refused.reason, refused.field, fact.id
    state.requests.end(request, RequestPhase.REFUSED, fact.time)


@FOLDS.on("composability", "moved", RequestMoved)
def _moved(state: State, fact: Fact, moved: RequestMoved) -> None:
    request = state.requests.get(fact.subject_id)
    if request is None or not request.is_live:
        state.anomalies.note("moved of no request")
        return
    pending = _answered(request, fact)
    request.phase, request.error, request.last_fact = moved.phase, moved.error, fact.id
    request.since = fact.time
    request.was_running = request.was_running or moved.phase is RequestPhase.RUNNING
    if moved.phase is RequestPhase.CLEANING:
        request.deleting = True
        request.failed = pending is None
        _give_back(state, request, pending, fact, moved)
    state.worklist.look_request(request.name)


def _give_back(
    state: State, request: Request, pending: PendingRequestChange | None, fact: Fact, moved: RequestMoved
) -> None:
    """Detach all its devices; those of an incomplete decision stay with the jobs that hold them."""
    asked = pending.decompose if pending is not None else None
    wants_force = asked is not None and (asked.force or (request.spec is not None and request.spec.force_detach))
    reason = asked.reason if asked is not None else moved.error
    away = PendingDetach(
        fact=fact.id,
        reason=reason or "the request is deleted",
        force=wants_force and asked is not None and asked.may_force,
        keep=not (request.failed and request.all_or_nothing),
        trace=fact.trace,
    )
    for name in tuple(request.attachments):
        state.attachments.want_away(state.attachments[name], away)


@FOLDS.on("composability", "ended", RequestEnded)
def _ended(state: State, fact: Fact, ended: RequestEnded) -> None:
    request = state.requests.get(fact.subject_id)
    if request is None or not request.is_live:
        state.anomalies.note("end of no request")
        return
    request.failed, request.error = ended.failed, ended.reason
    request.last_fact = fact.id
    state.requests.end(request, RequestPhase.ENDED, fact.time)
    state.worklist.look_request(request.name)
