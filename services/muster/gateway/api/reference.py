"""`/docs` and `/openapi.json`: the API's document, and one page made from it. Both are made once, when first asked for.

The page has no scripts, and nothing from other people's servers.
"""

import json
from functools import cached_property
from html import escape

from fastapi import APIRouter, FastAPI, Request, Response
from pydantic import BaseModel, Field

from muster.gateway import answers
from muster.gateway.dashboard import File, file_of

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
    """The document and the page of one application."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    @cached_property
    def document(self) -> File:
        """The OpenAPI document."""
        text = json.dumps(self._app.openapi(), ensure_ascii=False, separators=(",", ":"))
        return file_of(text.encode(), "application/json")

    @cached_property
    def page(self) -> File:
        """Every operation with its parameters, body and answers."""
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
    """The page."""
    return answers.file(request, _pages(request).page, _HEADERS)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The document."""
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
