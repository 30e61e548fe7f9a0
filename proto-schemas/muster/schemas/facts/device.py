"""Facts of composable devices: requests (kind `composability`), one device each (`attachment`), and `fabric`.

Written by the composer, but for what people ask (gateway, forwarded by the federation).
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, JobId, Label, Payload, Text, Wire
from muster.schemas.devices import GPU, SIZE_MAX, AttachmentPhase, ComposabilitySpec, Origin, PoolModel, RequestPhase
from muster.schemas.facts.scale import ScaleChosen

POOL_MODELS_MAX = 256


class ComposeRequested(Payload):
    """`compose-requested`, `compose-forwarded`: somebody wants these devices; one of the same name gets a new spec.

    may_force: the principal may take devices away while they are held. cluster: whose composer is asked; "" is every
    cluster's, as facts from before this field meant it.
    """

    spec: ComposabilitySpec
    principal: str
    may_force: bool = False
    cluster: str = ""


class DecomposeRequested(Payload):
    """`decompose-requested`, `decompose-forwarded`: the request is deleted, its devices go back to the pool.

    may_force, cluster: as in `ComposeRequested`.
    """

    principal: str
    reason: Text = ""
    force: bool = False
    may_force: bool = False
    cluster: str = ""


class DetachRequested(Payload):
    """`detach-requested`, `detach-forwarded` of a device, by its uuid: this one goes back to the pool.

    may_force, cluster: as in `ComposeRequested`.
    """

    principal: str
    reason: Text = ""
    force: bool = False
    may_force: bool = False
    cluster: str = ""


class DeviceOrder(Wire):
    """One device of a request, before it is known which. id: of its attachment. model: "" is the request's."""

    id: Label
    node: Label
    fabric: Label
    machine: Label
    model: str = ""


class RequestAccepted(Payload):
    """`accepted`: all devices are reserved in their pools, none is attached yet; said again for a new spec.

    orders: the devices that are to be attached now. devices: attachments that go back because of a smaller size.
    all_or_nothing: if one cannot be attached in the end, those that were are given back.
    """

    spec: ComposabilitySpec
    principal: str = ""
    origin: Origin = Origin.REQUEST
    orders: Annotated[tuple[DeviceOrder, ...], Field(max_length=SIZE_MAX)] = ()
    devices: tuple[Label, ...] = ()
    jobs: tuple[JobId, ...] = ()
    scale: str = ""
    all_or_nothing: bool = False


class RequestRefused(Payload):
    """`refused`: why it cannot be, and which field says so. holder: who stands in the way, if somebody does."""

    field: str
    reason: Text
    holder: str = ""
    spec: ComposabilitySpec | None = None
    principal: str = ""


class RequestMoved(Payload):
    """`moved`: the request's state changed."""

    phase: RequestPhase
    error: Text = ""


class RequestEnded(Payload):
    """`ended`: it is over, nothing of it is attached any more. failed: it did not get what it asked."""

    reason: Text = ""
    failed: bool = False


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


class RequestWish(Wire):
    """What was asked of a request and is not answered yet; exactly one of the three bodies is set. fact: that asked."""

    fact: str
    at: InstantNs = 0
    compose: ComposeRequested | None = None
    decompose: DecomposeRequested | None = None
    chosen: ScaleChosen | None = None
    trace: str = ""


class RequestState(Payload):
    """`state-recorded` of a request. spec None: only an unanswered wish. failed: it goes, since it could not be had.

    was_running: it had all that it asked, once.
    """

    spec: ComposabilitySpec | None = None
    phase: RequestPhase = RequestPhase.NODE_ALLOCATING
    error: Text = ""
    field: str = ""
    principal: str = ""
    origin: Origin = Origin.REQUEST
    jobs: tuple[JobId, ...] = ()
    scale: str = ""
    all_or_nothing: bool = False
    deleting: bool = False
    force: bool = False
    may_force: bool = False
    since: InstantNs = 0
    last_fact: str = ""
    trace: str = ""
    failed: bool = False
    was_running: bool = False
    wishes: tuple[RequestWish, ...] = ()


class FabricSurveyed(Payload):
    """`surveyed`: what the fabric's pool holds, when that changed."""

    pool: Annotated[tuple[PoolModel, ...], Field(max_length=POOL_MODELS_MAX)] = ()


class BreakerOpened(Payload):
    """`breaker-opened`: no calls to this fabric until `retry_at`, then one to see."""

    failures: int
    failure: CallFailure
    error: Text = ""
    retry_at: InstantNs


class BreakerClosed(Payload):
    """`breaker-closed`: the fabric answers again."""


class OrphanFound(Payload):
    """`orphan-found`: a device stands on one of our machines and nobody asked for it."""

    device_id: Label
    device_uuid: str = ""
    machine: Label
    model: str = ""
    type: Label = GPU
    memory_mib: int = 0


class OrphanReturned(Payload):
    """`orphan-returned`: it is back in the pool, or was asked for after all (`adopted`)."""

    device_id: Label
    adopted: bool = False


class OrphanState(OrphanFound):
    """An orphan that is not returned yet. fact: that told of it, at `at`."""

    at: InstantNs = 0
    fact: str = ""


class DeviceAway(Wire):
    """A device that went back to the pool, and when: nodes and older looks may still show it."""

    device_id: Label
    device_uuid: str = ""
    at: InstantNs = 0


class MachineKnown(Wire):
    """A machine of which no node tells that it is ours, or since when.

    One whose node left (`joined_at` 0), where a late call may still bring a device, or one whose node joined first at
    `joined_at`, where devices may have stood before.
    """

    machine: Label
    node: str
    joined_at: InstantNs = 0


class OperatorDevice(Wire):
    """A device that the field's operator has on a node for Muster (one ComposableResource).

    state: as its status says ("Attaching", "Online", "Detaching", "Deleting"). device_id: as the fabric calls it.
    """

    name: Label
    node: Label
    type: Label = GPU
    model: Label
    state: str = ""
    device_uuid: str = ""
    device_id: str = ""
    error: Text = ""


class OperatorSeen(Payload):
    """`operator-seen` of a fabric that is moved by the field's operator: what it has on nodes for Muster now.

    errors: of its requests.
    """

    devices: Annotated[tuple[OperatorDevice, ...], Field(max_length=SIZE_MAX)] = ()
    errors: tuple[Text, ...] = ()


class FabricState(Payload):
    """`state-recorded` of a fabric. failure: the newest one. succeeded_at: when a call last did what it was asked.

    moved_at: when a device last came or went. machines: see `MachineKnown`. away: newest last. operator: what the
    field's operator has for Muster, where that moves the devices.
    """

    pool: tuple[PoolModel, ...] = ()
    surveyed: bool = False
    failures: int = 0
    opened_at: InstantNs = 0
    retry_at: InstantNs = 0
    error: Text = ""
    orphans: tuple[OrphanState, ...] = ()
    since: InstantNs = 0
    last_fact: str = ""
    failure: CallFailure | None = None
    succeeded_at: InstantNs = 0
    moved_at: InstantNs = 0
    machines: tuple[MachineKnown, ...] = ()
    away: tuple[DeviceAway, ...] = ()
    operator: OperatorSeen | None = None


class ComposeWish(Wire):
    """A request that was not yet forwarded. fact: which fact asked. Exactly one of the three bodies is set."""

    fact: str
    subject_id: str
    compose: ComposeRequested | None = None
    decompose: DecomposeRequested | None = None
    detach: DetachRequested | None = None
    trace: str = ""


class ComposeWishes(Payload):
    """`state-recorded` of what was asked of devices in FED and not yet forwarded; subject: the request or device."""

    wishes: tuple[ComposeWish, ...] = ()
