"""ComposabilityRequest objects of the Composable Resource Operator's API (v0.2.1), as Muster's composer serves them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from muster.kube.objects import JsonObject, at, integer, is_object, mapping, name_of, sequence, uid_of, version_of
from muster.schemas.devices import ComposabilitySpec

FINALIZER = "muster.dev/composability"
"""Keeps an object until its devices are back in the pool."""
WORDS_MAX = 512


@dataclass(frozen=True, slots=True)
class RequestView:
    """One object. spec: None if it cannot be read, then error says why. status: as canonical JSON, "" without one.

    generation: of the spec. finalizers: all of them, others' too.
    """

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
        """Whether it waits for Muster before it goes."""
        return FINALIZER in self.finalizers


def project_request(raw: JsonObject) -> RequestView:
    """Raises nothing: a spec that cannot be is told in the object's status."""
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
    """The same text for equal objects."""
    return json.dumps(status, sort_keys=True, separators=(",", ":"))


def changes(was: str, wanted: JsonObject) -> JsonObject:
    """The merge patch (RFC 7386) that makes `wanted` of a canonical status: it takes away only what it says is null."""
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
