"""What the API server keeps: objects, one counter of versions, and the events that watches are made of."""

import copy
import itertools
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pydantic_core import to_json

from muster.kube.objects import JsonObject, integer, mapping, sequence, strings, text
from muster.kube.resources import NAMESPACES, NODES, PODS, Resource

EVENTS_MAX = 200_000
PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
KEEPS_STATUS = frozenset({NODES.title})
"""Kinds whose status counts at creation; of others with a status subresource it is dropped."""


class Refusal(Exception):  # noqa: N818 - an answer
    """An answer that is no success, as a Status."""

    def __init__(self, code: int, reason: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
            "details": details,
        }


@dataclass(eq=False)
class Stored:
    """One state of one object; its JSON is made once for all watches."""

    obj: JsonObject
    version: int
    _json: bytes = b""
    _metadata_json: bytes = b""

    def json(self, *, metadata_only: bool = False) -> bytes:
        if metadata_only:
            if not self._metadata_json:
                self._metadata_json = to_json({**PARTIAL, "metadata": self.obj["metadata"]})
            return self._metadata_json
        if not self._json:
            self._json = to_json(self.obj)
        return self._json


@dataclass(frozen=True, eq=False)
class Event:
    """What happened to an object. before: its former state, None for a new one; gone: it was removed."""

    resource: Resource
    now: Stored
    before: Stored | None
    gone: bool


@dataclass
class Kind:
    """One registered kind and its objects by (namespace, name)."""

    resource: Resource
    has_status: bool
    objects: dict[tuple[str, str], Stored] = field(default_factory=dict)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=EVENTS_MAX))
    floor: int = 0
    """Events up to this version are forgotten."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Store:
    """Objects of registered kinds. now: the clock of time-stamps."""

    def __init__(self, *, now: Callable[[], datetime] = _utc_now) -> None:
        self.now = now
        self.version = 1
        self.kinds: dict[tuple[str, str, str], Kind] = {}
        self.listeners: list[Callable[[Event], None]] = []
        self.versions: dict[str, tuple[str, ...]] = {}
        """By group: the versions that it is served in, where that is not just the one that is stored."""
        self._numbers = itertools.count(1)

    def register(self, resource: Resource, *, has_status: bool = True) -> Kind:
        key = (resource.group, resource.version, resource.plural)
        return self.kinds.setdefault(key, Kind(resource, has_status))

    def kind(self, resource: Resource) -> Kind:
        found = self.kinds.get((resource.group, resource.version, resource.plural))
        if found is None:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        return found

    def get(self, resource: Resource, name: str, namespace: str = "") -> JsonObject:
        return self.stored(resource, name, namespace).obj

    def stored(self, resource: Resource, name: str, namespace: str = "") -> Stored:
        found = self.kind(resource).objects.get((namespace, name))
        if found is None:
            raise Refusal(404, "NotFound", f'{resource.title} "{name}" not found', name=name, kind=resource.plural)
        return found

    def find(self, resource: Resource, name: str, namespace: str = "") -> JsonObject | None:
        found = self.kind(resource).objects.get((namespace, name))
        return None if found is None else found.obj

    def all(self, resource: Resource, namespace: str = "") -> list[JsonObject]:
        return [stored.obj for stored in self.listed(resource, namespace)]

    def listed(self, resource: Resource, namespace: str = "") -> list[Stored]:
        objects = self.kind(resource).objects
        return [objects[key] for key in sorted(objects) if not namespace or key[0] == namespace]

    def create(self, resource: Resource, body: JsonObject, namespace: str = "", *, dry_run: bool = False) -> JsonObject:
        kind = self.kind(resource)
        obj = copy.deepcopy(body)
        metadata = dict(mapping(obj, "metadata"))
        obj["metadata"] = metadata
        if metadata.get("resourceVersion"):
            raise Refusal(400, "BadRequest", "resourceVersion should not be set on objects to be created")
        if resource.namespaced:
            self._check_namespace(metadata, namespace)
            metadata["namespace"] = namespace
        name = self._name(resource, metadata)
        if (namespace, name) in kind.objects:
            raise Refusal(409, "AlreadyExists", f'{resource.title} "{name}" already exists', name=name)
        number = next(self._numbers)
        metadata["uid"] = str(uuid.UUID(int=(0xFA6E << 112) + number))
        metadata["creationTimestamp"] = self.stamp()
        metadata["generation"] = 1
        obj.setdefault("apiVersion", resource.api_version)
        obj.setdefault("kind", resource.kind)
        if kind.has_status and resource.title not in KEEPS_STATUS:
            obj.pop("status", None)
        if resource == PODS:
            obj["status"] = {"phase": "Pending"}
        return obj if dry_run else self._put(kind, (namespace, name), obj, None).obj

    def _check_namespace(self, metadata: JsonObject, namespace: str) -> None:
        if metadata.get("namespace", namespace) != namespace:
            raise Refusal(400, "BadRequest", "the namespace of the object does not match the namespace of the request")
        if (NAMESPACES.group, NAMESPACES.version, NAMESPACES.plural) in self.kinds:
            self.get(NAMESPACES, namespace)

    def _name(self, resource: Resource, metadata: JsonObject) -> str:
        if not metadata.get("name"):
            prefix = metadata.get("generateName")
            if not prefix:
                message = (
                    f'{resource.title} "" is invalid: metadata.name: Required value: name or generateName is required'
                )
                raise Refusal(422, "Invalid", message, causes=[{"field": "metadata.name", "message": "Required value"}])
            metadata["name"] = f"{prefix}{next(self._numbers):05x}"
        return str(metadata["name"])

    def replace(
        self, resource: Resource, name: str, body: JsonObject, namespace: str = "", *, status: bool = False,
        dry_run: bool = False,
    ) -> JsonObject:  # fmt: skip
        kind, before = self.kind(resource), self.stored(resource, name, namespace)
        old, wanted = before.obj, mapping(body, "metadata")
        self._check_version(
            resource, name, old, uid=str(wanted.get("uid") or ""), version=str(wanted.get("resourceVersion") or "")
        )
        obj = copy.deepcopy(body)
        metadata = dict(mapping(old, "metadata"))
        if status:
            obj = {**old, "status": obj.get("status", {})}
        else:
            for key in ("labels", "annotations", "finalizers", "ownerReferences"):
                metadata.pop(key, None)
                if wanted.get(key):
                    metadata[key] = copy.deepcopy(wanted[key])
            if kind.has_status and "status" in old:
                obj["status"] = old["status"]
            self._check_spec(resource, name, old, obj)
            if obj.get("spec") != old.get("spec"):
                metadata["generation"] = integer(metadata, "generation") + 1
        obj["metadata"] = metadata
        obj.setdefault("apiVersion", resource.api_version)
        obj.setdefault("kind", resource.kind)
        if obj == old or dry_run:
            return obj  # what changes nothing gets no new version
        place = (namespace, name)
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers") and not self._dying(resource, obj):
            return self._remove(kind, place, obj)
        return self._put(kind, place, obj, before).obj

    def _check_spec(self, resource: Resource, name: str, old: JsonObject, new: JsonObject) -> None:
        if resource == PODS and text(new, "spec", "nodeName") != text(old, "spec", "nodeName"):
            message = f'Pod "{name}" is invalid: spec: Forbidden: pod updates may not change fields other than ...'
            raise Refusal(422, "Invalid", message, causes=[{"field": "spec", "message": "Forbidden"}])

    def _check_version(self, resource: Resource, name: str, old: JsonObject, *, uid: str, version: str) -> None:
        for said, key, word in ((uid, "uid", "UID"), (version, "resourceVersion", "ResourceVersion")):
            if said and said != text(old, "metadata", key):
                message = f"Precondition failed: {word} in precondition: {said}"
                raise Refusal(
                    409, "Conflict", f'cannot be fulfilled on {resource.title} "{name}": {message}', name=name
                )

    def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", version: str = "",
        grace_s: int | None = None, dry_run: bool = False,
    ) -> JsonObject | None:  # fmt: skip
        """The object if it stays for a while, None if it is gone."""
        kind, before = self.kind(resource), self.stored(resource, name, namespace)
        self._check_version(resource, name, before.obj, uid=uid, version=version)
        if dry_run:
            return before.obj
        obj = dict(before.obj)
        metadata = dict(mapping(obj, "metadata"))
        obj["metadata"] = metadata
        grace = self._grace_s(resource, obj, grace_s)
        if not grace and not metadata.get("finalizers"):
            self._remove(kind, (namespace, name), obj)
            if resource == NAMESPACES:
                self._remove_all_of(name)
            return None
        if "deletionTimestamp" not in metadata or grace < integer(metadata, "deletionGracePeriodSeconds"):
            metadata["deletionTimestamp"] = self.stamp(grace)
            metadata["deletionGracePeriodSeconds"] = grace
            obj = self._put(kind, (namespace, name), obj, before).obj
        return obj

    def bind(self, name: str, namespace: str, binding: JsonObject, *, dry_run: bool = False) -> None:
        before = self.stored(PODS, name, namespace)
        obj = copy.deepcopy(before.obj)
        self._check_version(PODS, name, obj, uid=text(binding, "metadata", "uid"), version="")
        target = text(binding, "target", "name")
        bound = text(obj, "spec", "nodeName")
        for wrong, why in (
            (
                bool(text(obj, "metadata", "deletionTimestamp")),
                f"pod {name} is being deleted, cannot be assigned to a host",
            ),
            (bool(bound), f"pod {name} is already assigned to node {bound!r}"),
            (bool(sequence(obj, "spec", "schedulingGates")), f"pod {name} has non-empty .spec.schedulingGates"),
        ):
            if wrong:
                raise Refusal(
                    409, "Conflict", f'Operation cannot be fulfilled on pods/binding "{name}": {why}', name=name
                )
        if dry_run:
            return
        mapping(obj, "spec")["nodeName"] = target
        if annotations := strings(binding, "metadata", "annotations"):
            metadata = mapping(obj, "metadata")
            metadata["annotations"] = {**mapping(metadata, "annotations"), **annotations}
        status = mapping(obj, "status")
        others = [one for one in sequence(status, "conditions") if mapping(one).get("type") != "PodScheduled"]
        status["conditions"] = [*others, {"type": "PodScheduled", "status": "True"}]
        self._put(self.kind(PODS), (namespace, name), obj, before)

    def compact(self) -> None:
        """Forget all events: watches and pages from before are 410 from now on."""
        for kind in self.kinds.values():
            kind.events.clear()
            kind.floor = self.version

    def stamp(self, after_s: int = 0) -> str:
        return (self.now() + timedelta(seconds=after_s)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _grace_s(self, resource: Resource, obj: JsonObject, asked: int | None) -> int:
        """Only a pod that a kubelet has gets time."""
        if (
            resource != PODS
            or not text(obj, "spec", "nodeName")
            or text(obj, "status", "phase") in ("Succeeded", "Failed")
        ):
            return 0
        return integer(obj, "spec", "terminationGracePeriodSeconds", default=30) if asked is None else asked

    def _dying(self, resource: Resource, obj: JsonObject) -> bool:
        return resource == PODS and integer(obj, "metadata", "deletionGracePeriodSeconds") > 0

    def _put(self, kind: Kind, key: tuple[str, str], obj: JsonObject, before: Stored | None) -> Stored:
        stored = self._stamped(obj)
        kind.objects[key] = stored
        self._tell(kind, Event(kind.resource, stored, before, gone=False))
        return stored

    def _remove(self, kind: Kind, key: tuple[str, str], obj: JsonObject) -> JsonObject:
        before = kind.objects.pop(key)
        stored = self._stamped(obj)
        self._tell(kind, Event(kind.resource, stored, before, gone=True))
        return stored.obj

    def _remove_all_of(self, namespace: str) -> None:
        for kind in self.kinds.values():
            for key in [key for key in kind.objects if key[0] == namespace]:
                self._remove(kind, key, dict(kind.objects[key].obj))

    def _stamped(self, obj: JsonObject) -> Stored:
        self.version += 1
        stamped = {**obj, "metadata": {**mapping(obj, "metadata"), "resourceVersion": str(self.version)}}
        return Stored(stamped, self.version)

    def _tell(self, kind: Kind, event: Event) -> None:
        kind.events.append(event)
        for listener in list(self.listeners):
            listener(event)
