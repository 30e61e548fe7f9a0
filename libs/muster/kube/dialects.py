"""`resource.k8s.io` in each version that API servers serve, read and written as if all of them were v1. Pure.

Kubernetes 1.32 serves v1beta1, 1.33 v1beta2 beside it, 1.34 v1. v1beta2 differs from v1 in its name alone. v1beta1 puts
what a device is into `basic`, and what a request asks for beside its name, where v1 says `exactly`. Everything else,
the allocation above all, is alike. Source: api/resource/{v1beta1,v1beta2,v1}/types.go of Kubernetes 1.32 and 1.34.

What is not known here comes back as it was read: a claim that is replaced keeps fields that Muster never heard of.
"""

from collections.abc import Callable, Iterable

from muster.kube.objects import JsonObject, is_object
from muster.kube.resources import Resource

GROUP = "resource.k8s.io"
CANONICAL = "v1"
"""What all others read and write."""
VERSIONS = (CANONICAL, "v1beta2", "v1beta1")
"""Newest first."""
_FLAT = f"{GROUP}/v1beta1"
_LISTS = {
    "resourceslices": ("spec", "devices"),
    "resourceclaims": ("spec", "devices", "requests"),
    "resourceclaimtemplates": ("spec", "spec", "devices", "requests"),
}
"""Where the list is whose entries differ, by plural."""
_NAME, _BASIC, _EXACTLY, _ALTERNATIVES = "name", "basic", "exactly", "firstAvailable"


def is_translated(resource: Resource) -> bool:
    """Whether it is of the group that is spoken in several versions."""
    return resource.group == GROUP


def newest(versions: Iterable[str]) -> str:
    """Of those that a server has, the newest that is spoken here; "" if there is none."""
    there = frozenset(versions)
    return next((version for version in VERSIONS if version in there), "")


def is_served(group_version: str, served: Iterable[str]) -> bool:
    """Whether a feature's group is there: of `resource.k8s.io` any version that is spoken. served: as /apis has it."""
    there = frozenset(served)
    if group_version == GROUP:
        return any(f"{GROUP}/{version}" in there for version in VERSIONS)
    return group_version in there


def understood(resource: Resource, obj: JsonObject, api_version: str = "") -> JsonObject:
    """An object as v1 has it. api_version: of the list that it came in, whose objects do not say theirs.

    The object itself stays as it is. What is no object of the group, such as a Status, is answered as it is.
    """
    if resource.group != GROUP:
        return obj
    said = api_version or obj.get("apiVersion")
    if said == resource.api_version or not isinstance(said, str) or not said.startswith(f"{GROUP}/"):
        return obj
    if said == _FLAT:
        obj = _with(obj, _LISTS.get(resource.plural, ()), _gathered if _is_slice(resource) else _asked_exactly)
    return {**obj, "apiVersion": resource.api_version} if "apiVersion" in obj else obj


def worded(resource: Resource, body: JsonObject, version: str) -> JsonObject:
    """An object of v1, or a merge patch of one, as the version has it."""
    if version == CANONICAL:
        return body
    if f"{GROUP}/{version}" == _FLAT:
        body = _with(body, _LISTS.get(resource.plural, ()), _with_basic if _is_slice(resource) else _flattened)
    if body.get("apiVersion") != resource.api_version:
        return body  # a patch need not say it, and options of a deletion are of another group
    return {**body, "apiVersion": f"{GROUP}/{version}"}


def _is_slice(resource: Resource) -> bool:
    return resource.plural == "resourceslices"


def _with(obj: JsonObject, path: tuple[str, ...], change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """With every object of the list at the path changed; as it is where the path leads nowhere."""
    if not path or path[0] not in obj:
        return obj
    key, rest = path[0], path[1:]
    there = obj[key]
    if rest:
        return {**obj, key: _with(there, rest, change)} if is_object(there) else obj
    if not isinstance(there, list):
        return obj
    return {**obj, key: [change(one) if is_object(one) else one for one in there]}


def _gathered(device: JsonObject) -> JsonObject:
    """A device of v1beta1."""
    basic = device.get(_BASIC)
    rest = {key: value for key, value in device.items() if key != _BASIC}
    return {**rest, **basic} if is_object(basic) else rest


def _with_basic(device: JsonObject) -> JsonObject:
    return {
        _NAME: device.get(_NAME, ""),
        _BASIC: {key: value for key, value in device.items() if key != _NAME},
    }


def _asked_exactly(request: JsonObject) -> JsonObject:
    """A request of v1beta1. One with alternatives has the class "" beside them, which v1 has no place for."""
    rest = {key: value for key, value in request.items() if key not in (_NAME, _ALTERNATIVES)}
    named: JsonObject = {_NAME: request.get(_NAME, "")}
    if request.get(_ALTERNATIVES):
        return {**named, _ALTERNATIVES: request[_ALTERNATIVES]}
    return {**named, _EXACTLY: rest}


def _flattened(request: JsonObject) -> JsonObject:
    exactly = request.get(_EXACTLY)
    rest = {key: value for key, value in request.items() if key != _EXACTLY}
    return {**rest, **exactly} if is_object(exactly) else rest
