"""The OpenAPI document, and `/openapi.json` and `/docs`, which are built from it once.

FastAPI does not know refusals, strictly parsed bodies, and lists of stored rows: they are described here. The page
`/docs` has no scripts, and loads nothing from other servers.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from html import escape

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, TypeAdapter, create_model

from muster.gateway import answers
from muster.gateway.answers import JSON, PROBLEM
from muster.gateway.api.parameters import AnyBody, JsonBody
from muster.gateway.dashboard import File, file_of
from muster.schemas.job import JobSpec
from muster.schemas.record import Document
from muster.schemas.views import Problem

Responses = dict[int | str, dict[str, object]]
Schema = dict[str, object]

_REFUSALS = {
    400: "The body is not JSON",
    401: "No token, or an invalid one",
    403: "The token's principal may not do this",
    404: "There is no resource of this name",
    409: "Conflicts with the current state",
    410: "The job ended, and its row is no longer kept",
    413: "Too large",
    422: "The named field is wrong, or the job can never run",
    429: "Rate limit of the token's principal exceeded; `Retry-After` gives the time to wait",
    503: "Unavailable now; nothing was lost, send the same request again",
}
OF_ALL = (401, 422, 429, 503)
"""Refusals of every route that requires a token."""
OF_BODIES = (400, 413)
"""Refusals of routes with a body."""

router = APIRouter()
_SCHEMAS = "#/components/schemas/"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code,h2{font-family:ui-monospace,monospace}h2{font-size:1rem;margin-top:2rem}"
    "table{border-collapse:collapse}td{padding:.1rem 1rem .1rem 0;vertical-align:top}"
)
_TITLE = "Muster: HTTP API"
_INTRODUCTION = (
    "<p>Send <code>Authorization: Bearer TOKEN</code>. Refusals are problem documents (RFC 9457) that name the field. "
    'All schemas: <a href="/openapi.json">/openapi.json</a>.</p>'
)
_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


def reference(model: type[Document]) -> Schema:
    """Return a reference to a model of the document."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def refusals(*statuses: int, always: tuple[int, ...] = OF_ALL) -> Responses:
    """Return `responses` of a route for its refusals. statuses: in addition to `always`."""
    content = {PROBLEM: {"schema": reference(Problem)}}
    return {status: {"description": _REFUSALS[status], "content": content} for status in sorted({*statuses, *always})}


def accepted(description: str, model: object, *, status: int = 202) -> Responses:
    """Return `responses` of a route for another answer than the first one. model: a type, or a union of types."""
    return {status: {"description": description, "model": model}}


@cache
def listing(name: str, model: type[Document], *, has_pages: bool = False) -> type[BaseModel]:
    """Return the model of an answer `{name: [...]}`, with `next_cursor` for a paged list."""
    fields: Mapping[str, object] = {name: (list[model], ...)} | ({"next_cursor": (str, ...)} if has_pages else {})  # type: ignore[valid-type]
    return create_model(f"{model.__name__}List", **fields)  # type: ignore[call-overload, no-any-return]


def parameter(name: str, description: str, *, place: str = "query", kind: str = "string") -> Schema:
    """Describe a parameter that a handler reads itself. place: `query`, `path` or `header`."""
    described = {"name": name, "in": place, "required": place == "path", "description": description}
    return described | {"schema": {"type": kind}}


def read_by_handler(*parameters: Schema, body: Schema | None = None) -> Schema:
    """Return `openapi_extra` of a route whose handler reads token, parameters and body itself.

    These are the hottest routes: FastAPI's dependency resolution would cost as much as the handlers.
    """
    bodies = {} if body is None else {"requestBody": {"required": True, "content": body}}
    return {"security": [{"token": []}], "parameters": list(parameters), **bodies}


def complete(app: FastAPI) -> None:
    """Add the strictly parsed bodies and the models of refusals to the document."""
    generate = app.openapi

    def openapi() -> Schema:
        if app.openapi_schema is None:
            document = generate()
            models: list[type[Document]] = [Problem, JobSpec]
            for route, read in _strict_bodies(app):
                models += read.models
                one, *others = map(reference, read.models)
                content = {JSON: {"schema": {"anyOf": [one, *others]} if others else one}}
                body = {"required": True, "content": content}
                for method in route.methods or ():
                    document["paths"][route.path][method.lower()]["requestBody"] = body
            _, shared = TypeAdapter.json_schemas(
                [(model.__name__, "validation", TypeAdapter(model)) for model in models],
                ref_template="#/components/schemas/{model}",
            )
            document["components"]["schemas"].update(shared["$defs"])
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _strict_bodies(app: FastAPI) -> Iterator[tuple[APIRoute, AnyBody | JsonBody]]:  # type: ignore[type-arg]
    for route in app.routes:
        if isinstance(route, APIRoute):
            for dependency in route.dependant.dependencies:
                if isinstance(dependency.call, AnyBody | JsonBody):
                    yield route, dependency.call


class _Schema(BaseModel):
    ref: str = Field("", alias="$ref")


class _Content(BaseModel):
    shape: _Schema = Field(_Schema(), alias="schema")


class _Parameter(BaseModel):
    name: str
    place: str = Field(alias="in")
    description: str = ""


class _Answer(BaseModel):
    description: str = ""
    content: dict[str, _Content] = {}


class _Operation(BaseModel):
    summary: str = ""
    description: str = ""
    parameters: list[_Parameter] = []
    body: _Answer = Field(_Answer(), alias="requestBody")
    responses: dict[str, _Answer] = {}


class _Document(BaseModel):
    paths: dict[str, dict[str, _Operation]]


class Pages:
    """The OpenAPI document and the `/docs` page of one application."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    @cached_property
    def document(self) -> File:
        """Return the OpenAPI document."""
        text = json.dumps(self._app.openapi(), ensure_ascii=False, separators=(",", ":"))
        return file_of(text.encode(), "application/json")

    @cached_property
    def page(self) -> File:
        """Return the page: every operation with its parameters, body and answers."""
        document = _Document.model_validate_json(self.document.body)
        operations = [
            _operation(f"{method.upper()} {path}", operation)
            for path, methods in document.paths.items()
            for method, operation in methods.items()
        ]
        head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{_TITLE}</title><style>{_STYLE}</style>'
        page = f"{head}<h1>{_TITLE}</h1>{_INTRODUCTION}{''.join(operations)}</html>"
        return file_of(page.encode(), "text/html")


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """Return the page of all operations."""
    return answers.file(request, _pages(request).page, _HEADERS)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    return answers.file(request, _pages(request).document, {})


def _pages(request: Request) -> Pages:
    pages = request.app.state.pages
    assert isinstance(pages, Pages), "the application is wired with its pages"
    return pages


def _operation(title: str, operation: _Operation) -> str:
    rows = [(f"{one.name} ({one.place})", one.description) for one in operation.parameters]
    rows += [("body", name) for name in _shapes(operation.body)]
    for status, answer in sorted(operation.responses.items()):
        rows.append((status, ": ".join([answer.description, *_shapes(answer)])))
    cells = "".join(f"<tr><td><code>{escape(name)}</code><td>{escape(text)}" for name, text in rows)
    told = escape(f"{operation.summary}. {operation.description}")
    return f"<h2>{escape(title)}</h2><p>{told}</p><table>{cells}</table>"


def _shapes(answer: _Answer) -> list[str]:
    return sorted({one.shape.ref.removeprefix(_SCHEMAS) for one in answer.content.values() if one.shape.ref})
