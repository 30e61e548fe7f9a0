"""Dependencies of handlers: the caller, its role, and the ports of the cluster that the request names."""

from collections.abc import Callable, Coroutine
from inspect import signature
from typing import Annotated

from fastapi import Depends, Query, Request, Response
from fastapi.openapi.models import HTTPBearer
from fastapi.routing import APIRoute
from fastapi.security.base import SecurityBase

from muster.gateway.authenticate import PRINCIPAL, is_read
from muster.gateway.authorise import Principal, refuse_unless
from muster.gateway.context import AppContext
from muster.gateway.problems import forbidden
from muster.gateway.visibility import sight_of
from muster.schemas.access import Role

ONLY_CLUSTER = "Only this cluster; by default all clusters"


class Route(APIRoute):
    """A route that calls a handler directly if the handler takes the request alone. There is nothing for FastAPI to
    resolve; this saves 27 us of processor time per request (decision 54). For frequently requested routes."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        """Return the handler, or the function that resolves its dependencies first."""
        takes_request_alone = [*signature(self.endpoint).parameters] == ["request"]
        return self.endpoint if takes_request_alone else super().get_route_handler()


async def app_context(request: Request) -> AppContext:
    """Return the ports of all clusters, without hiding anything."""
    return _wired(request)


WholeContext = Annotated[AppContext, Depends(app_context)]
"""Ports of all clusters, without hiding anything. For handlers that show nothing of jobs."""


class _BearerToken(SecurityBase):
    """The request's token; the middleware `Authentication` has already refused requests without a valid one."""

    def __init__(self) -> None:
        self.model = HTTPBearer()
        self.scheme_name = "token"

    async def __call__(self, request: Request) -> Principal:
        return caller_of(request)


def caller_of(request: Request) -> Principal:
    """Return the caller. Raises ProblemError (403) for a route that this principal may not read."""
    principal = request.scope[PRINCIPAL]
    assert isinstance(principal, Principal), "the application is wired with Authentication"
    route = str(getattr(request.scope.get("route"), "path", ""))
    if is_read(request.method, route) and not sight_of(principal, _wired(request).access).may_read(route):
        raise forbidden(
            f"{principal.name} ({principal.role.value}) may not see other teams, and this route shows all teams",
            field="Authorization",
            cure=f"Ask an admin to set access.{principal.role.value}.other_teams to outline.",
        )
    return principal


def context_of(request: Request) -> AppContext:
    """Return the ports that the caller may use. Raises ProblemError: 403 as `caller_of`, 404."""
    return context_for(caller_of(request), request)


def context_for(caller: Principal, request: Request, *, cluster: str | None = None) -> AppContext:
    """Return the ports that a caller may use. cluster: as the request names it. Raises ProblemError (404)."""
    context = _wired(request)
    cluster = request.query_params.get("cluster") if cluster is None else cluster
    if cluster and context.cells:
        context = context.of_cluster(cluster)
    return context.seen_by(sight_of(caller, context.access))


def _wired(request: Request) -> AppContext:
    context = request.app.state.context
    assert isinstance(context, AppContext), "the application is wired with its context"
    return context


Caller = Annotated[Principal, Depends(_BearerToken())]
"""The authenticated principal."""


async def _context(request: Request, caller: Caller) -> AppContext:
    return context_for(caller, request)


async def _first_cluster(
    request: Request,
    caller: Caller,
    cluster: Annotated[str, Query(description="Name of the cluster; by default the first one")] = "",
) -> AppContext:
    return context_for(caller, request, cluster=cluster)


async def _every_cluster(
    request: Request, caller: Caller, cluster: Annotated[str, Query(description=ONLY_CLUSTER)] = ""
) -> AppContext:
    return context_for(caller, request, cluster=cluster)


Context = Annotated[AppContext, Depends(_context)]
"""The caller's ports. A cluster that the request names counts, although the OpenAPI document does not show it."""

FirstClusterContext = Annotated[AppContext, Depends(_first_cluster)]
"""The caller's ports of the cluster that the request names, else of the first one."""

EveryClusterContext = Annotated[AppContext, Depends(_every_cluster)]
"""The caller's ports of the cluster that the request names, else of all clusters."""


def needs(role: Role, *, verb: str) -> object:
    """Return the dependency on a caller with this role. It raises ProblemError (403) for other callers.

    verb: the action that is refused. A request is authorized before its other parameters and its body are read.
    """

    async def authorized(caller: Caller) -> Principal:
        refuse_unless(caller, role, verb=verb)
        return caller

    return Depends(authorized)
