"""Devices moved by the Composable Resource Operator: intents of the composer become its objects, its devices news.

For each node, type and model there is one ComposabilityRequest of Muster; its size is the number of attachments begun
and not yet being detached. That follows from the log, so every leader writes the same. A device to detach is marked
before the size is lowered. Only `spec.resource` is written, and requests of others are left alone.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from muster.agent.core.cluster import WordSeen
from muster.agent.core.kubernetes.calls import Create, Delete, Kind, Merge, Outcome, Refused
from muster.agent.core.kubernetes.worklist import Purpose, Worklist
from muster.core import Fact, Instant, after
from muster.kube.objects import JsonObject, at, integer, mapping, name_of, strings, text, uid_of, version_of
from muster.schemas.base import LABEL_CHARS_MAX
from muster.schemas.devices import GPU, SIZE_MAX, AttachmentPhase
from muster.schemas.facts.composability import RequestAccepted
from muster.schemas.facts.device import AttachmentRequested, AttachmentState, CallStarted
from muster.schemas.facts.fabric import FabricState, OperatorDevice, OperatorSeen

MANAGED_BY = "app.kubernetes.io/managed-by"
"""Labels: the writer of a request, and the request of a resource."""
OWN = "muster"
DELETE_MARK = "cohdi.io/delete-device"
"""Annotation of a resource: the operator detaches it first."""


WORDS_MAX = 512
"""Length of the operator's error message."""


@dataclass(frozen=True, slots=True)
class Site:
    """Node, type and model of one request."""

    node: str
    type: str
    model: str

    @property
    def can_be_told(self) -> bool:
        """Return whether a fact can hold it: anyone may write such objects."""
        return all(0 < len(word) <= LABEL_CHARS_MAX for word in (self.node, self.type, self.model))


@dataclass(frozen=True, slots=True)
class OwnRequestView:
    """A ComposabilityRequest that Muster wrote."""

    name: str
    uid: str
    version: str
    site: Site
    size: int
    error: str = ""
    is_going: bool = False


@dataclass(frozen=True, slots=True)
class ResourceView:
    """A ComposableResource: one device of a request (`of`). `is_marked`: it is detached first."""

    name: str
    uid: str
    of: str
    site: Site
    state: str = ""
    device_uuid: str = ""
    device_id: str = ""
    error: str = ""
    is_marked: bool = False


def project_own_request(raw: JsonObject) -> OwnRequestView | None:
    """Project a request; None for others' requests."""
    if strings(raw, "metadata", "labels").get(MANAGED_BY) != OWN:
        return None
    resource = mapping(raw, "spec", "resource")
    return OwnRequestView(
        name=name_of(raw),
        uid=uid_of(raw),
        version=version_of(raw),
        site=Site(text(resource, "target_node"), text(resource, "type") or GPU, text(resource, "model")),
        size=integer(resource, "size"),
        error=text(raw, "status", "error")[:WORDS_MAX],
        is_going=at(raw, "metadata", "deletionTimestamp") is not None,
    )


def project_resource(raw: JsonObject) -> ResourceView:
    """Project a resource; never raises."""
    spec, status = mapping(raw, "spec"), mapping(raw, "status")
    return ResourceView(
        name=name_of(raw),
        uid=uid_of(raw),
        of=strings(raw, "metadata", "labels").get(MANAGED_BY, ""),
        site=Site(text(spec, "target_node"), text(spec, "type") or GPU, text(spec, "model")),
        state=text(status, "state")[:LABEL_CHARS_MAX],
        device_uuid=text(status, "device_id")[:LABEL_CHARS_MAX],
        device_id=text(status, "cdi_device_id")[:LABEL_CHARS_MAX],
        error=text(status, "error")[:WORDS_MAX],
        is_marked=strings(raw, "metadata", "annotations").get(DELETE_MARK) == "true",
    )


KIND, SEEN = "fabric", "operator-seen"
API_VERSION = "cro.hpsys.ibm.ie.com/v1alpha1"
REFUSED_AGAIN_S = 10.0
ERRORS_MAX = 16
_COMING_OR_THERE = frozenset(
    {
        AttachmentPhase.ATTACHING,
        AttachmentPhase.ATTACHED,
        AttachmentPhase.VISIBLE,
        AttachmentPhase.ONLINE,
        AttachmentPhase.WITHHOLDING,
    }
)


@dataclass(slots=True)
class _Attachment:
    """One device of the composer. `is_wanted`: its attach was begun, its detach was not."""

    site: Site
    is_wanted: bool = False
    device_id: str = ""


@dataclass(frozen=True, slots=True)
class ChangeOperated(Purpose):
    """A call to create, change or delete an object of the operator."""

    name: str
    is_new: bool = field(default=False, compare=False)
    """Whether it is created."""


class Operator:
    """Devices of the operator's fabric."""

    def __init__(self, fabric: str, worklist: Worklist) -> None:
        self._fabric = fabric
        self._worklist = worklist
        worklist.serve(self, ChangeOperated)
        self._attachments: dict[str, _Attachment] = {}
        self._requests: dict[str, OwnRequestView] = {}
        self._resources: dict[str, ResourceView] = {}
        self._told: OperatorSeen | None = None
        self._news: OperatorSeen | None = None
        self._is_dirty = True
        self._is_synced = False
        self._again: Instant | None = None
        self.is_permitted = True
        """Whether objects may be read and written; set at the begin of a term. Otherwise all devices would count as
        gone."""

    # --- what the log says -----------------------------------------------------------------------------------

    def apply(self, fact: Fact) -> None:
        """Fold one fact."""
        match fact.payload:
            case RequestAccepted() as accepted:
                for order in accepted.orders:
                    if order.fabric == self._fabric:
                        site = Site(order.machine, accepted.spec.type, order.model or accepted.spec.model)
                        self._attachments[order.id] = _Attachment(site)
            case AttachmentRequested() as asked if asked.fabric == self._fabric:
                site = Site(asked.machine, asked.type, asked.model)
                self._attachments.setdefault(fact.subject_id, _Attachment(site))
            case CallStarted() as call:
                self._begun(fact, call)
            case AttachmentState() as state if state.requested.fabric == self._fabric and not state.phase.is_over:
                site = Site(state.requested.machine, state.requested.type, state.requested.model)
                is_wanted = state.phase in _COMING_OR_THERE
                self._attachments[fact.subject_id] = _Attachment(site, is_wanted, state.device_id)
            case OperatorSeen() as seen if fact.subject_id == self._fabric:
                self._told = seen
            case FabricState() as state if fact.subject_id == self._fabric:
                self._told = state.operator
            case _ if fact.kind == "attachment" and fact.name in ("detached", "failed"):
                self._attachments.pop(fact.subject_id, None)
            case _ if fact.kind == "attachment" and fact.name == "detach-given-up":
                self._want(fact.subject_id, is_wanted=True)
            case _:
                return
        self._is_dirty = True

    def _begun(self, fact: Fact, call: CallStarted) -> None:
        self._want(fact.subject_id, is_wanted=fact.name == "attaching")
        known = self._attachments.get(fact.subject_id)
        if known is not None and call.device_id:
            known.device_id = call.device_id

    def _want(self, attachment: str, *, is_wanted: bool) -> None:
        known = self._attachments.get(attachment)
        if known is not None:
            known.is_wanted = is_wanted

    def acknowledge(self, seen: WordSeen) -> None:  # noqa: ARG002 - as of the others
        """Do nothing: `apply` folded the report."""
        self._is_dirty = True

    # --- what the API server shows ---------------------------------------------------------------------------

    def request_seen(self, view: OwnRequestView) -> None:
        """Handle a new state of a request of Muster."""
        self._requests[view.name] = view
        self._is_dirty = True

    def request_gone(self, name: str) -> None:
        """Handle a deleted request."""
        self._requests.pop(name, None)
        self._is_dirty = True

    def resource_seen(self, view: ResourceView) -> None:
        """Handle a new state of a device."""
        self._resources[view.name] = view
        self._is_dirty = True

    def resource_gone(self, name: str) -> None:
        """Handle a deleted device."""
        self._resources.pop(name, None)
        self._is_dirty = True

    def synced(self) -> None:
        """Record that all objects were seen."""
        self._is_synced = self._is_dirty = True

    def reset(self) -> None:
        """Forget what was seen, because another process leads; what the log says stays."""
        self._requests.clear()
        self._resources.clear()
        self._is_synced, self._news, self._again = False, None, None

    # --- what follows ----------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Return whether there is anything to report."""
        return self._news is not None

    def observations(self) -> Iterator[WordSeen]:
        """Yield the operator's devices if the log has others, as of the last `settle`."""
        if self._news is not None:
            yield WordSeen(KIND, self._fabric, SEEN, self._news)

    def next_change(self) -> Instant | None:
        """Return when `settle` could find something by time alone."""
        return self._again

    def settle(self, now: Instant) -> None:
        """Write what the composer began, and report the operator's devices."""
        if self._again is not None and now >= self._again:
            self._again, self._is_dirty = None, True
        is_ready = self._is_synced and self.is_permitted
        if not is_ready or not self._is_dirty or self._again is not None:
            return
        self._is_dirty = False
        wanted = Counter(one.site for one in self._attachments.values() if one.is_wanted)
        known = {view.site: view for view in self._requests.values()}
        for site in sorted({*wanted, *known}, key=lambda site: (site.node, site.type, site.model)):
            self._write(site, known.get(site), wanted[site])
        seen = self._seen()
        self._news = seen if seen != (self._told or OperatorSeen()) or self._told is None else None

    def _write(self, site: Site, view: OwnRequestView | None, size: int) -> None:
        if view is None:
            if size:
                name = request_name_of(site)
                self._ask(name, Create(Kind.COMPOSABILITY_REQUESTS, "", name, _manifest(name, site, size)))
            return
        if view.is_going:
            return
        mine = [one for one in self._resources.values() if one.of == view.name]
        if size >= view.size or self._mark(site, mine):
            self._size(view, size)
        if not size and not view.size and not mine:
            self._ask(view.name, Delete(Kind.COMPOSABILITY_REQUESTS, "", view.name, view.uid))

    def _size(self, view: OwnRequestView, size: int) -> None:
        if view.size != size:
            body: JsonObject = {
                "metadata": {"resourceVersion": view.version}, "spec": {"resource": {"size": size}},
            }  # fmt: skip
            self._ask(view.name, Merge(Kind.COMPOSABILITY_REQUESTS, "", view.name, body))

    def _mark(self, site: Site, mine: list[ResourceView]) -> bool:
        """Return whether all devices of this request to detach are marked, so that the operator takes no other one."""
        going = {one.device_id for one in self._attachments.values() if one.site == site and not one.is_wanted}
        going.discard("")
        unmarked = [one for one in mine if one.device_id in going and not one.is_marked]
        for one in unmarked:
            body: JsonObject = {"metadata": {"uid": one.uid, "annotations": {DELETE_MARK: "true"}}}
            self._ask(one.name, Merge(Kind.COMPOSABLE_RESOURCES, "", one.name, body))
        return not unmarked

    def _ask(self, name: str, call: Create | Merge | Delete) -> None:
        self._worklist.ask(ChangeOperated(name, is_new=isinstance(call, Create)), call)

    def answered(self, purpose: ChangeOperated, outcome: Outcome, now: Instant) -> None:
        """Continue after a call."""
        self._is_dirty = True
        # a creation follows from no version that was read, so none that is read later would have it granted
        if isinstance(outcome, Refused) and (purpose.is_new or outcome.code not in _STALE):
            self._again = after(now, REFUSED_AGAIN_S)

    def _seen(self) -> OperatorSeen:
        devices = tuple(
            OperatorDevice(
                name=one.name, node=one.site.node, type=one.site.type, model=one.site.model, state=one.state,
                device_uuid=one.device_uuid, device_id=one.device_id, error=one.error,
            )
            for one in sorted(self._resources.values(), key=lambda one: one.name)
            if one.of in self._requests and one.site.can_be_told
        )  # fmt: skip
        errors = tuple(f"{view.site.node}: {view.error}" for view in self._requests.values() if view.error)
        return OperatorSeen(devices=devices[:SIZE_MAX], errors=tuple(sorted(errors))[:ERRORS_MAX])


def request_name_of(site: Site) -> str:
    """Return the name of the request for a site: the same for every leader."""
    told = hashlib.sha256(f"{site.node}\x1f{site.type}\x1f{site.model}".encode()).hexdigest()
    return f"muster-{told[:16]}"


def _manifest(name: str, site: Site, size: int) -> JsonObject:
    resource = {"type": site.type, "model": site.model, "size": size, "target_node": site.node}
    return {
        "apiVersion": API_VERSION,
        "kind": "ComposabilityRequest",
        "metadata": {"name": name, "labels": {MANAGED_BY: OWN}},
        "spec": {"resource": {**resource, "allocation_policy": "samenode"}},
    }


_STALE = (404, 409)
