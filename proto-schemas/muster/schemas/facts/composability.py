"""Facts of requests for composable devices (kind `composability`).

Written by the composer, but for what people ask (gateway, or the agent for objects; forwarded by the federation).
"""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, JobId, Label, Payload, Text, Wire
from muster.schemas.devices import SIZE_MAX, ComposabilitySpec, Origin, RequestPhase
from muster.schemas.facts.scale import ScaleChosen


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
