"""The HTTP application: every simulated fabric under its name, each speaking all protocols.

`/<fabric>` is the root of a manager's API, as `fabrics[].url` of the settings says; a fabric answers every protocol
whatever driver its settings name.
"""

from collections.abc import Iterable

from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.fabric.simulator import admin, cm, fm, nec, redfish
from muster.fabric.simulator.manager import Manager
from muster.fabric.simulator.problems import HANDLED, Refusal, refused

BODY_BYTES_MAX = 1024 * 1024


def make_app(managers: Iterable[Manager]) -> FastAPI:
    """The application. FastAPI's own pages are left out: they load from other people's servers."""
    app = FastAPI(title="Simulated fabric managers", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.managers = {manager.model.name: manager for manager in managers}
    for module in (fm, cm, nec, redfish, admin):
        app.router.routes.extend(module.router.routes)  # flat: a nested router is matched and entered per request
    for error in HANDLED:
        app.add_exception_handler(error, refused)
    app.add_api_route("/", _fabrics, methods=["GET"])
    app.add_middleware(_BoundedBodies)
    return app


class _BoundedBodies:
    """Refuses requests larger than BODY_BYTES_MAX before they are in memory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > BODY_BYTES_MAX:
                raise Refusal(413, "TooLarge", f"the request is larger than {BODY_BYTES_MAX} bytes")
            return message

        await self._app(scope, counted, send)


async def _fabrics(request: Request) -> dict[str, list[str]]:
    """What is served; also says that the process is ready."""
    return {"fabrics": list(request.app.state.managers)}
