"""Facts of one composable device each (kind `attachment`), from its request to its end. Written by the composer."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import NEVER, InstantNs, JobId, Label, Payload, RecordedInstant, Text, Wire
from muster.schemas.devices import GPU, AttachmentPhase, Origin
from muster.schemas.record import StateRecord


class AttachmentRequested(Payload):
    """`requested`: a device is to be attached to this node. Found devices and orphans start here, too; `attached`
    follows."""

    request: str = ""
    type: Label = GPU
    model: Label
    node: str
    fabric: Label
    machine: Label
    origin: Origin = Origin.REQUEST
    jobs: tuple[JobId, ...] = ()


class CallFailure(StrEnum):
    """The failure of a call to a fabric manager.

    timeout: the outcome is unknown. refused: not carried out, and it will not be. unavailable: not carried out, but
    it may be later. nonsense: the answer cannot be understood, so the outcome is unknown. abandoned: the caller is
    gone (another leader leads), so the outcome is unknown.
    """

    TIMEOUT = "timeout"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    NONSENSE = "nonsense"
    ABANDONED = "abandoned"


class CallStarted(Payload):
    """`attaching`, `detaching`: the intent, before the call. deadline_at: until then the call may still take effect.

    device_id, device_uuid: the device to detach. forced, holders: jobs used it, and the request was forced.
    """

    attempt: Annotated[int, Field(ge=1)]
    deadline_at: InstantNs
    device_id: str = ""
    device_uuid: str = ""
    forced: bool = False
    holders: tuple[str, ...] = ()


class CallFailed(Payload):
    """`attach-failed`, `detach-failed`: one call failed. retry_at: earliest time of the next call; 0: there is none."""

    attempt: int
    failure: CallFailure
    error: Text = ""
    retry_at: InstantNs = 0


class DeviceAttached(Payload):
    """`attached`: the fabric reports the device as attached. adopted: found there, after a call with an unknown
    outcome. node, machine, type, model: where and which device. memory_mib: of a memory device."""

    device_uuid: Label
    device_id: Label
    node: str
    machine: str = ""
    type: Label = GPU
    model: str = ""
    memory_mib: int = 0
    adopted: bool = False
    took_s: float = 0.0


class DeviceVisible(Payload):
    """`visible`: its node shows the device."""


class DeviceOnline(Payload):
    """`online`: the scheduler has made it schedulable. took_s: time since it was requested."""

    took_s: float = 0.0


class DetachWanted(Payload):
    """`detach-wanted`: the device is to be detached; the scheduler is asked to drain it under `request_id`."""

    request_id: Label
    reason: Text = ""
    force: bool = False


class DetachGivenUp(Payload):
    """`detach-given-up`: the device stays attached and becomes schedulable again."""

    reason: Text = ""


class DeviceDetached(Payload):
    """`detached`: the device is back in the pool. was_gone: it was no longer attached before the call."""

    device_uuid: str = ""
    device_id: str = ""
    node: str = ""
    type: Label = GPU
    memory_mib: int = 0
    was_gone: bool = False
    took_s: float = 0.0


class AttachmentFailed(Payload):
    """`failed`: the device was not attached and will not be."""

    failure: CallFailure | None = None
    reason: Text = ""


class PendingDetach(Wire):
    """A request to detach a device. fact: id of its fact. scale: the scaler's decision, "" if another service asks.

    keep: the request outlives a detachment that was given up; otherwise it must be repeated.
    """

    fact: str = ""
    reason: Text = ""
    force: bool = False
    scale: str = ""
    keep: bool = False
    trace: str = ""


@dataclass(slots=True)
class AttachmentState(StateRecord):
    """`state-recorded` of an attachment: one device of a request, from the request to its return."""

    requested: AttachmentRequested
    phase: AttachmentPhase
    device_uuid: str = ""
    """The uuid that nodes show; "" while it has no device."""
    device_id: str = ""
    """The id that the fabric uses; "" while it has no device."""
    memory_mib: int = 0
    """Size of a memory device."""
    attempt: int = 0
    """Number of the newest call."""
    deadline_at: RecordedInstant = NEVER
    """Until then the newest call may take effect."""
    retry_at: RecordedInstant = NEVER
    """Earliest time of the next call, also of the next attempt to detach."""
    failure: CallFailure | None = None
    """The failure of the newest call."""
    error: Text = ""
    request_id: str = ""
    """Id of the request to the scheduler to drain the device."""
    force: bool = False
    """It is detached although jobs use it."""
    is_withheld: bool = False
    """The device is drained under `request_id`."""
    requested_at: RecordedInstant = NEVER
    since: RecordedInstant = NEVER
    """When it entered this phase."""
    last_fact: str = ""
    """Id of the newest fact that changed it."""
    trace: str = ""
    said: bool = True
    """`requested` is in the log."""
    failed_at: RecordedInstant = NEVER
    """When the newest call failed."""
    attempts_before: int = 0
    """Calls made before the present direction (attach or detach)."""
    withholds: int = 0
    """Number of requests to drain the device."""
    holders: tuple[str, ...] = ()
    """Jobs that used it when it was detached by force."""
    wish: PendingDetach | None = None
    """The request to detach it."""
    wanted_at: RecordedInstant = NEVER
    """Since when it is to be detached."""
    before: AttachmentPhase | None = None
    """Its phase when the detachment was requested."""
    withdrawn_id: str = ""
    """Id of a request to drain that was withdrawn without an answer, which may still arrive."""
