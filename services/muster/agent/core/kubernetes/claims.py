"""ResourceClaims of pods as in `resource.k8s.io/v1`: created, allocated and deallocated by exact rules.

A claim is created with the finalizer that protects an allocated claim, then `status.allocation` and `reservedFor` are
written at the version that was read, and only then its pod is bound. Sources: api/resource/v1 types.go and the
`dynamicresources` plugin of kube-scheduler 1.34.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from muster.agent.core.kubernetes import names
from muster.agent.core.kubernetes.slices import Place
from muster.kube.objects import (
    JsonObject,
    mapping,
    name_of,
    namespace_of,
    objects,
    sequence,
    strings,
    text,
    uid_of,
    version_of,
)

API_VERSION = "resource.k8s.io/v1"
FINALIZER = "resource.kubernetes.io/delete-protection"
_DIGITS_MAX = 20
Key = tuple[str, str]
"""Namespace and name of a claim."""
_Where = TypeVar("_Where", Place, str)
REQUEST = "gpus"
"""Name of the only request of a claim of Muster."""


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A claim."""

    namespace: str
    name: str
    uid: str
    owner: str = ""
    """Uid of the pod that owns it."""
    job: str = ""
    """Job in Muster's label, "" for foreign claims."""
    places: tuple[Place, ...] = ()
    reserved: tuple[str, ...] = ()
    """Uids of pods."""
    deleting: bool = False
    """Whether it is being deleted."""
    node: str = ""
    """Node of the allocation, if it names one."""
    pod: str = ""
    """Name of the pod that owns it."""
    version: int = field(default=0, compare=False)
    """Grows with every change; ignored by comparisons."""

    @property
    def key(self) -> tuple[str, str]:
        """Return namespace and name."""
        return self.namespace, self.name


def project_claim(raw: JsonObject) -> ClaimView:
    """Project a claim. Absent fields have their defaults; administrators' devices count as free."""
    results = objects(raw, "status", "allocation", "devices", "results")
    reserved, owner = objects(raw, "status", "reservedFor"), _owning_pod(raw)
    return ClaimView(
        namespace=namespace_of(raw),
        name=name_of(raw),
        uid=uid_of(raw),
        owner=text(owner, "uid"),
        job=strings(raw, "metadata", "labels").get(names.JOB_LABEL, ""),
        places=tuple(_place(one) for one in results if one.get("adminAccess") is not True),
        reserved=tuple(text(one, "uid") for one in reserved),
        deleting=bool(text(raw, "metadata", "deletionTimestamp")),
        node=_node(raw),
        pod=text(owner, "name"),
        version=_number(version_of(raw)),
    )


def claim_manifest(
    name: str,
    *,
    namespace: str,
    labels: Mapping[str, str],
    pod: tuple[str, str],
    device_class: str,
    count: int,
) -> JsonObject:
    """Return a claim for `count` GPUs of one pod (name and uid), which owns it."""
    pod_name, pod_uid = pod
    owner: JsonObject = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": pod_uid}
    exactly: JsonObject = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels),
            "finalizers": [FINALIZER],
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}},
    }


def allocated(claim: JsonObject, *, node: str, pod: tuple[str, str], places: Sequence[Place]) -> JsonObject:
    """Return the body that allocates these devices and reserves them for the pod, at the version that was read."""
    pod_name, pod_uid = pod
    results = [
        {"request": request, "driver": place.driver, "pool": place.pool, "device": place.device}
        for request, place in zip(_requested(claim, len(places)), places, strict=True)
    ]
    settings = [{**one, "source": "FromClaim"} for one in objects(claim, "spec", "devices", "config")]
    devices: JsonObject = {"results": results} | ({"config": settings} if settings else {})
    at_node = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    status: JsonObject = {
        "allocation": {"devices": devices, "nodeSelector": {"nodeSelectorTerms": [at_node]}},
        "reservedFor": [{"resource": "pods", "name": pod_name, "uid": pod_uid}],
    }
    return {**_without_status(claim), "status": status}


def deallocated(claim: JsonObject) -> JsonObject:
    """Return the body that removes the allocation, at the version that was read."""
    return {**_without_status(claim), "status": {}}


def protection(claim: JsonObject, *, wanted: bool, labels: Mapping[str, str] | None = None) -> JsonObject | None:
    """Return a merge patch that adds or removes the finalizer at the version that was read; None if nothing changes.

    `labels` are added, to mark the claim as used by Muster.
    """
    now = [one for one in sequence(claim, "metadata", "finalizers") if isinstance(one, str)]
    said = strings(claim, "metadata", "labels")
    lacking = {key: value for key, value in (labels or {}).items() if said.get(key) != value}
    if (FINALIZER in now) == wanted and not lacking:
        return None
    others = [one for one in now if one != FINALIZER]
    metadata: JsonObject = {
        "finalizers": [*others, FINALIZER] if wanted else others,
        "resourceVersion": version_of(claim),
    }
    return {"metadata": metadata | ({"labels": lacking} if lacking else {})}


def counts(claim: JsonObject) -> tuple[tuple[str, int], ...]:
    """Return name and number of devices of each request; 0 for requests of all, or of alternatives."""
    return tuple((text(one, "name"), _count(one)) for one in objects(claim, "spec", "devices", "requests"))


def _count(request: JsonObject) -> int:
    exactly = mapping(request, "exactly")
    if text(exactly, "allocationMode") not in ("", "ExactCount"):
        return 0
    number = exactly.get("count", 1)
    return number if exactly and isinstance(number, int) else 0


def _requested(claim: JsonObject, devices: int) -> Iterable[str]:
    """Return the request of each device. Raises ValueError if the claim asks for another number."""
    answered = [name for name, number in counts(claim) for _ in range(number)]
    if len(answered) != devices:
        raise ValueError(f"claim {name_of(claim)} asks for {len(answered)} devices, but {devices} were chosen")
    return answered


def _without_status(claim: JsonObject) -> JsonObject:
    return {key: value for key, value in claim.items() if key != "status"}


def _owning_pod(raw: JsonObject) -> JsonObject:
    """Return the reference to the owning pod; {} if there is none."""
    owners = objects(raw, "metadata", "ownerReferences")
    return next((one for one in owners if text(one, "kind") == "Pod" and one.get("controller") is True), {})


def _node(raw: JsonObject) -> str:
    """Return the only node of an allocation, "" if there is none."""
    for term in objects(raw, "status", "allocation", "nodeSelector", "nodeSelectorTerms"):
        for match in objects(term, "matchFields"):
            values = sequence(match, "values")
            if text(match, "key") == "metadata.name" and len(values) == 1 and isinstance(values[0], str):
                return values[0]
    return ""


def _number(version: str) -> int:
    """Return a resourceVersion as a number; clients may compare it since Kubernetes 1.35, and it always was etcd's."""
    return int(version) if version.isdecimal() and len(version) <= _DIGITS_MAX else 0


def _place(result: JsonObject) -> Place:
    return Place(text(result, "driver"), text(result, "pool"), text(result, "device"))


@dataclass(slots=True)
class Holders:
    """All claims of the cluster, as watched, by the devices that they hold.

    The API server does not refuse two claims for one device. So a writer checks for conflicts once the watch shows its
    write: events of one kind arrive in write order, so of two concurrent writers the later sees the earlier, and gives
    way.
    """

    claims: dict[Key, ClaimView] = field(default_factory=dict)
    _by_place: dict[Place, dict[Key, None]] = field(default_factory=dict)
    _by_owner: dict[str, dict[Key, None]] = field(default_factory=dict)
    _at: dict[str, int] = field(default_factory=dict)  # Muster's claims by node

    def put(self, view: ClaimView) -> None:
        """Add or update a claim."""
        self.remove(view.key)
        self.claims[view.key] = view
        for place in view.places:
            self._by_place.setdefault(place, {})[view.key] = None
        if view.job and view.places:
            self._at[view.node] = self._at.get(view.node, 0) + 1
        if view.owner:
            self._by_owner.setdefault(view.owner, {})[view.key] = None

    def remove(self, key: Key) -> None:
        """Remove a claim."""
        view = self.claims.pop(key, None)
        if view is None:
            return
        for place in view.places:
            _drop(self._by_place, place, key)
        _drop(self._by_owner, view.owner, key)
        if view.job and view.places:
            left = self._at.pop(view.node) - 1
            if left:
                self._at[view.node] = left

    def clear(self) -> None:
        """Forget all claims."""
        self.claims.clear()
        self._by_place.clear()
        self._by_owner.clear()
        self._at.clear()

    def of_pod(self, uid: str) -> list[ClaimView]:
        """Return the claims of this pod."""
        return [self.claims[key] for key in self._by_owner.get(uid, ())]

    def others(self, places: Iterable[Place], *, than: Key) -> list[ClaimView]:
        """Return other claims that hold one of these devices; a terminating claim of Muster holds none."""
        keys = dict.fromkeys(key for place in places for key in self._by_place.get(place, ()) if key != than)
        found = (self.claims[key] for key in keys)
        return [claim for claim in found if not (claim.job and claim.deleting)]

    def ours(self, place: Place) -> bool:
        """Return whether a claim of Muster holds the device."""
        return any(self.claims[key].job for key in self._by_place.get(place, ()))

    def hold_at(self, node: str) -> bool:
        """Return whether claims of Muster hold devices of this node."""
        return self._at.get(node, 0) > 0

    def foreign(self, places: Iterable[Place]) -> list[ClaimView]:
        """Return foreign claims that hold one of these devices."""
        return [claim for claim in self.others(places, than=("", "")) if not claim.job]


def _drop(index: dict[_Where, dict[Key, None]], where: _Where, key: Key) -> None:
    there = index.get(where)
    if there is not None:
        there.pop(key, None)
        if not there:
            del index[where]
