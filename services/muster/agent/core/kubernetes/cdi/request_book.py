"""ComposabilityRequests as the log has them: what was asked for from objects, and how the composer serves it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.core import Fact
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
)

KIND, ATTACHMENT = "composability", "attachment"
PRINCIPAL = "kubernetes:composabilityrequests"
"""Who asks for what objects ask for. Whoever may write them may use force: they lie in no namespace."""
CLAIMS = "kubernetes:resourceclaims"
"""Who asks for what claims were given of a pool."""
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
_OF_DEVICES = ("requested", "attached", "attach-failed", "detach-failed", "detached", "failed", *_PHASES)


@dataclass(slots=True)
class Device:
    """One attachment of a request, as the operator would show it."""

    request: str
    node: str
    phase: AttachmentPhase = AttachmentPhase.REQUESTED
    uuid: str = ""
    device_id: str = ""
    error: str = ""


@dataclass(slots=True)
class Request:
    """One request, as the log has it. asked: what was asked for last from here, by whom; going: so was its end."""

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
        """Whether it was accepted and is not over."""
        return self.spec is not None and self.phase not in (None, RequestPhase.REFUSED, RequestPhase.ENDED)

    @property
    def is_others(self) -> bool:
        """Whether it lives, and somebody made it through the Muster API."""
        return self.is_live and self.principal not in OURS


class RequestBook:
    """requests: by name; devices: by attachment. followers: told the name of each request that changed."""

    def __init__(self) -> None:
        self.requests: dict[str, Request] = {}
        self.devices: dict[str, Device] = {}
        self.followers: list[Callable[[str], None]] = []
        self._handlers: Mapping[tuple[str, str], Callable[[Fact], None]] = {
            (KIND, COMPOSE): self._asked,
            (KIND, DECOMPOSE): self._unasked,
            (KIND, "accepted"): self._accepted,
            (KIND, "refused"): self._refused,
            (KIND, "moved"): self._moved,
            (KIND, "ended"): self._ended,
            (KIND, "state-recorded"): self._request_state,
            (ATTACHMENT, "state-recorded"): self._attachment_state,
            **{(ATTACHMENT, name): self._attachment for name in _OF_DEVICES},
        }

    def apply(self, fact: Fact) -> None:
        """One fact further."""
        handler = self._handlers.get((fact.kind, fact.name))
        if handler is not None:
            handler(fact)

    def _tell(self, name: str) -> None:
        for follower in self.followers:
            follower(name)

    def _request(self, name: str) -> Request:
        self._tell(name)
        request = self.requests.get(name)
        if request is None:
            request = self.requests[name] = Request()
        return request

    def _asked(self, fact: Fact) -> None:
        if fact.writer != "agent" or not isinstance(fact.payload, ComposeRequested):
            return
        request = self._request(fact.subject_id)
        request.asked, request.asked_by, request.going = fact.payload.spec, fact.payload.principal, False
        if not request.is_live:
            request.phase, request.spec, request.error = None, None, ""

    def _unasked(self, fact: Fact) -> None:
        if fact.writer == "agent" and isinstance(fact.payload, DecomposeRequested):
            self._request(fact.subject_id).going = True

    def _accepted(self, fact: Fact) -> None:
        if not isinstance(fact.payload, RequestAccepted):
            return
        request = self._request(fact.subject_id)
        request.spec, request.principal, request.error = fact.payload.spec, fact.payload.principal, ""
        request.phase = RequestPhase.UPDATING
        for order in fact.payload.orders:
            self.devices[order.id] = Device(fact.subject_id, order.node)
            request.devices[order.id] = None

    def _refused(self, fact: Fact) -> None:
        if not isinstance(fact.payload, RequestRefused):
            return
        request = self._request(fact.subject_id)
        request.error = f"{fact.payload.field}: {fact.payload.reason}" if fact.payload.field else fact.payload.reason
        if not request.is_live:
            request.phase, request.principal = RequestPhase.REFUSED, fact.payload.principal
            # as the newest: one that asked again and were forgotten at once would ask for ever
            self.requests[fact.subject_id] = self.requests.pop(fact.subject_id)
            self._bound()

    def _moved(self, fact: Fact) -> None:
        if isinstance(fact.payload, RequestMoved):
            request = self._request(fact.subject_id)
            request.phase, request.error = fact.payload.phase, fact.payload.error

    def _ended(self, fact: Fact) -> None:
        if isinstance(fact.payload, RequestEnded):
            request = self._request(fact.subject_id)
            request.phase, request.error = RequestPhase.ENDED, fact.payload.reason
            for name in request.devices:
                self.devices.pop(name, None)
            request.devices.clear()
            if request.asked is None:
                del self.requests[fact.subject_id]
            else:
                self._bound()

    def _bound(self) -> None:
        """Only so many requests that are over are remembered."""
        over = [name for name, one in self.requests.items() if one.phase in OVER]
        for name in over[: max(0, len(over) - ENDED_MAX)]:
            del self.requests[name]

    def _request_state(self, fact: Fact) -> None:
        state = fact.payload
        if not isinstance(state, RequestState):
            return
        request = self._request(fact.subject_id)
        request.spec, request.principal, request.phase = state.spec, state.principal, state.phase
        request.error = state.error
        if state.principal in OURS:
            request.asked, request.asked_by, request.going = state.spec, state.principal, state.deleting
        for wish in state.wishes.values():
            if wish.compose is not None and wish.compose.principal in OURS:
                request.asked, request.asked_by, request.going = wish.compose.spec, wish.compose.principal, False
            if wish.decompose is not None and wish.decompose.principal in OURS:
                request.going = True

    def _attachment_state(self, fact: Fact) -> None:
        state = fact.payload
        if not isinstance(state, AttachmentState) or not state.requested.request or state.phase.is_over:
            return
        request = self._request(state.requested.request)
        request.devices[fact.subject_id] = None
        self.devices[fact.subject_id] = Device(
            state.requested.request, state.requested.node, state.phase, state.device_uuid, state.device_id, state.error
        )

    def _attachment(self, fact: Fact) -> None:
        """A device of a request moved."""
        payload = fact.payload
        if isinstance(payload, AttachmentRequested) and payload.request:
            self.devices.setdefault(fact.subject_id, Device(payload.request, payload.node))
            self._request(payload.request).devices[fact.subject_id] = None
        device = self.devices.get(fact.subject_id)
        if device is None:
            return
        self._tell(device.request)
        if isinstance(payload, DeviceAttached):
            device.phase, device.uuid, device.device_id = (
                AttachmentPhase.ATTACHED,
                payload.device_uuid,
                payload.device_id,
            )
            device.node, device.error = payload.node, ""
        elif isinstance(payload, CallFailed):
            device.error = payload.error
        elif fact.name == "detached" or isinstance(payload, AttachmentFailed):
            del self.devices[fact.subject_id]
            self._request(device.request).devices.pop(fact.subject_id, None)
        elif fact.name in _PHASES:
            device.phase = _PHASES[fact.name]
