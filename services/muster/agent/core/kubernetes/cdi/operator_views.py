"""Objects of the field's operator (Composable Resource Operator v0.2.1) that Muster writes and follows."""

from dataclasses import dataclass

from muster.kube.objects import JsonObject, at, integer, mapping, name_of, strings, text, uid_of, version_of
from muster.schemas.base import LABEL_CHARS_MAX
from muster.schemas.devices import GPU

MANAGED_BY = "app.kubernetes.io/managed-by"
"""Label: of a request, who wrote it; of a resource, its request."""
OWN = "muster"
DELETE_MARK = "cohdi.io/delete-device"
"""Annotation of a resource: the operator gives this one back before others."""


WORDS_MAX = 512
"""Characters of what the operator says of an error."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where devices of one request go, and what they are: the operator has one request for each."""

    node: str
    type: str
    model: str

    @property
    def can_be_told(self) -> bool:
        """Whether a fact can hold it: anybody may write such objects."""
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
        error=text(raw, "status", "error")[:WORDS_MAX],
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
        state=text(status, "state")[:LABEL_CHARS_MAX],
        device_uuid=text(status, "device_id")[:LABEL_CHARS_MAX],
        device_id=text(status, "cdi_device_id")[:LABEL_CHARS_MAX],
        error=text(status, "error")[:WORDS_MAX],
        is_marked=strings(raw, "metadata", "annotations").get(DELETE_MARK) == "true",
    )
