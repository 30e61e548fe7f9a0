"""The HTTP application: routes, refusals as problem documents, request metrics."""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from muster.gateway import answers
from muster.gateway.api import (
    access,
    campaigns,
    clusters,
    dashboard,
    devices,
    events,
    health,
    jobs,
    nodes,
    openapi,
    queues,
    readings,
    reservations,
    usage,
)
from muster.gateway.api.openapi import complete
from muster.gateway.authenticate import Authentication
from muster.gateway.context import AppContext
from muster.gateway.metrics import Counting
from muster.gateway.ports import NotStoredError, UnreachableError
from muster.gateway.problems import ProblemError

API_VERSION = "1"
_REFUSED = (ProblemError, ValidationError, RequestValidationError, NotStoredError, UnreachableError, HTTPException)
_OF_JOBS = (jobs.router, jobs.batch_router, jobs.action_router, readings.router)
_OF_FLEET = (
    queues.router,
    reservations.router,
    nodes.router,
    nodes.conditions_router,
    campaigns.router,
    usage.router,
    devices.router,
    clusters.router,
    clusters.federation_router,
)
_ROUTERS = (*_OF_JOBS, *_OF_FLEET, events.router, dashboard.router, access.router, health.router, openapi.router)


def make_app(context: AppContext) -> FastAPI:
    """Return the HTTP API over these ports."""
    app = _described()
    app.state.context = context
    app.state.pages = openapi.Pages(app)
    for error in _REFUSED:
        app.add_exception_handler(error, answers.refuse)
    app.add_middleware(
        Authentication,
        tokens=context.tokens,
        identities=context.identities,
        is_reserved=context.is_reserved,
        limits=context.limits,
        time=context.time,
    )
    app.add_middleware(Counting, metrics=context.metrics, time=context.time)
    return app


def document() -> dict[str, object]:
    """Return the OpenAPI document, as every gateway of this version serves it at `/openapi.json`."""
    return _described().openapi()


def _described() -> FastAPI:
    """Return the application without its ports. FastAPI's own pages are left out: they load from other servers."""
    app = FastAPI(
        title="Muster",
        version=API_VERSION,
        summary="A control plane for GPU fleets",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # `openapi` serves it, encoded once
        separate_input_output_schemas=False,  # requests and answers use the same models
        redirect_slashes=False,  # a redirect would use the Host header, which an attacker may choose
    )
    for router in _ROUTERS:
        app.router.routes.extend(router.routes)  # flat: a nested router is matched and entered per request
    app.router.routes.extend(dashboard.pages)
    complete(app)
    return app
