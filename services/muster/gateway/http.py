"""The application: routes, refusals as problem documents, counting."""

from fastapi import FastAPI
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.gateway.api import (
    access,
    answers,
    composability,
    devices,
    events,
    health,
    job_actions,
    jobs,
    live,
    nodes,
    queues,
    reference,
    reservations,
    scale,
)
from muster.gateway.api.describe import complete
from muster.gateway.house import House
from muster.gateway.ports import NotStoredError, UnreachableError
from muster.gateway.problems import ProblemError

API_VERSION = "1"
_OF_JOBS = (jobs, job_actions)
_APIS = (*_OF_JOBS, queues, reservations, nodes, composability, devices, scale, events, live, access, health, reference)


def make_app(house: House) -> FastAPI:
    """The HTTP API of one house. FastAPI's own pages are left out: they load from other people's servers."""
    app = FastAPI(
        title="Muster", version=API_VERSION, summary="A control plane for GPU fleets", docs_url=None, redoc_url=None
    )
    app.state.house = house
    for module in _APIS:
        app.router.routes.extend(module.router.routes)  # flat: a nested router is matched and entered per request
    for error in (ProblemError, ValidationError, NotStoredError, UnreachableError, HTTPException):
        app.add_exception_handler(error, answers.refuse)
    app.add_middleware(_Counting, house=house)
    complete(app)
    return app


class _Counting:
    """Counts answers by route template, so that ids never become labels."""

    def __init__(self, app: ASGIApp, *, house: House) -> None:
        self._app = app
        self._requests = house.metrics.requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "unknown")
                self._requests.labels(route, scope["method"], str(message["status"])).inc()
            await send(message)

        await self._app(scope, receive, counted)
