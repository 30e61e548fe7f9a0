"""Facts of one composable device each (kind `attachment`), from the wish for it to its end. Written by the composer."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, JobId, Label, Payload, Text, Wire
from muster.schemas.devices import GPU, AttachmentPhase, Origin


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


class AttachmentState(Payload):
    """`state-recorded` of an attachment.

    deadline_at, failed_at: of the newest call; attempts_before: calls made before those in the present direction.
    withholds: how often the scheduler was asked to withhold it; holders: who held it then, by force. wish: why it is to
    go, since wanted_at; before: its phase then. said: `requested` stands in the log. withdrawn_id:
    of a request to withhold that was withdrawn without an answer, which may still come.
    """

    requested: AttachmentRequested
    phase: AttachmentPhase
    device_uuid: str = ""
    device_id: str = ""
    memory_mib: int = 0
    attempt: int = 0
    deadline_at: InstantNs = 0
    retry_at: InstantNs = 0
    failure: CallFailure | None = None
    error: Text = ""
    request_id: str = ""
    force: bool = False
    is_withheld: bool = False
    requested_at: InstantNs = 0
    since: InstantNs = 0
    last_fact: str = ""
    trace: str = ""
    said: bool = True
    failed_at: InstantNs = 0
    attempts_before: int = 0
    withholds: int = 0
    holders: tuple[str, ...] = ()
    wish: DetachWish | None = None
    wanted_at: InstantNs = 0
    before: AttachmentPhase | None = None
    withdrawn_id: str = ""
