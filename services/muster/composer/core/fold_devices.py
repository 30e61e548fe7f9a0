"""Fold facts about attachments and fabrics. Folding an intent carries it out."""

from muster.composer.core.fabrics import AttachCall, DetachCall
from muster.composer.core.limits import CROSSING_S, rest_s
from muster.composer.core.records import COUNTED, UNKNOWN_EFFECT, Attachment
from muster.composer.core.state import State
from muster.core import NEVER, Fact, Instant, after
from muster.core.folding import Folds
from muster.schemas.devices import AttachmentPhase, Origin
from muster.schemas.facts.device import (
    AttachmentFailed,
    AttachmentRequested,
    CallFailed,
    CallStarted,
    DetachGivenUp,
    DetachWanted,
    DeviceAttached,
    DeviceDetached,
    DeviceOnline,
    DeviceVisible,
    PendingDetach,
)
from muster.schemas.facts.fabric import (
    BreakerClosed,
    BreakerOpened,
    FabricSurveyed,
    OperatorSeen,
    OrphanFound,
    OrphanReturned,
    OrphanState,
)

FOLDS = Folds[State, None]()


Phase = AttachmentPhase
STOOD_BEFORE = (Origin.FOUND, Origin.ORPHAN)
"""Origins of devices that were on their machine before they were known: they never left the reported pool."""


def _known(state: State, fact: Fact, *phases: Phase) -> Attachment | None:
    attachment = state.attachments.get(fact.subject_id)
    if attachment is None or attachment.phase not in phases:
        state.anomalies.note(f"{fact.name} of {'no attachment' if attachment is None else attachment.phase.value}")
        return None
    attachment.last_fact = fact.id
    return attachment


@FOLDS.on("attachment", "requested", AttachmentRequested)
def _requested(state: State, fact: Fact, requested: AttachmentRequested) -> None:
    known = state.attachments.get(fact.subject_id)
    if known is None:
        known = Attachment(
            requested,
            Phase.REQUESTED,
            id=fact.subject_id,
            requested_at=fact.time,
            since=fact.time,
            last_fact=fact.id,
            trace=fact.trace,
        )
        state.fabrics.ensure(known.fabric)
        state.attachments.add(known)
        return
    known.said, known.last_fact = True, fact.id
    state.attachments.touch(known)


@FOLDS.on("attachment", "attaching", CallStarted)
def _attaching(state: State, fact: Fact, call: CallStarted) -> None:
    attachment = _known(state, fact, Phase.REQUESTED, Phase.ATTACHING)
    if attachment is None:
        return
    _begin(state, attachment, call, Phase.ATTACHING, at=fact.time)
    state.hosts.machines.grow_up(attachment.machine, attachment.fabric)
    state.calls.carry_out(
        AttachCall(
            order=attachment.id,
            attempt=attachment.attempt,
            fabric=attachment.fabric,
            machine=attachment.machine,
            model=attachment.requested.model,
            start_by=_start_by(state, attachment),
            deadline_at=attachment.deadline_at,
            type=attachment.requested.type,
            trace=fact.trace,
        )
    )


@FOLDS.on("attachment", "detaching", CallStarted)
def _detaching(state: State, fact: Fact, call: CallStarted) -> None:
    attachment = _known(state, fact, Phase.WITHHOLDING, Phase.DETACHING)
    if attachment is None:
        return
    _begin(state, attachment, call, Phase.DETACHING, at=fact.time)
    state.calls.carry_out(
        DetachCall(
            order=attachment.id,
            attempt=attachment.attempt,
            fabric=attachment.fabric,
            machine=attachment.machine,
            device_id=attachment.device_id,
            start_by=_start_by(state, attachment),
            deadline_at=attachment.deadline_at,
            type=attachment.requested.type,
            trace=fact.trace,
        )
    )


def _begin(state: State, attachment: Attachment, call: CallStarted, phase: Phase, *, at: Instant) -> None:
    attachment.phase, attachment.since = phase, at
    attachment.attempt, attachment.deadline_at = call.attempt, Instant(call.deadline_at)
    attachment.failure, attachment.retry_at = None, NEVER
    state.fabrics.ensure(attachment.fabric)
    state.attachments.begin_call(attachment)
    state.attachments.touch(attachment)


def _start_by(state: State, attachment: Attachment) -> Instant:
    """Return the deadline less one call, so that a call that begins has its whole time."""
    config = state.config.fabric_of.get(attachment.fabric)
    return after(attachment.deadline_at, -config.call_s) if config is not None else NEVER


@FOLDS.on("attachment", ("attach-failed", "detach-failed"), CallFailed)
def _call_failed(state: State, fact: Fact, failed: CallFailed) -> None:
    phase = Phase.ATTACHING if fact.name == "attach-failed" else Phase.DETACHING
    attachment = _known(state, fact, phase)
    if attachment is None:
        return
    attachment.failure, attachment.error = failed.failure, failed.error
    attachment.retry_at, attachment.failed_at = Instant(failed.retry_at), fact.time
    if failed.failure not in UNKNOWN_EFFECT:
        state.attachments.end_call(attachment)
    fabric = state.fabrics.ensure(attachment.fabric)
    if failed.failure in COUNTED and attachment.since > fabric.opened_at:  # older calls are behind its breaker
        fabric.failures += 1
        fabric.error, fabric.failure = failed.error, failed.failure
    state.calls.acknowledge(attachment.id, failed.attempt)
    state.attachments.touch(attachment)


@FOLDS.on("attachment", "attached", DeviceAttached)
def _attached(state: State, fact: Fact, device: DeviceAttached) -> None:
    attachment = _known(state, fact, Phase.REQUESTED, Phase.ATTACHING)
    if attachment is None:
        return
    state.attachments.unreserve(attachment)
    state.attachments.end_call(attachment)
    attachment.device_uuid, attachment.device_id = device.device_uuid, device.device_id
    attachment.memory_mib = device.memory_mib
    attachment.phase, attachment.since = Phase.ATTACHED, fact.time
    attachment.failure, attachment.retry_at, attachment.error = None, NEVER, ""
    origin, fabric = attachment.requested.origin, state.fabrics.ensure(attachment.fabric)
    state.attachments.own(attachment)
    if origin not in STOOD_BEFORE:
        fabric.move(attachment.kind, free=-1, attached=1)
        fabric.moved_at = fact.time
    if not device.adopted:
        fabric.failures, fabric.succeeded_at = 0, fact.time
    if origin is Origin.ORPHAN:
        reason = "nobody asked for it"
        attachment.wish = PendingDetach(fact=fact.id, reason=reason, keep=True, trace=fact.trace)
    if attachment.attempt:
        state.calls.acknowledge(attachment.id, attachment.attempt)
    state.attachments.touch(attachment)


@FOLDS.on("attachment", ("visible", "online"), (DeviceVisible, DeviceOnline))
def _step(state: State, fact: Fact, _: DeviceVisible | DeviceOnline) -> None:
    before, now = (Phase.ATTACHED, Phase.VISIBLE) if fact.name == "visible" else (Phase.VISIBLE, Phase.ONLINE)
    attachment = _known(state, fact, before)
    if attachment is not None:
        attachment.phase, attachment.since = now, fact.time
        state.attachments.touch(attachment)


@FOLDS.on("attachment", "detach-wanted", DetachWanted)
def _detach_wanted(state: State, fact: Fact, wanted: DetachWanted) -> None:
    attachment = _known(state, fact, Phase.ATTACHED, Phase.VISIBLE, Phase.ONLINE, Phase.WITHHOLDING)
    if attachment is None:
        return
    if attachment.phase is Phase.WITHHOLDING:  # the same once more, with force
        attachment.force, attachment.wanted_at = wanted.force, fact.time
        state.attachments.touch(attachment)
        return
    for request_id in (attachment.request_id, attachment.withdrawn_id):
        state.attachments.withholding.pop(request_id, None)
    attachment.withdrawn_id = ""
    request = state.requests.get(attachment.requested.request)
    if request is not None and request.all_or_nothing and not (request.was_running or request.deleting):
        request.error = request.error or wanted.reason or "one of its devices goes"
    attachment.before, attachment.phase = attachment.phase, Phase.WITHHOLDING
    attachment.since = attachment.wanted_at = fact.time
    attachment.request_id, attachment.force = wanted.request_id, wanted.force
    attachment.is_withheld, attachment.holders = False, ()
    attachment.withholds += 1
    attachment.attempts_before = attachment.attempt
    attachment.failure, attachment.retry_at = None, NEVER
    attachment.error = "" if attachment.wish is not None else wanted.reason
    if fact.trace:
        attachment.trace = fact.trace
    state.attachments.withholding[attachment.request_id] = attachment.id
    state.attachments.touch(attachment)


@FOLDS.on("attachment", "detach-given-up", DetachGivenUp)
def _detach_given_up(state: State, fact: Fact, given_up: DetachGivenUp) -> None:
    attachment = _known(state, fact, Phase.WITHHOLDING, Phase.DETACHING)
    if attachment is None:
        return
    before = attachment.before or Phase.ATTACHED
    if before is Phase.ONLINE and attachment.is_withheld:
        before = Phase.VISIBLE  # the scheduler says `released` once more
    state.attachments.touch(attachment)
    state.attachments.end_call(attachment)
    attachment.phase, attachment.since, attachment.before = before, fact.time, None
    attachment.failure, attachment.error = None, given_up.reason
    attachment.retry_at = after(fact.time, rest_s(attachment.withholds))
    request = attachment.wish
    if request is not None and request.fact not in fact.causes:  # it was asked meanwhile, and not what was given up
        attachment.retry_at = after(fact.time, CROSSING_S)
    elif request is not None and not request.keep:
        attachment.wish = None


@FOLDS.on("attachment", "detached", DeviceDetached)
def _detached(state: State, fact: Fact, _: DeviceDetached) -> None:
    attachment = _known(state, fact, Phase.DETACHING)
    if attachment is None:
        return
    request = state.requests.get(attachment.requested.request)
    if request is not None and attachment.wish is None and not request.deleting:
        request.error = request.error or attachment.error  # no request removed it: it was lost
    state.attachments.finish(attachment, Phase.DETACHED, fact.time)
    state.attachments.disown(attachment, fact.time)
    fabric = state.fabrics.ensure(attachment.fabric)
    fabric.move(attachment.kind, free=1, attached=-1)
    fabric.failures, fabric.succeeded_at, fabric.moved_at = 0, fact.time, fact.time
    state.calls.acknowledge(attachment.id, attachment.attempt)
    if attachment.is_gpu or not attachment.is_withheld:
        state.attachments.drop(attachment)  # else its node is drained, until it no longer shows it


@FOLDS.on("attachment", "failed", AttachmentFailed)
def _failed(state: State, fact: Fact, failed: AttachmentFailed) -> None:
    attachment = _known(state, fact, Phase.REQUESTED, Phase.ATTACHING)
    if attachment is None:
        return
    request = state.requests.get(attachment.requested.request)
    if request is not None and not request.deleting:
        request.error = request.error or failed.reason
    state.attachments.unreserve(attachment)
    state.attachments.finish(attachment, Phase.FAILED, fact.time)
    if attachment.attempt:
        state.calls.acknowledge(attachment.id, attachment.attempt)
    state.attachments.drop(attachment)


@FOLDS.on("fabric", "surveyed", FabricSurveyed)
def _surveyed(state: State, fact: Fact, surveyed: FabricSurveyed) -> None:
    fabric = state.fabrics.ensure(fact.subject_id)
    fabric.pool = {(model.type, model.model): model for model in surveyed.pool}
    fabric.surveyed, fabric.last_fact, fabric.since = True, fact.id, fact.time
    for name, request in state.requests.items():
        if request.wishes:
            state.worklist.look_request(name)


@FOLDS.on("fabric", "breaker-opened", BreakerOpened)
def _breaker_opened(state: State, fact: Fact, opened: BreakerOpened) -> None:
    fabric = state.fabrics.ensure(fact.subject_id)
    fabric.opened_at, fabric.retry_at = fact.time, Instant(opened.retry_at)
    fabric.error, fabric.failures, fabric.last_fact = opened.error, 0, fact.id


@FOLDS.on("fabric", "breaker-closed", BreakerClosed)
def _breaker_closed(state: State, fact: Fact, _: BreakerClosed) -> None:
    fabric = state.fabrics.ensure(fact.subject_id)
    fabric.opened_at = fabric.retry_at = NEVER
    fabric.error, fabric.failures, fabric.last_fact = "", 0, fact.id


@FOLDS.on("fabric", "orphan-found", OrphanFound)
def _orphan_found(state: State, fact: Fact, found: OrphanFound) -> None:
    state.fabrics.ensure(fact.subject_id).orphans[found.device_id] = OrphanState(
        device_id=found.device_id,
        device_uuid=found.device_uuid,
        machine=found.machine,
        model=found.model,
        type=found.type,
        memory_mib=found.memory_mib,
        at=fact.time,
        fact=fact.id,
    )


@FOLDS.on("fabric", "orphan-returned", OrphanReturned)
def _orphan_returned(state: State, fact: Fact, returned: OrphanReturned) -> None:
    if state.fabrics.ensure(fact.subject_id).orphans.pop(returned.device_id, None) is None:
        state.anomalies.note("return of no orphan")


@FOLDS.on("fabric", "operator-seen", OperatorSeen)
def _operator_seen(state: State, fact: Fact, seen: OperatorSeen) -> None:
    state.fabrics.ensure(fact.subject_id).operator = seen
