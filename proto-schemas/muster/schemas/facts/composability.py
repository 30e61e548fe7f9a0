"""Facts of requests for composable devices (kind `composability`).

Written by the composer, but for what people ask (gateway, or the agent for objects; forwarded by the federation).
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
    """`compose-requested`, `compose-forwarded`: somebody wants these devices; one of the same name gets a new spec.

    may_force: the principal may take devices away while they are held. cluster: whose composer is asked; "" is every
    cluster's, as facts from before this field meant it.
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
    """`decompose-requested`, `decompose-forwarded`: the request is deleted, its devices go back to the pool.

    may_force, cluster: as in `ComposeRequested`.
    """


class DetachRequested(_ReturnRequested):
    """`detach-requested`, `detach-forwarded` of a device, by its uuid: this one goes back to the pool.

    may_force, cluster: as in `ComposeRequested`.
    """


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


class RequestWish(Wire):
    """What was asked of a request and is not answered yet; exactly one of the three bodies is set. fact: that asked."""

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
    """None: there are only wishes that are not answered."""
    phase: RequestPhase = RequestPhase.NODE_ALLOCATING
    error: Text = ""
    """What went wrong last."""
    field: str = ""
    """Of the spec, which the error is about."""
    principal: str = ""
    origin: Origin = Origin.REQUEST
    jobs: tuple[JobId, ...] = ()
    """For which the scaler chose it."""
    scale: str = ""
    """Id of the scaler's choice."""
    all_or_nothing: bool = False
    """If one device cannot be attached in the end, those that were are given back."""
    deleting: bool = False
    """Its devices go back."""
    force: bool = False
    may_force: bool = False
    """The principal may take devices away while they are held."""
    since: RecordedInstant = NEVER
    """When it came into this phase."""
    last_fact: str = ""
    """Id of the newest fact that moved it."""
    trace: str = ""
    failed: bool = False
    """It goes, since it could not be had as asked."""
    was_running: bool = False
    """It had all that it asked, once."""
    wishes: Annotated[dict[str, RequestWish], Listed("fact")] = dataclasses.field(default_factory=dict)
    """What was asked of it and is not answered, by the fact that asked; oldest first."""


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
