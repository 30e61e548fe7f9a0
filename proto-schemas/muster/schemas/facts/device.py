"""Facts of one composable device each (kind `attachment`), from the wish for it to its end. Written by the composer."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import NEVER, InstantNs, JobId, Label, Payload, RecordedInstant, Text, Wire
from muster.schemas.devices import GPU, AttachmentPhase, Origin
from muster.schemas.record import StateRecord


class AttachmentRequested(Payload):
    """`requested`: a device is wanted on this node. Found ones and orphans begin here too, `attached` follows."""

    request: str = ""
    type: Label = GPU
    model: Label
    node: str
    fabric: Label
    machine: Label
    origin: Origin = Origin.REQUEST
    jobs: tuple[JobId, ...] = ()


class CallFailure(StrEnum):
    """How a call to a fabric manager went wrong.

    timeout: nobody knows whether it was carried out. refused: certainly not, and it will not be. unavailable: certainly
    not, it may be later. nonsense: the answer cannot be understood, so nobody knows either. abandoned: the caller is
    gone (another leader), nobody knows.
    """

    TIMEOUT = "timeout"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    NONSENSE = "nonsense"
    ABANDONED = "abandoned"


class CallStarted(Payload):
    """`attaching`, `detaching`: the intent; the call follows. deadline_at: until then this call may still take effect.

    device_id, device_uuid: which device is detached. forced, holders: it was held, and the request said force.
    """

    attempt: Annotated[int, Field(ge=1)]
    deadline_at: InstantNs
    device_id: str = ""
    device_uuid: str = ""
    forced: bool = False
    holders: tuple[str, ...] = ()


class CallFailed(Payload):
    """`attach-failed`, `detach-failed`: one call went wrong. retry_at: not before; 0: that was the last one."""

    attempt: int
    failure: CallFailure
    error: Text = ""
    retry_at: InstantNs = 0


class DeviceAttached(Payload):
    """`attached`: the fabric says so. adopted: found there, after a call of which nobody knew the outcome.

    node, machine, type, model: where and what. memory_mib: of a memory device.
    """

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
    """`visible`: its node shows it."""


class DeviceOnline(Payload):
    """`online`: the scheduler released it. took_s: since it was requested."""

    took_s: float = 0.0


class DetachWanted(Payload):
    """`detach-wanted`: the device is to go; the scheduler is asked to withhold it under `request_id`."""

    request_id: Label
    reason: Text = ""
    force: bool = False


class DetachGivenUp(Payload):
    """`detach-given-up`: it stays where it is and may be used again."""

    reason: Text = ""


class DeviceDetached(Payload):
    """`detached`: it is back in the pool. was_gone: it was not there any more when we looked."""

    device_uuid: str = ""
    device_id: str = ""
    node: str = ""
    type: Label = GPU
    memory_mib: int = 0
    was_gone: bool = False
    took_s: float = 0.0


class AttachmentFailed(Payload):
    """`failed`: it was not attached and will not be."""

    failure: CallFailure | None = None
    reason: Text = ""


class DetachWish(Wire):
    """Why a device is to go. fact: that said so. scale: the scaler's choice, "" if somebody else wants it.

    keep: the wish outlives a detachment that was given up; without, it must be said again.
    """

    fact: str = ""
    reason: Text = ""
    force: bool = False
    scale: str = ""
    keep: bool = False
    trace: str = ""


@dataclass(slots=True)
class AttachmentState(StateRecord):
    """`state-recorded` of an attachment: one device of a request, from the wish to its return."""

    requested: AttachmentRequested
    phase: AttachmentPhase
    device_uuid: str = ""
    """As nodes show it; "" while it has no device."""
    device_id: str = ""
    """As the fabric calls it; "" while it has no device."""
    memory_mib: int = 0
    """Of a memory device."""
    attempt: int = 0
    """Number of the newest call."""
    deadline_at: RecordedInstant = NEVER
    """Until then the newest call may take effect."""
    retry_at: RecordedInstant = NEVER
    """No call is made before, and its detachment is not tried again before."""
    failure: CallFailure | None = None
    """How the newest call went wrong."""
    error: Text = ""
    request_id: str = ""
    """Under which the scheduler is asked to withhold it."""
    force: bool = False
    """It is detached although jobs hold it."""
    is_withheld: bool = False
    """The scheduler withholds it under `request_id`."""
    requested_at: RecordedInstant = NEVER
    since: RecordedInstant = NEVER
    """When it came into this phase."""
    last_fact: str = ""
    """Id of the newest fact that moved it."""
    trace: str = ""
    said: bool = True
    """`requested` stands in the log."""
    failed_at: RecordedInstant = NEVER
    """When the newest call failed."""
    attempts_before: int = 0
    """Calls made before those in the present direction."""
    withholds: int = 0
    """How often the scheduler was asked to withhold it."""
    holders: tuple[str, ...] = ()
    """Jobs that held it when it was detached by force."""
    wish: DetachWish | None = None
    """Why it is to go."""
    wanted_at: RecordedInstant = NEVER
    """Since when it is to go."""
    before: AttachmentPhase | None = None
    """Its phase when it was to go."""
    withdrawn_id: str = ""
    """Of a request to withhold that was withdrawn without an answer, which may still come."""
