"""Objects of the field's operator (Composable Resource Operator v0.2.1) that Muster writes and follows."""

from dataclasses import dataclass

from muster.kube.objects import JsonObject, at, integer, mapping, name_of, strings, text, uid_of, version_of
from muster.schemas.devices import GPU

MANAGED_BY = "app.kubernetes.io/managed-by"
"""Label: of a request, who wrote it; of a resource, its request."""
OWN = "muster"
DELETE_MARK = "cohdi.io/delete-device"
"""Annotation of a resource: the operator gives this one back before others."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where devices of one request go, and what they are: the operator has one request for each."""

    node: str
    type: str
    model: str


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
    """A ComposableResource: one device. of: its request. is_marked: it is the first to go."""

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
    """None for others' requests."""
    if strings(raw, "metadata", "labels").get(MANAGED_BY) != OWN:
        return None
    resource = mapping(raw, "spec", "resource")
    return OwnRequestView(
        name=name_of(raw),
        uid=uid_of(raw),
        version=version_of(raw),
        site=Site(text(resource, "target_node"), text(resource, "type") or GPU, text(resource, "model")),
        size=integer(resource, "size"),
        error=text(raw, "status", "error"),
        is_going=at(raw, "metadata", "deletionTimestamp") is not None,
    )


def project_resource(raw: JsonObject) -> ResourceView:
    """Raises nothing: what is absent counts as its default."""
    spec, status = mapping(raw, "spec"), mapping(raw, "status")
    return ResourceView(
        name=name_of(raw),
        uid=uid_of(raw),
        of=strings(raw, "metadata", "labels").get(MANAGED_BY, ""),
        site=Site(text(spec, "target_node"), text(spec, "type") or GPU, text(spec, "model")),
        state=text(status, "state"),
        device_uuid=text(status, "device_id"),
        device_id=text(status, "cdi_device_id"),
        error=text(status, "error"),
        is_marked=strings(raw, "metadata", "annotations").get(DELETE_MARK) == "true",
    )
