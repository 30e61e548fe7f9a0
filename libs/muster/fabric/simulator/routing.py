"""Common parts of every protocol's routes: look-up of the manager, its outage, authentication."""

from typing import Annotated, cast

from fastapi import Depends, Header, Request

from muster.fabric.simulator.manager import Manager
from muster.fabric.simulator.problems import Refusal

TRACE_CHARS_MAX = 256


def manager_of(request: Request, fabric: str) -> Manager:
    """Return the manager of the fabric that the path names. Raises Refusal (404)."""
    managers = cast("dict[str, Manager]", request.app.state.managers)
    if fabric not in managers:
        raise Refusal(404, "NoSuchFabric", f"fabric {fabric!r} is not simulated here: {', '.join(managers) or 'none'}")
    return managers[fabric]


async def at_work(request: Request, manager: Annotated[Manager, Depends(manager_of)]) -> Manager:
    """Return the manager if it works at present."""
    await manager.strike(request)
    return manager


async def for_known(
    manager: Annotated[Manager, Depends(at_work)], authorization: Annotated[str | None, Header()] = None
) -> Manager:
    """Return the manager for callers with a valid token. Raises Refusal (401)."""
    if manager.tokens is not None:
        manager.tokens.check(authorization, now=manager.now())
    return manager


def trace_of(traceparent: Annotated[str, Header()] = "") -> str:
    """Return the caller's trace (W3C Trace Context), unchanged except for its length."""
    return traceparent[:TRACE_CHARS_MAX]


Any = Annotated[Manager, Depends(manager_of)]
Working = Annotated[Manager, Depends(at_work)]
Known = Annotated[Manager, Depends(for_known)]
Trace = Annotated[str, Depends(trace_of)]
