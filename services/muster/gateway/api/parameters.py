"""Parameters shared by several routes. A refusal names the field and the allowed values.

FastAPI collects errors of parameters and raises them after all dependencies were resolved, so after authorization.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Header, Path, Query, Request
from pydantic import AfterValidator, BeforeValidator, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from starlette.requests import ClientDisconnect

from muster.gateway.accept import KEY_PATTERN, TRACEPARENT
from muster.gateway.api.dependencies import needs
from muster.gateway.authorise import Principal
from muster.gateway.problems import ProblemError, from_parameter, invalid, timed_out, too_large
from muster.schemas import ids
from muster.schemas.access import Role
from muster.schemas.base import BODY_BYTES_MAX, TEXT_CHARS_MAX, Model, Wire, parse_request

DRAINED_BYTES_MAX = 32 * 1024 * 1024  # read of a refused body: a client that still writes would not read the answer

Read = TypeVar("Read")
_JOB_ID = re.compile(r"[A-Z2-7]{26}")
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


async def read_body(request: Request) -> bytes:
    """Return the body; read a longer one to its end, then refuse it.

    Raises ProblemError (408, 413, 422).
    """
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal():
        raise invalid("not a number", field="Content-Length")
    is_refused = int(declared) > BODY_BYTES_MAX
    if int(declared) > DRAINED_BYTES_MAX or (is_refused and "expect" in request.headers):
        raise _body_too_large()  # too much to read; or a client that waits for `100 Continue` before it writes
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
    """Dependency on a body that the handler parses itself."""

    models: tuple[type[Wire], ...]
    """The models that the body may have, for the OpenAPI document."""

    async def __call__(self, request: Request) -> bytes:
        """Return the body as bytes. Raises ProblemError as `read_body`."""
        return await read_body(request)


@dataclass(frozen=True)
class JsonBody(Generic[Model]):
    """Dependency on a body of one model."""

    model: type[Model]

    async def __call__(self, request: Request) -> Model:
        """Return the parsed body. Raises pydantic.ValidationError, and ProblemError as `read_body`."""
        return parse_request(self.model, await read_body(request))

    @property
    def models(self) -> tuple[type[Wire], ...]:
        """Return the model, for the OpenAPI document."""
        return (self.model,)


def _body_too_large() -> ProblemError:
    return too_large(
        f"a body has at most {BODY_BYTES_MAX} bytes",
        field="body",
        cure="Send a smaller specification.",
        close=True,
    )


def refused(detail: str, *, cure: str) -> PydanticCustomError:
    """Return the error of a parameter; `problems.from_parameter` makes a problem document of it."""
    return PydanticCustomError("parameter", "{detail}", {"detail": detail, "cure": cure})


@dataclass(frozen=True)
class Count:
    """Annotation of a whole number from `least` to `most`, in decimal digits."""

    most: int
    least: int = 1

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self, core_schema.int_schema(ge=self.least, le=self.most))

    def __call__(self, given: object) -> int:
        """Parse a number."""
        text = str(given)
        digits_max = len(str(self.most))
        is_number = text.isascii() and text.isdecimal() and len(text) <= digits_max
        if not (is_number and self.least <= int(text) <= self.most):
            allowed = f"{self.least} to {self.most}"
            raise refused(f"{text[:20]!r} is not between {self.least} and {self.most}", cure=f"Send {allowed}.")
        return int(text)


class OneOf:
    """Annotation of an enumeration of strings."""

    def __get_pydantic_core_schema__(self, source: type[StrEnum], handler: GetCoreSchemaHandler) -> CoreSchema:
        words = ", ".join(one.value for one in source)

        def read(given: object) -> StrEnum:
            text = str(given)
            try:
                return source(text)
            except ValueError:
                raise refused(f"{text[:20]!r} is not one of {words}", cure=f"Send one of {words}.") from None

        return core_schema.no_info_before_validator_function(read, handler(source))


def read_flag(given: object) -> bool:
    """Parse a flag."""
    found = _FLAGS.get(str(given).lower())
    if found is None:
        raise refused(f"{str(given).lower()[:20]!r} is neither true nor false", cure="Send true or false.")
    return found


def read_job_id(text: str) -> str:
    """Parse a job id."""
    if not _JOB_ID.fullmatch(text):
        raise refused(f"{text[:40]!r} is not a job id", cure="A job id has 26 characters: A to Z and 2 to 7.")
    return text


def _reason(text: str) -> str:
    if len(text) > TEXT_CHARS_MAX:
        raise refused(f"the reason has more than {TEXT_CHARS_MAX} characters", cure="Shorten it.")
    return text


def _new_key() -> str:
    return os.urandom(16).hex()


def _key(text: str) -> str:
    if text and not KEY_PATTERN.match(text):
        raise refused(
            "an idempotency key is 1 to 200 printable characters without spaces",
            cure="Send a shorter key, a UUID for example.",
        )
    return text or _new_key()


Flag = Annotated[bool, BeforeValidator(read_flag)]
"""`true`, `false`, 1 or 0."""

JobId = Annotated[str, Path(description="Id of the job"), AfterValidator(read_job_id)]
Reason = Annotated[str, Query(description="Reason, recorded in the log"), AfterValidator(_reason)]
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        description="The same key means the same request",
        default_factory=_new_key,
    ),
    AfterValidator(_key),
]
"""The idempotency key of the client; if it sends none, each request is a new one."""

Force = Annotated[Flag, Query(description="Also detach devices that jobs use")]


@dataclass(frozen=True, slots=True)
class Identification:
    """The idempotency key and the trace context of a request."""

    key: str
    traceparent: str
    """The client's trace context; "" for none."""

    def trace(self, name: str) -> str:
        """Return the client's trace context, else one derived from the request. name: the object of the request."""
        if TRACEPARENT.match(self.traceparent):
            return self.traceparent
        own = f"{name} {self.key}"
        return ids.traceparent(ids.trace_id(own), ids.span_id(own))


async def _identification(
    key: IdempotencyKey,
    traceparent: Annotated[
        str, Header(description="W3C trace context that the facts and the calls to the fabric carry")
    ] = "",
) -> Identification:
    return Identification(key, traceparent)


Identified = Annotated[Identification, Depends(_identification)]


@dataclass(frozen=True, slots=True)
class OperatorRequest(Identification):
    """A request of an operator."""

    principal: str
    reason: str


def by_operator(verb: str) -> object:
    """Return the dependency on a request of an operator. It raises ProblemError (403) for other callers, as `needs`."""

    async def asked(
        operator: Annotated[Principal, needs(Role.OPERATOR, verb=verb)], identified: Identified, reason: Reason = ""
    ) -> OperatorRequest:
        return OperatorRequest(identified.key, identified.traceparent, operator.name, reason)

    return Depends(asked)


def read_here(text: str | None, read: Callable[[str], Read], *, field: str, default: Read) -> Read:
    """Parse a parameter that a handler reads itself, with the errors of FastAPI. Raises ProblemError (422)."""
    try:
        return default if text is None else read(text)
    except PydanticCustomError as error:
        detail = {"loc": (field,), "type": error.type, "msg": error.message(), "ctx": error.context}
        raise from_parameter(detail) from error
