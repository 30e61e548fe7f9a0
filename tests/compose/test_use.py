"""What people do with the stack in containers: the dashboard in a browser of this machine, the command line inside."""

import base64
import json

import aiohttp
import httpx
import nats
import pytest

from compose.running import Stack, ended, job, submitted
from kit.waiting import until_async
from muster.bus.jwt import key_of_seed
from muster.schemas.live import LiveCredential, LiveSlice

pytestmark = pytest.mark.timeout(3_000)


@pytest.fixture(autouse=True)
async def ready(stack: Stack) -> None:
    """The gateway answers, whichever test comes first."""
    await stack.first_queues()


async def credential(stack: Stack) -> LiveCredential:
    """As the dashboard is given one for the admin's token."""
    headers = {"Authorization": f"Bearer {(stack.state_dir / 'token').read_text().strip()}"}
    async with httpx.AsyncClient(base_url=stack.project.url("HTTP_PORT"), headers=headers) as api:
        return LiveCredential.model_validate_json((await api.post("/v1/live/credential")).content)


async def connected(given: LiveCredential, *, page: str) -> nats.NATS:
    """Over the published WebSocket, as a page of that origin."""
    key = key_of_seed(given.seed)
    return await nats.connect(
        given.url,
        inbox_prefix=given.inbox_prefix,
        user_jwt_cb=lambda: bytearray(given.jwt.encode()),
        signature_cb=lambda nonce: base64.b64encode(key.sign(nonce.encode())),
        ws_connection_headers={"Origin": [page]},
        allow_reconnect=False,
        connect_timeout=5,
    )


async def test_the_gateway_serves_the_dashboard_that_the_image_was_built_with(stack: Stack) -> None:
    async with httpx.AsyncClient(base_url=stack.project.url("HTTP_PORT")) as browser:
        page = await browser.get("/fleet", headers={"Accept": "text/html"})
        assert page.status_code == 200
        assert '<script type="module"' in page.text
        assert stack.project.url("WEBSOCKET_PORT", scheme="ws") in page.headers["content-security-policy"]


async def test_a_page_of_the_gateway_is_sent_jobs_live(stack: Stack) -> None:
    given = await credential(stack)
    assert given.url == stack.project.url("WEBSOCKET_PORT", scheme="ws")
    client = await connected(given, page=stack.project.url("HTTP_PORT"))
    seen: set[str] = set()

    async def hear(message: nats.aio.msg.Msg) -> None:
        seen.update(row.id for row in LiveSlice.model_validate_json(message.data).jobs)

    try:
        await client.subscribe("view.local.public.slice", cb=hear)
        await client.flush()
        async with stack.muster() as muster:
            view = await submitted(muster, job("seen"))
            await ended(muster, view.id)

        async def came() -> bool:
            return view.id in seen

        await until_async(came)
    finally:
        await client.close()


async def test_a_page_of_anybody_else_is_not_let_in(stack: Stack) -> None:
    url = stack.project.url("WEBSOCKET_PORT", scheme="ws")
    async with aiohttp.ClientSession() as browser:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await browser.ws_connect(url, origin="http://elsewhere.example")
        assert refused.value.status == 403
        async with browser.ws_connect(url, origin=stack.project.url("HTTP_PORT")) as own:
            assert not own.closed


def test_the_command_line_inside_speaks_as_the_admin(stack: Stack) -> None:
    said = stack.project.run("--profile", "cli", "run", "--rm", "--no-deps", "cli", "queues", "list", "-o", "json")
    assert {row["name"] for row in json.loads(said)} >= {"org", "research"}
