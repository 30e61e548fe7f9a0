"""Wait until a requested change was made."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import TypeVar

from fastapi import Response

from muster.core import Draft
from muster.gateway.api.parameters import OperatorRequest
from muster.gateway.context import AppContext
from muster.gateway.ports import UnreachableError

CHANGE_WAIT_S = 2.0
CHANGE_POLL_S = 0.05

Found = TypeVar("Found")


async def until_so(context: AppContext, look: Callable[[], Awaitable[Found | None]]) -> Found | None:
    """Return what `look` finds after the change; None if nothing is found within CHANGE_WAIT_S."""
    deadline_s = context.time.monotonic_s() + CHANGE_WAIT_S
    while context.time.monotonic_s() < deadline_s:
        try:
            found = await look()
        except UnreachableError:
            found = None
        if found is not None:
            return found
        await asyncio.sleep(CHANGE_POLL_S)
    return None


async def requested_change(
    context: AppContext,
    asked: OperatorRequest,
    draft: Draft,
    look: Callable[[], Awaitable[Found | None]],
    *,
    before: Found,
    response: Response,
) -> Found:
    """Request a change and return what `look` finds, as `until_so`; else return `before` with status 202."""
    traced = replace(draft, trace=asked.trace(draft.subject_id))
    await context.log.request_operation(traced, key=asked.key)
    changed = await until_so(context, look)
    if changed is None:
        response.status_code = HTTPStatus.ACCEPTED
    return before if changed is None else changed
