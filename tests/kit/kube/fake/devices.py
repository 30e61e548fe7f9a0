"""`resource.k8s.io` as older API servers serve it: kept as v1, and shown and taken as the version of the path has it.

Written by the Go types field by field, and not with Muster's translation, which it is to check: what a version has no
field for is dropped, and what it requires is asked for, as a real server does.
"""

from collections.abc import Callable

from kit.kube.fake.store import Refusal
from muster.kube.objects import JsonObject, mapping, objects, text
from muster.kube.resources import Resource

GROUP, STORED = "resource.k8s.io", "v1"
DEVICE_FIELDS = (
    "attributes", "capacity", "consumesCounters", "nodeName", "nodeSelector", "allNodes", "taints", "bindsToNode",
    "bindingConditions", "bindingFailureConditions",
)  # fmt: skip
REQUEST_FIELDS = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
)  # fmt: skip


def shown(resource: Resource, version: str, obj: JsonObject) -> JsonObject:
    """A stored object as this version has it."""
    said = {**obj}
    if "apiVersion" in obj:
        said["apiVersion"] = f"{GROUP}/{version}"
    if version != "v1beta1":
        return said
    if resource.plural == "resourceslices":
        devices = [
            {"name": text(one, "name"), "basic": {key: one[key] for key in DEVICE_FIELDS if key in one}}
            for one in objects(obj, "spec", "devices")
        ]
        said["spec"] = {**mapping(obj, "spec"), "devices": devices}
    if resource.plural == "resourceclaims":
        said["spec"] = _claim_spec(mapping(obj, "spec"), _flat)
    if resource.plural == "resourceclaimtemplates":
        said["spec"] = {**mapping(obj, "spec"), "spec": _claim_spec(mapping(obj, "spec", "spec"), _flat)}
    return said


def taken(resource: Resource, version: str, body: JsonObject, *, whole: bool) -> JsonObject:
    """What was sent in this version, as it is kept. whole: not a patch. Raises Refusal for what it would not take."""
    wanted, said = f"{GROUP}/{version}", body.get("apiVersion")
    if said is not None and said != wanted and not str(said).startswith("v1"):  # v1: options of a deletion
        message = f"the API version in the data ({said}) does not match the expected API version ({wanted})"
        raise Refusal(400, "BadRequest", message)
    kept = {**body} if said != wanted else {**body, "apiVersion": f"{GROUP}/{STORED}"}
    if "spec" not in body:
        return kept
    if version == "v1beta1" and resource.plural == "resourceslices":
        devices = [{"name": text(one, "name"), **_basic(one)} for one in objects(body, "spec", "devices")]
        kept["spec"] = {**mapping(body, "spec"), "devices": devices}
    if version == "v1beta1" and resource.plural == "resourceclaims":
        kept["spec"] = _claim_spec(mapping(body, "spec"), _exactly)
    if version == "v1beta1" and resource.plural == "resourceclaimtemplates":
        kept["spec"] = {**mapping(body, "spec"), "spec": _claim_spec(mapping(body, "spec", "spec"), _exactly)}
    if whole and resource.plural == "resourceclaims":
        for request in objects(kept, "spec", "devices", "requests"):
            if not text(request, "exactly", "deviceClassName") and not request.get("firstAvailable"):
                raise _required("spec.devices.requests[0].deviceClassName")
    return kept


def _claim_spec(spec: JsonObject, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    devices = mapping(spec, "devices")
    return {**spec, "devices": {**devices, "requests": [change(one) for one in objects(devices, "requests")]}}


def _flat(request: JsonObject) -> JsonObject:
    """v1 to v1beta1; `deviceClassName` is always there."""
    exactly = mapping(request, "exactly")
    rest = {key: exactly[key] for key in REQUEST_FIELDS if key in exactly}
    first = {key: request[key] for key in ("firstAvailable",) if key in request}
    return {"name": text(request, "name"), "deviceClassName": "", **rest, **first}


def _exactly(request: JsonObject) -> JsonObject:
    """v1beta1 to v1."""
    if request.get("firstAvailable"):
        return {"name": text(request, "name"), "firstAvailable": request["firstAvailable"]}
    return {"name": text(request, "name"), "exactly": {key: request[key] for key in REQUEST_FIELDS if key in request}}


def _basic(device: JsonObject) -> JsonObject:
    if "basic" not in device:
        raise _required("spec.devices[0].basic")
    return {key: value for key, value in mapping(device, "basic").items() if key in DEVICE_FIELDS}


def _required(field: str) -> Refusal:
    return Refusal(422, "Invalid", f"{field}: Required value", causes=[{"field": field, "message": "Required value"}])
