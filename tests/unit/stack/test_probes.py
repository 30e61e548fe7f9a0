"""Whether the services of a process lead, as its door says it; and how long a stack waits for that."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kit.loopback import served
from muster.stack.probes import all_lead
from muster.stack.up import port_of, wait_for_leaders

LEADS = {"service": "scheduler", "log": "LOG_a", "stopped": "", "leading": True}
FOLLOWS = {**LEADS, "service": "composer", "leading": False}
STANDS = {**FOLLOWS, "stopped": "a fact it cannot fold"}
HOSTED = {"service": "gateway", "log": "", "stopped": ""}


@asynccontextmanager
async def door(*pages: list[dict[str, object]]) -> AsyncIterator[str]:
    """A process' metrics page; its health tells these in turn, the last one for ever."""
    left = list(pages)

    def health(_request: Request) -> Response:
        page = left.pop(0) if len(left) > 1 else left[0]
        return Response(json.dumps({"services": page}), media_type="application/json")

    async with served(Starlette(routes=[Route("/healthz", health)])) as url:
        yield f"{url}/metrics"


@pytest.mark.parametrize(
    ("rows", "is_so"),
    [
        ([LEADS, HOSTED], True),
        ([LEADS, FOLLOWS], False),
        ([LEADS, STANDS], True),
        ([HOSTED], True),
        ([], False),
    ],
)
async def test_all_lead_but_those_that_stand_still_or_need_no_leader(
    rows: list[dict[str, object]], *, is_so: bool
) -> None:
    async with door(rows) as page:
        assert await all_lead(port_of(page)) is is_so


async def test_a_stack_waits_until_its_services_lead() -> None:
    async with door([LEADS, FOLLOWS], [LEADS, FOLLOWS], [LEADS]) as first, door([LEADS]) as second:
        await wait_for_leaders([first, second], most_s=60.0)
        assert await all_lead(port_of(first))


async def test_a_service_that_does_not_come_to_lead_holds_no_stack_up_for_ever() -> None:
    async with door([FOLLOWS]) as page:
        await wait_for_leaders([page], most_s=0.1)
        assert not await all_lead(port_of(page))
