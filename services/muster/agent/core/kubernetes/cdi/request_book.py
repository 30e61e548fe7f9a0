"""ComposabilityRequests in the log: requests from objects, and their state at the composer."""

from collections.abc import Callable
from dataclasses import dataclass, field

from muster.core import Fact
from muster.core.folding import Folds
from muster.schemas.base import Payload
from muster.schemas.devices import AttachmentPhase, ComposabilitySpec, RequestPhase
from muster.schemas.facts.composability import (
    ComposeRequested,
    DecomposeRequested,
    RequestAccepted,
    RequestEnded,
    RequestMoved,
    RequestRefused,
    RequestState,
)
from muster.schemas.facts.device import (
    AttachmentFailed,
    AttachmentRequested,
    AttachmentState,
    CallFailed,
    DeviceAttached,
    DeviceDetached,
)
from muster.schemas.registry import STATE_NAME

KIND, ATTACHMENT = "composability", "attachment"
PRINCIPAL = "kubernetes:composabilityrequests"
"""Principal of requests from objects. Their writers may use force: the objects are cluster-scoped."""
CLAIMS = "kubernetes:resourceclaims"
"""Principal of requests from claims of a pool."""
OURS = (PRINCIPAL, CLAIMS)
COMPOSE, DECOMPOSE = "compose-requested", "decompose-requested"
ENDED_MAX = 1_024
"""Ended and refused requests that are remembered."""
OVER = (RequestPhase.ENDED, RequestPhase.REFUSED)
_PHASES = {
    "attaching": AttachmentPhase.ATTACHING,
    "visible": AttachmentPhase.VISIBLE,
    "online": AttachmentPhase.ONLINE,
    "detach-wanted": AttachmentPhase.WITHHOLDING,
    "detach-given-up": AttachmentPhase.ONLINE,
    "detaching": AttachmentPhase.DETACHING,
}


@dataclass(slots=True)
class Device:
    """One attachment of a request, as the operator shows it."""

    request: str
    node: str
    phase: AttachmentPhase = AttachmentPhase.REQUESTED
    uuid: str = ""
    device_id: str = ""
    error: str = ""


@dataclass(slots=True)
class Request:
    """One request in the log. `asked`: last spec requested from here, and by whom; `going`: its end was requested."""

    principal: str = ""
    asked: ComposabilitySpec | None = None
    asked_by: str = ""
    going: bool = False
    spec: ComposabilitySpec | None = None
    phase: RequestPhase | None = None
    error: str = ""
    devices: dict[str, None] = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        """Return whether it was accepted and is not over."""
        return self.spec is not None and self.phase not in (None, RequestPhase.REFUSED, RequestPhase.ENDED)

    @property
    def is_others(self) -> bool:
        """Return whether it is live and was created by the Muster API."""
        return self.is_live and self.principal not in OURS


class RequestBook:
    """Requests by name, and devices by attachment. `followers` are called with each changed request."""

    _FOLDS = Folds["RequestBook", None]()

    def __init__(self) -> None:
        self.requests: dict[str, Request] = {}
        self.devices: dict[str, Device] = {}
        self.followers: list[Callable[[str], None]] = []

    def apply(self, fact: Fact) -> None:
        """Fold one fact."""
        self._FOLDS.apply(self, fact)

    def _tell(self, name: str) -> None:
        for follower in self.followers:
            follower(name)

    def _request(self, name: str) -> Request:
        self._tell(name)
        request = self.requests.get(name)
        if request is None:
            request = self.requests[name] = Request()
        return request

    @_FOLDS.on(KIND, COMPOSE, ComposeRequested)
    def _asked(self, fact: Fact, asked: ComposeRequested) -> None:
        if fact.writer != "agent":
            return
        request = self._request(fact.subject_id)
        request.asked, request.asked_by, request.going = asked.spec, asked.principal, False
        if not request.is_live:
            request.phase, request.spec, request.error = None, None, ""

    @_FOLDS.on(KIND, DECOMPOSE, DecomposeRequested)
    def _unasked(self, fact: Fact, _: DecomposeRequested) -> None:
        if fact.writer == "agent":
            self._request(fact.subject_id).going = True

    @_FOLDS.on(KIND, "accepted", RequestAccepted)
    def _accepted(self, fact: Fact, accepted: RequestAccepted) -> None:
        request = self._request(fact.subject_id)
        request.spec, request.principal, request.error = accepted.spec, accepted.principal, ""
        request.phase = RequestPhase.UPDATING
        for order in accepted.orders:
            self.devices[order.id] = Device(fact.subject_id, order.node)
            request.devices[order.id] = None

    @_FOLDS.on(KIND, "refused", RequestRefused)
    def _refused(self, fact: Fact, refused: RequestRefused) -> None:
        request = self._request(fact.subject_id)
        request.error = f"{refused.field}: {refused.reason}" if refused.field else refused.reason
        if not request.is_live:
            request.phase, request.principal = RequestPhase.REFUSED, refused.principal
            # as the newest: one that asked again and were forgotten at once would ask for ever
            self.requests[fact.subject_id] = self.requests.pop(fact.subject_id)
            self._bound()

    @_FOLDS.on(KIND, "moved", RequestMoved)
    def _moved(self, fact: Fact, moved: RequestMoved) -> None:
        request = self._request(fact.subject_id)
        request.phase, request.error = moved.phase, moved.error

    @_FOLDS.on(KIND, "ended", RequestEnded)
    def _ended(self, fact: Fact, ended: RequestEnded) -> None:
        request = self._request(fact.subject_id)
        request.phase, request.error = RequestPhase.ENDED, ended.reason
        for name in request.devices:
            self.devices.pop(name, None)
        request.devices.clear()
        if request.asked is None:
            del self.requests[fact.subject_id]
        else:
            self._bound()

    def _bound(self) -> None:
        """Forget the oldest ended requests."""
        over = [name for name, one in self.requests.items() if one.phase in OVER]
        for name in over[: max(0, len(over) - ENDED_MAX)]:
            del self.requests[name]

    @_FOLDS.on(KIND, STATE_NAME, RequestState)
    def _request_state(self, fact: Fact, state: RequestState) -> None:
        request = self._request(fact.subject_id)
        request.spec, request.principal, request.phase = state.spec, state.principal, state.phase
        request.error = state.error
        if state.principal in OURS:
            request.asked, request.asked_by, request.going = state.spec, state.principal, state.deleting
        for pending in state.wishes.values():
            if pending.compose is not None and pending.compose.principal in OURS:
                request.asked, request.asked_by, request.going = pending.compose.spec, pending.compose.principal, False
            if pending.decompose is not None and pending.decompose.principal in OURS:
                request.going = True

    @_FOLDS.on(ATTACHMENT, STATE_NAME, AttachmentState)
    def _attachment_state(self, fact: Fact, state: AttachmentState) -> None:
        if not state.requested.request or state.phase.is_over:
            return
        request = self._request(state.requested.request)
        request.devices[fact.subject_id] = None
        self.devices[fact.subject_id] = Device(
            state.requested.request, state.requested.node, state.phase, state.device_uuid, state.device_id, state.error
        )

    @_FOLDS.on(ATTACHMENT, "requested", AttachmentRequested)
    def _device_requested(self, fact: Fact, requested: AttachmentRequested) -> None:
        if requested.request:
            self.devices.setdefault(fact.subject_id, Device(requested.request, requested.node))
            self._request(requested.request).devices[fact.subject_id] = None

    @_FOLDS.on(ATTACHMENT, "attached", DeviceAttached)
    def _attached(self, fact: Fact, attached: DeviceAttached) -> None:
        device = self._device(fact)
        if device is not None:
            device.phase, device.node, device.error = AttachmentPhase.ATTACHED, attached.node, ""
            device.uuid, device.device_id = attached.device_uuid, attached.device_id

    @_FOLDS.on(ATTACHMENT, ("attach-failed", "detach-failed"), CallFailed)
    def _call_failed(self, fact: Fact, failed: CallFailed) -> None:
        device = self._device(fact)
        if device is not None:
            device.error = failed.error

    @_FOLDS.on(ATTACHMENT, tuple(_PHASES), Payload)
    def _device_moved(self, fact: Fact, _: Payload) -> None:
        device = self._device(fact)
        if device is not None:
            device.phase = _PHASES[fact.name]

    @_FOLDS.on(ATTACHMENT, ("detached", "failed"), (DeviceDetached, AttachmentFailed))
    def _gone(self, fact: Fact, _: DeviceDetached | AttachmentFailed) -> None:
        device = self.devices.pop(fact.subject_id, None)
        if device is not None:
            self._request(device.request).devices.pop(fact.subject_id, None)

    def _device(self, fact: Fact) -> Device | None:
        """Return the device of a request that this fact is about, and report the change."""
        device = self.devices.get(fact.subject_id)
        if device is not None:
            self._tell(device.request)
        return device
