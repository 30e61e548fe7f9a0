"""ComposabilityRequest objects served by Muster's composer: objects become facts, and facts their status.

A finalizer keeps an object until none of its devices is attached. A request of the same name from the Muster API is not
touched; the object's status says so.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from muster.agent.core.cluster import WordSeen
from muster.agent.core.kubernetes.calls import Kind, Merge, Outcome, Refused
from muster.agent.core.kubernetes.cdi.request_book import (
    COMPOSE,
    DECOMPOSE,
    KIND,
    OVER,
    PRINCIPAL,
    Device,
    Request,
    RequestBook,
)
from muster.agent.core.kubernetes.worklist import Purpose, Worklist
from muster.core import Fact, Instant, after
from muster.kube.objects import JsonObject, at, integer, is_object, mapping, name_of, sequence, uid_of, version_of
from muster.schemas.devices import ComposabilitySpec, RequestPhase
from muster.schemas.facts.composability import ComposeRequested, DecomposeRequested

FINALIZER = "muster.dev/composability"
"""Finalizer that keeps an object until its devices are back in the pool."""
WORDS_MAX = 512


@dataclass(frozen=True, slots=True)
class RequestView:
    """One object. `spec` is None if it is invalid (see `error`); `status` is canonical JSON, or ""."""

    name: str
    uid: str
    version: str
    spec: ComposabilitySpec | None
    error: str = ""
    is_going: bool = False
    finalizers: tuple[str, ...] = ()
    status: str = ""
    generation: int = 0

    @property
    def is_kept(self) -> bool:
        """Return whether its deletion waits for Muster."""
        return FINALIZER in self.finalizers


def project_request(raw: JsonObject) -> RequestView:
    """Project an object; never raises: the status reports an invalid spec."""
    spec, error = _read_spec(mapping(raw, "spec", "resource"))
    status = mapping(raw, "status")
    return RequestView(
        name=name_of(raw),
        uid=uid_of(raw),
        version=version_of(raw),
        spec=spec,
        error=error,
        is_going=at(raw, "metadata", "deletionTimestamp") is not None,
        finalizers=tuple(str(one) for one in sequence(raw, "metadata", "finalizers")),
        status=canonical(status) if status else "",
        generation=integer(raw, "metadata", "generation"),
    )


def canonical(status: Mapping[str, object]) -> str:
    """Return the same text for equal objects."""
    return json.dumps(status, sort_keys=True, separators=(",", ":"))


def changes(was: str, wanted: JsonObject) -> JsonObject:
    """Return the merge patch (RFC 7386) from a canonical status to `wanted`; removed fields are null."""
    return _nulled(json.loads(was) if was else {}, wanted)


def _nulled(was: JsonObject, wanted: JsonObject) -> JsonObject:
    gone: JsonObject = {key: None for key in was if key not in wanted}
    return gone | {
        key: _nulled(mapping(was, key), value) if is_object(value) else value for key, value in wanted.items()
    }


def _read_spec(resource: JsonObject) -> tuple[ComposabilitySpec | None, str]:
    try:
        return ComposabilitySpec.model_validate(resource), ""
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        return None, f"spec.resource.{field}: {first['msg']}"[:WORDS_MAX]


REFUSED_AGAIN_S = 10.0
"""Before a write is repeated that the API server refused for a reason other than its version."""


@dataclass(frozen=True, slots=True)
class ChangeRequest(Purpose):
    """A call on an object."""

    name: str


class Requests:
    """Requests and their objects. Objects are seen only by the leader, facts by all."""

    def __init__(self, worklist: Worklist, book: RequestBook | None = None) -> None:
        self._worklist = worklist
        worklist.serve(self, ChangeRequest)
        self.book = book or RequestBook()
        self.book.followers.append(self._changed)
        self._objects: dict[str, RequestView] = {}
        self._dirty: dict[str, None] = {}
        self._news: dict[str, WordSeen] = {}
        self._again: dict[str, Instant] = {}
        self._is_synced = False
        self.is_permitted = True
        """Whether objects may be read and written; set at the begin of a term. Otherwise all would count as deleted."""

    def apply(self, fact: Fact) -> None:
        """Fold one fact; also on followers."""
        self.book.apply(fact)

    def _changed(self, name: str) -> None:
        self._dirty[name] = None

    def acknowledge(self, seen: WordSeen) -> None:
        """Do nothing: `apply` folded the request."""
        self._dirty[seen.subject] = None

    # --- what the API server shows ---------------------------------------------------------------------------

    def object_seen(self, view: RequestView) -> None:
        """Handle a new state of an object."""
        self._objects[view.name] = view
        self._dirty[view.name] = None

    def object_gone(self, name: str) -> None:
        """Handle a deleted object."""
        self._objects.pop(name, None)
        self._dirty[name] = None

    def synced(self) -> None:
        """Record that all objects were seen."""
        self._is_synced = True
        self._dirty.update(dict.fromkeys((*self._objects, *self.book.requests)))

    def reset(self) -> None:
        """Forget what was seen, because another process leads; what the log says stays."""
        self._is_synced = False
        for held in (self._objects, self._news, self._again):
            held.clear()

    # --- what follows ----------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Return whether there is anything to report."""
        return bool(self._news)

    def observations(self) -> Iterator[WordSeen]:
        """Yield requests of objects that the log lacks, as of the last `settle`."""
        yield from self._news.values()

    def next_change(self) -> Instant | None:
        """Return when `settle` could find something by time alone."""
        return min(self._again.values(), default=None)

    def settle(self, now: Instant) -> None:
        """Evaluate every object and request that changed."""
        for name in [name for name, due in self._again.items() if due <= now]:
            del self._again[name]
            self._dirty[name] = None
        dirty, self._dirty = self._dirty, {}
        if not self._is_synced or not self.is_permitted:
            return  # `synced` has all looked at
        for name in dirty:
            if name in self._again:
                continue
            word = self._word(name)
            if word is None:
                self._news.pop(name, None)
            else:
                self._news[name] = word
            self._write(name)

    def _word(self, name: str) -> WordSeen | None:
        """Return the spec of the object that was not requested yet."""
        view, request = self._objects.get(name), self.book.requests.get(name)
        if request is not None and (request.is_others or request.asked_by not in ("", PRINCIPAL)):
            return None
        if view is None or view.is_going:
            may_go = request is not None and request.asked is not None and not request.going
            if not may_go or request is None or not (request.is_live or request.phase is None):
                return None
            force = request.asked is not None and request.asked.force_detach
            gone = DecomposeRequested(principal=PRINCIPAL, reason="its object was deleted", force=force, may_force=True)
            return WordSeen(KIND, name, DECOMPOSE, gone)
        if view.spec is None or not view.is_kept:
            return None
        is_over = request is not None and request.phase is RequestPhase.ENDED
        if request is not None and request.asked == view.spec and not request.going and not is_over:
            return None
        return WordSeen(KIND, name, COMPOSE, ComposeRequested(spec=view.spec, principal=PRINCIPAL, may_force=True))

    def _write(self, name: str) -> None:
        """Write the finalizer, then the status; one write at a time for each object."""
        view, request = self._objects.get(name), self.book.requests.get(name)
        if view is None:
            return
        is_others = request is not None and request.is_others
        if view.is_going:
            is_over = request is None or is_others or request.asked is None or request.phase in OVER
            if view.is_kept and is_over:
                self._keep(view, kept=False)
                return
        elif not view.is_kept and not is_others:
            self._keep(view, kept=True)
            return
        status = self._status(view, request)
        if canonical(status) != view.status:
            body: JsonObject = {"status": changes(view.status, status)}
            call = Merge(Kind.COMPOSABILITY_REQUESTS, "", view.name, body, "status")
            self._worklist.ask(ChangeRequest(view.name), call)

    def _keep(self, view: RequestView, *, kept: bool) -> None:
        finalizers = [one for one in view.finalizers if one != FINALIZER] + ([FINALIZER] if kept else [])
        body: JsonObject = {"metadata": {"resourceVersion": view.version, "finalizers": finalizers}}
        self._worklist.ask(ChangeRequest(view.name), Merge(Kind.COMPOSABILITY_REQUESTS, "", view.name, body))

    def answered(self, purpose: ChangeRequest, outcome: Outcome, now: Instant) -> None:
        """Continue after a write."""
        self._dirty[purpose.name] = None
        if isinstance(outcome, Refused) and outcome.code not in _STALE:
            self._again[purpose.name] = after(now, REFUSED_AGAIN_S)

    def _status(self, view: RequestView, request: Request | None) -> JsonObject:
        """Return the status in the operator's format: state, error, resources by name, and their spec."""
        if request is not None and request.is_others:
            words = f"a request {view.name} was made through the Muster API by {request.principal}; choose another name"
            return {"state": RequestPhase.NODE_ALLOCATING.value, "error": words}
        if view.error:
            return {"state": RequestPhase.NODE_ALLOCATING.value, "error": view.error}
        phase = request.phase if request is not None and request.phase is not None else RequestPhase.NODE_ALLOCATING
        state = RequestPhase.NODE_ALLOCATING if phase in (RequestPhase.REFUSED, RequestPhase.ENDED) else phase
        status: JsonObject = {"state": state.value}
        if request is not None and request.error:
            status["error"] = request.error
        resources = {name: _shown(self.book.devices[name]) for name in sorted(request.devices)} if request else {}
        if resources:
            status["resources"] = resources
        if request is not None and request.spec is not None:
            status["scalarResource"] = request.spec.model_dump(mode="json", exclude_defaults=True) | {
                "type": request.spec.type,
                "model": request.spec.model,
                "size": request.spec.size,
            }
        return status


def _shown(device: Device) -> JsonObject:
    told: JsonObject = {"state": device.phase.operator_word, "node_name": device.node}
    for key, value in (("device_id", device.uuid), ("cdi_device_id", device.device_id), ("error", device.error)):
        if value:
            told[key] = value
    return told


_STALE = (404, 409)
