"""Errors of a simulated manager, in the form of the request's protocol."""

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import JSONResponse, Response

from muster.fabric.driver import FabricError, FabricUnavailableError

NONSENSE = b'{"data": {"machines": [{"mach_uuid": '
"""A truncated body: invalid JSON for every protocol."""


class Refusal(Exception):  # noqa: N818 - it is an answer
    """An error response."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message
        super().__init__(message)


class Nonsense(Exception):  # noqa: N818 - it is an answer
    """Response that no client can parse."""


class Silence(Exception):  # noqa: N818 - it is an answer
    """The call got no response, and its client has left."""


def problem(request: Request, status: int, code: str, message: str) -> JSONResponse:
    """Return an error in the form of the API of the request."""
    match _api_of(request):
        case "redfish":
            said: dict[str, object] = {"code": f"Base.1.0.{code}", "message": message, "@Message.ExtendedInfo": []}
            return JSONResponse({"error": said}, status)
        case "cdim":
            return JSONResponse({"code": code, "message": message}, status)
        case "id_manager":
            return JSONResponse({"error": code, "error_description": message}, status)
        case _:
            return JSONResponse({"status": status, "detail": {"code": code, "message": message, "data": {}}}, status)


async def refused(request: Request, error: Exception) -> Response:
    """Handler of everything that a route raises on purpose."""
    if isinstance(error, Nonsense):
        return Response(NONSENSE, media_type="application/json")
    if isinstance(error, Silence):
        return Response(status_code=503)  # no client is left to read it
    if isinstance(error, Refusal):
        return problem(request, error.status, error.code, error.message)
    if isinstance(error, FabricUnavailableError):
        return problem(request, 503, "ServiceUnavailable", str(error))
    if isinstance(error, FabricError):
        return problem(request, 400, "Refused", str(error))
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return problem(request, 400, _invalid_code(request), f"{where}: {first['msg']}")


HANDLED = (Nonsense, Silence, Refusal, FabricError, RequestValidationError)


def _api_of(request: Request) -> str:
    parts = request.url.path.split("/")
    return parts[2] if len(parts) > 2 else ""


def _invalid_code(request: Request) -> str:
    return "E40001" if _api_of(request) == "cdim" else "BadRequest"
