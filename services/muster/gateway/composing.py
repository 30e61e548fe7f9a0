"""From a request's body to a ComposabilityRequest, and from the composer's verdict to a refusal. Pure."""

import re
from dataclasses import dataclass

from pydantic_core import from_json

from muster.gateway.problems import ProblemError, conflict, invalid, not_found
from muster.schemas import ids
from muster.schemas.base import parse_request
from muster.schemas.devices import ComposabilityBody, ComposabilityManifest, ComposabilitySpec
from muster.schemas.queries import DeviceCheckAnswer

SCALER_NAMES = re.compile(r"s[0-9]{6,}")  # the scaler's choices are requests of these names
_OF_MANIFESTS = frozenset({"apiVersion", "kind"})


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants. name_path, spec_path: where the body says it, to name wrong fields by."""

    name: str
    spec: ComposabilitySpec
    name_path: str
    spec_path: str

    def path(self, field: str) -> str:
        """Where the body says a field of the specification; another field is named as it is."""
        if field == "name":
            return self.name_path
        return f"{self.spec_path}.{field}" if field.partition(".")[0] in ComposabilitySpec.model_fields else field


def parse(body: bytes, *, principal: str, key: str) -> Asked:
    """A manifest as it stands, or `{name?, spec}`. Without a name one is made of who asks and the idempotency key.

    Raises pydantic.ValidationError, ProblemError (422) for a name that is the scaler's.
    """
    if _is_manifest(body):
        manifest = parse_request(ComposabilityManifest, body)
        asked = Asked(manifest.metadata.name or "", manifest.spec.resource, "metadata.name", "spec.resource")
    else:
        short = parse_request(ComposabilityBody, body)
        asked = Asked(short.name or "", short.spec, "name", "spec")
    if SCALER_NAMES.fullmatch(asked.name):
        raise invalid(
            f"{asked.name} is a name of the scaler's own requests", field=asked.name_path, cure="Use another name."
        )
    return Asked(asked.name or ids.request_name(principal, key), asked.spec, asked.name_path, asked.spec_path)


def refuse_to_compose(verdict: DeviceCheckAnswer, asked: Asked) -> None:
    """Raises ProblemError if the composer would refuse: 409 if somebody stands in the way, else 422."""
    if verdict.field:
        raise _refusal(verdict, field=asked.path(verdict.field))


def refuse_to_detach(verdict: DeviceCheckAnswer, *, what: str, name: str) -> None:
    """Raises ProblemError if the composer would refuse: 404 for what it does not know, else as above."""
    if verdict.unknown:
        raise not_found(what, name)
    if verdict.field:
        raise _refusal(verdict, field=verdict.field)


def _refusal(verdict: DeviceCheckAnswer, *, field: str) -> ProblemError:
    if not verdict.holder:
        return invalid(verdict.reason, field=field)
    told = "" if verdict.holder in verdict.reason else f" (in the way: {verdict.holder})"
    return conflict(f"{verdict.reason}{told}", field=field, holder=verdict.holder)


def _is_manifest(body: bytes) -> bool:
    """What is no JSON at all is told by whoever parses it."""
    try:
        document = from_json(body)
    except ValueError:
        return False
    return isinstance(document, dict) and not _OF_MANIFESTS.isdisjoint(document)
