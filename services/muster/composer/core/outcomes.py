"""What calls came to, as facts; when a call that failed is made again."""

from muster.composer.core.fabrics import AttachDone, CallWentWrong, DetachDone, Outcome
from muster.composer.core.limits import ERROR_CHARS_MAX, SKEW_S
from muster.composer.core.records import UNKNOWN_EFFECT, Attachment
from muster.composer.core.state import State
from muster.composer.core.turn import Turn
from muster.core import NEVER, Instant, after
from muster.core.seeded import uniform
from muster.fabric.checked import check_device
from muster.fabric.driver import FabricNonsenseError, MachineDevice
from muster.schemas.devices import AttachmentPhase
from muster.schemas.facts.device import (
    CallFailed,
    CallFailure,
    DeviceAttached,
    DeviceDetached,
)


def settle(state: State, seen: Outcome, turn: Turn) -> None:
    """Tell what a call came to, unless it was settled otherwise."""
    attachment = state.attachments.get(seen.order)
    if attachment is None or attachment.attempt != seen.attempt or not attachment.is_calling:
        state.calls.acknowledge(seen.order, seen.attempt)
    elif not turn.is_full:
        _tell(state, attachment, seen, turn)


def _tell(state: State, attachment: Attachment, seen: Outcome, turn: Turn) -> None:
    match seen:
        case AttachDone():
            try:
                device = _new_one(state, attachment, seen, turn)
            except FabricNonsenseError as error:
                fail(state, attachment, error.failure, str(error), turn)
                return
            if device is None:
                fail(state, attachment, CallFailure.ABANDONED, "every device that was named has another owner", turn)
                return
            attach(attachment, device, turn, took_s=seen.took_s)
        case DetachDone():
            detach(state, attachment, turn, was_gone=seen.was_gone, took_s=seen.took_s)
        case CallWentWrong():
            fail(state, attachment, seen.failure, seen.error, turn)


def attach(
    attachment: Attachment, device: MachineDevice, turn: Turn, *, took_s: float = 0.0, adopted: bool = False
) -> None:
    """The device is this attachment's."""
    turn.claimed.add((attachment.fabric, device.device_id))
    payload = DeviceAttached(
        device_uuid=device.device_uuid or device.device_id,
        device_id=device.device_id,
        node=attachment.requested.node,
        machine=attachment.machine,
        type=attachment.requested.type,
        model=attachment.requested.model,
        memory_mib=device.memory_mib,
        adopted=adopted,
        took_s=took_s,
    )
    turn.say(attachment, "attached", payload)


def detach(state: State, attachment: Attachment, turn: Turn, *, was_gone: bool, took_s: float = 0.0) -> None:
    """The device is in the pool again."""
    payload = DeviceDetached(
        device_uuid=attachment.device_uuid,
        device_id=attachment.device_id,
        node=state.node_of(attachment),
        type=attachment.requested.type,
        memory_mib=attachment.memory_mib,
        was_gone=was_gone,
        took_s=took_s,
    )
    turn.say(attachment, "detached", payload)


def fail(state: State, attachment: Attachment, failure: CallFailure, error: str, turn: Turn) -> None:
    """A call of it went wrong."""
    name = "attach-failed" if attachment.phase is AttachmentPhase.ATTACHING else "detach-failed"
    retry_at = _retry_at(state, attachment, failure, turn.now)
    payload = CallFailed(attempt=attachment.attempt, failure=failure, error=error[:ERROR_CHARS_MAX], retry_at=retry_at)
    turn.say(attachment, name, payload)


def overdue_at(state: State, attachment: Attachment) -> Instant:
    """When no further call is begun in the present direction."""
    bounds = state.bounds
    if attachment.phase in (AttachmentPhase.WITHHOLDING, AttachmentPhase.DETACHING):
        return after(attachment.wanted_at, withhold_s(state, attachment) + bounds.detach_s_max)
    return after(attachment.requested_at, bounds.attach_s_max)


def withhold_s(state: State, attachment: Attachment) -> float:
    """How long the scheduler may take to withhold it."""
    is_scaler = attachment.wish is not None and bool(attachment.wish.scale)
    return state.bounds.scaler_withhold_s if is_scaler else state.bounds.withhold_s_max


def _retry_at(state: State, attachment: Attachment, failure: CallFailure, now: Instant) -> Instant:
    """Not before this, with the backoff doubled each time and drawn from its upper half; NEVER: that was the last."""
    bounds, attempt = state.bounds, attachment.calls
    is_attaching = attachment.phase is AttachmentPhase.ATTACHING
    if failure is CallFailure.REFUSED or attempt >= bounds.attempts_max or (is_attaching and attachment.wish):
        return NEVER
    backoff_s = min(bounds.backoff_s_max, bounds.backoff_s * 2 ** (attempt - 1))
    retry_at = after(now, backoff_s * (0.5 + 0.5 * uniform(0, attachment.id, attachment.attempt)))
    if failure in UNKNOWN_EFFECT:
        retry_at = max(retry_at, after(attachment.deadline_at, SKEW_S))
    return NEVER if retry_at > overdue_at(state, attachment) else retry_at


def _new_one(state: State, attachment: Attachment, done: AttachDone, turn: Turn) -> MachineDevice | None:
    """The first that nobody has. One that was taken away since the intent may be named from before that.

    Raises FabricNonsenseError for one that no fact could hold.
    """
    for device in done.candidates:
        check_device(device, what=f"machine {attachment.machine}")
        key = attachment.fabric, device.device_id
        if (device.type, device.model) != attachment.kind or key in state.by_device or key in turn.claimed:
            continue
        if state.fabrics[attachment.fabric].away_at(device.device_id) <= attachment.since:
            return device
    return None
