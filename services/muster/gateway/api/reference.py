"""`/docs`: the API as one page made from its OpenAPI document. No scripts, and nothing from other people's servers."""

from html import escape

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse

router = APIRouter()
_SCHEMAS = "#/components/schemas/"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code,h2{font-family:ui-monospace,monospace}h2{font-size:1rem;margin-top:2rem}"
    "table{border-collapse:collapse}td{padding:.1rem 1rem .1rem 0;vertical-align:top}"
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


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """Every operation with its parameters, body and answers."""
    document = _Document.model_validate(request.app.openapi())
    operations = [
        _operation(f"{method.upper()} {path}", operation)
        for path, methods in document.paths.items()
        for method, operation in methods.items()
    ]
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Muster: HTTP API</title><style>{_STYLE}</style>'
        "<h1>Muster: HTTP API</h1><p>Send <code>Authorization: Bearer TOKEN</code>. Refusals are problem documents "
        '(RFC 9457) that name the field. All schemas: <a href="/openapi.json">/openapi.json</a>.</p>'
        + "".join(operations)
        + "</html>",
        headers=_HEADERS,
    )


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
