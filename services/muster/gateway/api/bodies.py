"""Bodies of requests: read up to a limit, then strictly, with unknown fields and keys given twice refused."""

from dataclasses import dataclass
from typing import Generic

from fastapi import Request
from starlette.requests import ClientDisconnect

from muster.gateway.problems import ProblemError, invalid, timed_out, too_large
from muster.schemas.base import BODY_BYTES_MAX, Model, Wire, parse_request

DRAINED_BYTES_MAX = 32 * 1024 * 1024  # of a body that is refused: a client that still writes would not read the answer


async def read_body(request: Request) -> bytes:
    """Return the body, up to its limit and never more; what is longer is read past, then refused.

    Raises ProblemError (408, 413, 422).
    """
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal():
        raise invalid("not a number", field="Content-Length")
    is_refused = int(declared) > BODY_BYTES_MAX
    if int(declared) > DRAINED_BYTES_MAX or (is_refused and "expect" in request.headers):
        raise _body_too_large()  # too much to read past; or a client that asked before it writes
    chunks, read_bytes = bytearray(), 0
    try:
        async for chunk in request.stream():
            read_bytes += len(chunk)
            if read_bytes <= BODY_BYTES_MAX:
                chunks += chunk
            elif read_bytes > DRAINED_BYTES_MAX:
                break
    except ClientDisconnect as error:
        raise timed_out("the connection ended before the body did", field="body") from error
    if is_refused or read_bytes > BODY_BYTES_MAX:
        raise _body_too_large()
    return bytes(chunks)


@dataclass(frozen=True)
class AnyBody:
    """Dependency on a body that the handler reads itself. models: one of which it is, for the OpenAPI document."""

    models: tuple[type[Wire], ...]

    async def __call__(self, request: Request) -> bytes:
        """See `read_body`."""
        return await read_body(request)


@dataclass(frozen=True)
class JsonBody(Generic[Model]):
    """Dependency on a body of one model."""

    model: type[Model]

    async def __call__(self, request: Request) -> Model:
        """Return the body. Raises pydantic.ValidationError, and ProblemError as `read_body`."""
        return parse_request(self.model, await read_body(request))

    @property
    def models(self) -> tuple[type[Wire], ...]:
        """Return the model, for the OpenAPI document."""
        return (self.model,)


def _body_too_large() -> ProblemError:
    return too_large(
        f"a body may have {BODY_BYTES_MAX} bytes", field="body", cure="Send a smaller specification.", close=True
    )
