"""Facts of requests for composable devices (kind `composability`).

Written by the composer; requests by the gateway, or by the agent for objects; forwarded by the federation.
"""

import dataclasses
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from muster.schemas.base import NEVER, InstantNs, JobId, Label, Payload, RecordedInstant, Text, Wire
from muster.schemas.devices import SIZE_MAX, ComposabilitySpec, Origin, RequestPhase
from muster.schemas.facts.scale import ScaleChosen
from muster.schemas.record import Listed, StateRecord


class ComposeRequested(Payload):
    """`compose-requested`, `compose-forwarded`: a request for devices; a request of the same name gets the new spec.

    may_force: the principal may detach devices while jobs use them. cluster: the cluster whose composer is asked;
    "" is every cluster, as in facts from before this field existed.
    """

    spec: ComposabilitySpec
    principal: str
    may_force: bool = False
    cluster: str = ""


class _ReturnRequested(Payload):
    principal: str
    reason: Text = ""
    force: bool = False
    may_force: bool = False
    cluster: str = ""


class DecomposeRequested(_ReturnRequested):
    """`decompose-requested`, `decompose-forwarded`: the request is deleted; its devices return to the pool.

    may_force, cluster: as in `ComposeRequested`.
    """


class DetachRequested(_ReturnRequested):
    """`detach-requested`, `detach-forwarded` of a device, by its uuid: the device returns to the pool.

    may_force, cluster: as in `ComposeRequested`.
    """


class DeviceOrder(Wire):
    """One device of a request, before the fabric has chosen it. id: of its attachment. model: "" for the model of
    the request."""

    id: Label
    node: Label
    fabric: Label
    machine: Label
    model: str = ""


class RequestAccepted(Payload):
    """`accepted`: all devices are reserved in their pools, and none is attached yet; emitted again for a new spec.

    orders: the devices to attach now. devices: attachments that return because of a smaller size. all_or_nothing:
    if one device cannot be attached, the attached ones are returned.
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
    """`refused`: the reason, and the field that causes it. holder: the job or request in the way, if any."""

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
    """`ended`: the request is over, and none of its devices is attached. failed: it was not fulfilled."""

    reason: Text = ""
    failed: bool = False


class PendingRequestChange(Wire):
    """A change of a request without an answer yet; exactly one of the three bodies is set. fact: id of the fact that
    asked."""

    fact: str
    at: InstantNs = 0
    compose: ComposeRequested | None = None
    decompose: DecomposeRequested | None = None
    chosen: ScaleChosen | None = None
    trace: str = ""


@dataclass(slots=True)
class RequestState(StateRecord):
    """`state-recorded` of a request."""

    spec: ComposabilitySpec | None = None
    """None while there are only unanswered requests."""
    phase: RequestPhase = RequestPhase.NODE_ALLOCATING
    error: Text = ""
    """The newest error."""
    field: str = ""
    """The field of the spec that caused the error."""
    principal: str = ""
    origin: Origin = Origin.REQUEST
    jobs: tuple[JobId, ...] = ()
    """Jobs for which the scaler chose it."""
    scale: str = ""
    """Id of the scaler's decision."""
    all_or_nothing: bool = False
    """If one device cannot be attached, the attached ones are returned."""
    deleting: bool = False
    """Its devices are being returned."""
    force: bool = False
    may_force: bool = False
    """The principal may detach devices while jobs use them."""
    since: RecordedInstant = NEVER
    """When it entered this phase."""
    last_fact: str = ""
    """Id of the newest fact that changed it."""
    trace: str = ""
    failed: bool = False
    """It ends because it could not be fulfilled."""
    was_running: bool = False
    """All its devices were attached once."""
    wishes: Annotated[dict[str, PendingRequestChange], Listed("fact")] = dataclasses.field(default_factory=dict)
    """Unanswered changes, by the fact that asked; oldest first."""


class PendingDeviceRequest(Wire):
    """A request that was not yet forwarded. fact: id of the fact that asked. Exactly one of the three bodies is set."""

    fact: str
    subject_id: str
    compose: ComposeRequested | None = None
    decompose: DecomposeRequested | None = None
    detach: DetachRequested | None = None
    trace: str = ""


class PendingDeviceRequests(Payload):
    """`state-recorded` of requests for devices in FED that are not yet forwarded; subject: the request or device."""

    wishes: tuple[PendingDeviceRequest, ...] = ()
