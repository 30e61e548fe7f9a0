"""The OpenAPI document of handlers that read the request themselves: parameters, bodies and refusals said once."""

from collections.abc import Mapping
from typing import TypedDict

from fastapi import FastAPI
from pydantic import TypeAdapter

from muster.schemas.access import MeView, TokenMade, TokenRecord, TokenView
from muster.schemas.apiserver import ApiServerReport, ClusterView
from muster.schemas.campaigns import CampaignPreview, CampaignView
from muster.schemas.conditions import ConditionsAnswer
from muster.schemas.devices import (
    ComposabilityBody,
    ComposabilityManifest,
    DeviceView,
    FabricView,
    RequestView,
)
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.facts.upgrade import CampaignSpec
from muster.schemas.job import JobSpec, PriorityChange
from muster.schemas.live import JobReadings, LiveCredential, OutputPage, Snapshot
from muster.schemas.members import AssignmentView, FederationView, MemberView, RoutesView
from muster.schemas.queries import DryRunAnswer, ScaleChoiceView, WhyAnswer
from muster.schemas.record import Document
from muster.schemas.routing import RoutingPolicy
from muster.schemas.usage import Energy, Idle, JobUse, Top
from muster.schemas.views import FactView, JobView, NodeView, Problem, QueueView, ReservationView, SubmitAnswer

JsonObject = dict[str, object]

_REFUSALS = {
    400: "The body is not JSON",
    401: "No token, or one that nobody knows",
    403: "The token's bearer may not do this",
    404: "There is none of that name",
    409: "It contradicts what stands",
    410: "It ended, and its row is no longer kept",
    413: "Too large",
    422: "The named field is wrong, or the job could never run",
    429: "More than the limits of the token's bearer allow; `Retry-After` says when to send it again",
    503: "Not now; nothing was lost, send the same request again",
}
_SHOWN: tuple[type[Document], ...] = (
    ApiServerReport,
    Energy,
    Idle,
    JobUse,
    Top,
    AssignmentView,
    CampaignPreview,
    CampaignSpec,
    CampaignView,
    ClusterView,
    ComposabilityBody,
    ComposabilityManifest,
    ConditionsAnswer,
    DeviceView,
    DryRunAnswer,
    FabricView,
    FactView,
    FederationView,
    JobReadings,
    JobSpec,
    JobView,
    LiveCredential,
    MeView,
    MemberView,
    NodeView,
    OutputPage,
    PriorityChange,
    Problem,
    QueueSpec,
    QueueView,
    RequestView,
    ReservationSpec,
    ReservationView,
    RoutesView,
    RoutingPolicy,
    ScaleChoiceView,
    Snapshot,
    SubmitAnswer,
    TokenMade,
    TokenRecord,
    TokenView,
    WhyAnswer,
)


class Description(TypedDict):
    """What FastAPI's decorators take."""

    response_model: None
    responses: dict[int | str, dict[str, object]]
    openapi_extra: dict[str, object]


def reference(model: type[Document]) -> JsonObject:
    """A reference to a model of the document."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def any_of(*models: type[Document]) -> JsonObject:
    """One of several models."""
    return {"anyOf": [reference(model) for model in models]}


def tree_of(name: str, model: type[Document], *, most: int) -> JsonObject:
    """A body `{name: [...]}` of at most so many."""
    listed: JsonObject = {"type": "array", "items": reference(model), "minItems": 1, "maxItems": most}
    return {"type": "object", "required": [name], "properties": {name: listed}, "additionalProperties": False}


def list_of(name: str, model: type[Document]) -> JsonObject:
    """An answer `{name: [...]}`."""
    return {"type": "object", "required": [name], "properties": {name: {"type": "array", "items": reference(model)}}}


def query(name: str, description: str, *, kind: str = "string") -> JsonObject:
    """An optional query parameter."""
    return {"name": name, "in": "query", "required": False, "description": description, "schema": {"type": kind}}


def header(name: str, description: str) -> JsonObject:
    """An optional header."""
    return {"name": name, "in": "header", "required": False, "description": description, "schema": {"type": "string"}}


def path(name: str, description: str) -> JsonObject:
    """A part of the path."""
    return {"name": name, "in": "path", "required": True, "description": description, "schema": {"type": "string"}}


CLUSTER = query("cluster", "Of which cluster; by default the first one")
"""Of routes that one cluster's services answer; an unknown name is a 404 that tells those that there are."""
ONLY_CLUSTER = query("cluster", "Only of this cluster; by default of all")
"""Of routes that tell of all clusters."""


def describe(
    answers: Mapping[int, tuple[str, JsonObject | None]],
    *,
    refusals: tuple[int, ...] = (401, 503),
    parameters: tuple[JsonObject, ...] = (),
    body: type[Document] | JsonObject | None = None,
    media: str = "application/json",
    stream: bool = False,
) -> Description:
    """Everything about one operation. answers: by status, what it means and its schema. media: of the body.

    stream: also as SSE.
    """
    responses: dict[int | str, dict[str, object]] = {}
    for status, (text, schema) in answers.items():
        content: JsonObject = {"application/json": {"schema": schema}} if schema is not None else {}
        if stream:
            content["text/event-stream"] = {"schema": {"type": "string"}}
        responses[status] = {"description": text, "content": content} if content else {"description": text}
    if 401 in refusals:  # whoever is known has limits
        refusals = tuple(sorted({*refusals, 429}))
    for status in refusals:
        content = {"application/problem+json": {"schema": reference(Problem)}}
        responses[status] = {"description": _REFUSALS[status], "content": content}
    extra: JsonObject = {"security": [{"token": []}] if 401 in refusals else []}
    if parameters:
        extra["parameters"] = list(parameters)
    if body is not None:
        schema = body if isinstance(body, dict) else reference(body)
        extra["requestBody"] = {"required": True, "content": {media: {"schema": schema}}}
    return {"response_model": None, "responses": responses, "openapi_extra": extra}


def complete(app: FastAPI) -> None:
    """Make the document hold the models that handlers read and write themselves."""
    generate = app.openapi

    def openapi() -> dict[str, object]:
        if app.openapi_schema is None:
            document = generate()
            _, shared = TypeAdapter.json_schemas(
                [(model.__name__, "validation", TypeAdapter(model)) for model in _SHOWN],
                ref_template="#/components/schemas/{model}",
            )
            components = document.setdefault("components", {})
            components.setdefault("schemas", {}).update(shared["$defs"])
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
