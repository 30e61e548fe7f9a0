"""Who holds nothing but a network path to the gateway neither shuts it nor learns what a token's bearer may know."""

import asyncio

import pytest
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from kit.http.bounded_gateway import Gateway, RawClient, serving
from kit.http.certificates import Authority
from kit.http.gateway import FakeHarness, joined
from kit.waiting import until
from muster.bus.gateway_settings import HttpSettings
from muster.gateway.connections import RESERVE

QUICK = HttpSettings(header_s_max=0.3, body_s_max=0.3, idle_s_max=1.0, write_s_max=0.3)
EVIL = "evil.example"
STREAM = "/v1/events?follow=true"
ENDED_S_MAX = 20.0
"""Patience with a server that has to close a connection; an event loop's own limit of a handshake is 60 s."""

unfinished = pytest.mark.parametrize("sent_bytes", [0, 100], ids=["silent", "half-a-hello"])
"""Handshakes that stop before the first byte, or within the first message."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("tls"))


async def all_end(clients: list[RawClient]) -> None:
    """Wait until the server has closed all these connections without a word. Raises TimeoutError."""
    async with asyncio.timeout(ENDED_S_MAX):
        assert await asyncio.gather(*(client.ended() for client in clients)) == [b""] * len(clients)


async def is_alive(gateway: Gateway, *, source: str = "127.0.0.1") -> bool:
    status, _ = await (await gateway.connect(source=source)).ask("/healthz")
    return status == 200


async def streams(gateway: Gateway, count: int, *, source: str) -> list[RawClient]:
    """Connections that a member keeps busy."""
    clients = [await gateway.connect(source=source) for _ in range(count)]
    for client in clients:
        assert (await client.ask(STREAM, token="root"))[0] == 200
    return clients


async def test_idle_connections_of_many_addresses_shut_nobody_out() -> None:
    bounds = HttpSettings(connections_max=40, connections_per_address_max=10)
    async with serving(FakeHarness().app, bounds) as gateway:
        for host in range(2, 12):
            for _ in range(10):
                await gateway.connect(source=f"127.0.0.{host}")
        assert await is_alive(gateway)
        assert (await (await gateway.connect()).ask("/v1/me", token="ann"))[0] == 200


async def test_idle_connections_of_one_address_are_closed_before_those_of_others() -> None:
    async with serving(FakeHarness().app, HttpSettings(connections_per_address_max=5)) as gateway:
        member = await gateway.connect(source="127.0.0.2")
        assert (await member.ask("/healthz"))[0] == 200
        attacking = [await gateway.connect(source="127.0.0.3") for _ in range(20)]
        assert await asyncio.gather(*(client.ended() for client in attacking[:15])) == [b""] * 15
        assert (await member.ask("/healthz"))[0] == 200
        assert (await attacking[-1].ask("/healthz"))[0] == 200


async def test_an_address_whose_connections_are_all_busy_gets_no_more() -> None:
    async with serving(FakeHarness().app, HttpSettings(connections_per_address_max=3)) as gateway:
        await streams(gateway, 3, source="127.0.0.2")
        status, header = await (await gateway.connect(source="127.0.0.2")).answer()
        assert status == 429
        assert "retry-after" in header
        assert await is_alive(gateway, source="127.0.0.3")


async def test_clients_behind_a_named_proxy_share_its_address() -> None:
    bounds = HttpSettings(connections_per_address_max=3, proxies=("127.0.0.2/32",))
    async with serving(FakeHarness().app, bounds) as gateway:
        await streams(gateway, 6, source="127.0.0.2")


async def test_health_is_answered_while_every_connection_is_busy() -> None:
    async with serving(FakeHarness().app, HttpSettings(connections_max=4)) as gateway:
        await streams(gateway, 4, source="127.0.0.2")
        assert await is_alive(gateway)
        status, header = await (await gateway.connect()).ask("/v1/me", token="ann")
        assert status == 503
        assert "retry-after" in header


async def test_no_more_connections_are_kept_than_the_limit_and_the_reserve() -> None:
    async with serving(FakeHarness().app, HttpSettings(connections_max=4, connections_per_address_max=999)) as gateway:
        for _ in range(4 + RESERVE):
            await gateway.connect(source="127.0.0.2")
        last = [await gateway.connect(source="127.0.0.2") for _ in range(10)]
        assert await is_alive(gateway)  # in the place of an idle one
        assert (await last[-1].ask("/healthz"))[0] == 200


@unfinished
async def test_unfinished_handshakes_of_many_addresses_shut_nobody_out(authority: Authority, sent_bytes: int) -> None:
    bounds = HttpSettings(connections_max=40, connections_per_address_max=10, header_s_max=3_600)
    async with serving(FakeHarness().app, bounds, authority=authority) as gateway:
        attacking = [
            await gateway.begin_handshake(source=f"127.0.0.{host}", sent_bytes=sent_bytes)
            for host in range(2, 12)
            for _ in range(10)
        ]
        await all_end(attacking[:60])
        assert await is_alive(gateway)
        assert (await (await gateway.connect()).ask("/v1/me", token="ann"))[0] == 200


@unfinished
async def test_unfinished_handshakes_of_one_address_take_no_place_of_others(
    authority: Authority, sent_bytes: int
) -> None:
    bounds = HttpSettings(connections_max=10, connections_per_address_max=5, header_s_max=3_600)
    async with serving(FakeHarness().app, bounds, authority=authority) as gateway:
        members = [await gateway.connect(source="127.0.0.2") for _ in range(5)]
        attacking = [await gateway.begin_handshake(source="127.0.0.3", sent_bytes=sent_bytes) for _ in range(20)]
        await all_end(attacking[:15])
        assert [(await member.ask("/healthz"))[0] for member in members] == [200] * 5
        assert await is_alive(gateway, source="127.0.0.3")


@unfinished
async def test_a_handshake_that_does_not_come_to_its_end_is_not_waited_for(
    authority: Authority, sent_bytes: int
) -> None:
    async with serving(FakeHarness().app, QUICK, authority=authority) as gateway:
        await all_end([await gateway.begin_handshake(sent_bytes=sent_bytes)])


async def test_health_is_answered_over_tls_while_every_connection_is_busy(authority: Authority) -> None:
    async with serving(FakeHarness().app, HttpSettings(connections_max=4), authority=authority) as gateway:
        await streams(gateway, 4, source="127.0.0.2")
        await gateway.begin_handshake(source="127.0.0.3")
        assert await is_alive(gateway)
        assert (await (await gateway.connect()).ask("/v1/me", token="ann"))[0] == 503


async def test_an_address_whose_connections_are_all_busy_begins_no_handshake(authority: Authority) -> None:
    async with serving(FakeHarness().app, HttpSettings(connections_per_address_max=3), authority=authority) as gateway:
        await streams(gateway, 3, source="127.0.0.2")
        await all_end([await gateway.begin_handshake(source="127.0.0.2", sent_bytes=1_024)])
        assert await is_alive(gateway, source="127.0.0.3")


@pytest.mark.parametrize("sent", ["", "GET /healthz HTTP/1.1\r\nHost: mus", "POST /v1/jobs HTTP/1.1\r\nX-A: b\r\n"])
async def test_a_header_that_does_not_come_to_its_end_is_not_waited_for(sent: str) -> None:
    async with serving(FakeHarness().app, QUICK) as gateway:
        client = await gateway.connect()
        client.send(sent)
        assert b" 408 " in b" " + await client.ended() or not sent


async def test_a_header_that_comes_byte_by_byte_is_not_waited_for() -> None:
    async with serving(FakeHarness().app, QUICK) as gateway:
        client = await gateway.connect()
        client.send("GET /healthz HTTP/1.1\r\nX-Slow: ")
        ended = asyncio.create_task(client.ended())
        while not ended.done():
            client.send("a")
            await asyncio.wait([ended], timeout=0.02)
        assert b" 408 " in ended.result()


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async with serving(FakeHarness().app, QUICK) as gateway:
        member, stranger = await gateway.connect(), await gateway.connect()
        head = "POST /v1/jobs HTTP/1.1\r\nContent-Length: 1000\r\n"
        member.send(head + "Authorization: Bearer ann\r\n\r\n{")
        stranger.send(head + "\r\n{")
        assert b" 408 " in await member.ended()
        assert b" 401 " in await stranger.ended()


@pytest.mark.parametrize(
    "endless",
    [
        "GET /healthz HTTP/1.1\r\nX: ",
        "GET /",
        "POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    ],
)
async def test_a_header_is_bounded_in_bytes(endless: str) -> None:
    async with serving(FakeHarness().app, HttpSettings(header_bytes_max=4_096)) as gateway:
        client = await gateway.connect()
        client.send(endless)
        ended = asyncio.create_task(client.ended())
        while not ended.done():
            client.send("a" * 512)
            await asyncio.wait([ended], timeout=0.001)
        assert b" 431 " in ended.result() or not endless.startswith("GET")


async def test_a_connection_without_requests_is_closed() -> None:
    async with serving(FakeHarness().app, QUICK) as gateway:
        client = await gateway.connect()
        assert (await client.ask("/healthz"))[0] == 200
        await client.ended()


async def test_an_answer_that_nobody_reads_is_not_kept() -> None:
    left = asyncio.Event()

    async def endless(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        sending = asyncio.create_task(_send_for_ever(send))
        assert (await receive())["type"] == "http.disconnect"
        sending.cancel()
        left.set()

    async with serving(endless, QUICK) as gateway:
        client = await gateway.connect(receive_bytes=4_096)
        client.send("GET / HTTP/1.1\r\n\r\n")
        await asyncio.wait_for(left.wait(), 10)


async def _send_for_ever(send: Send) -> None:
    while True:
        await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})


async def test_answers_to_pipelined_requests_that_nobody_reads_are_not_kept() -> None:
    async with serving(FakeHarness().app, QUICK) as gateway:
        client = await gateway.connect(receive_bytes=4_096)
        for _ in range(2_000):
            client.send("GET /openapi.json HTTP/1.1\r\n\r\n")

        def is_closed() -> bool:
            client.send("GET")  # only a write tells, since nothing is read
            return client.writer.transport.is_closing()

        await until(is_closed)


async def test_the_documents_are_made_once() -> None:
    harness = FakeHarness()
    async with serving(harness.app) as gateway:
        client = await gateway.connect()
        for path in ("/docs", "/openapi.json"):
            _, header = await (await gateway.connect()).ask(path, more="Connection: close\r\n")
            tag = next(line for line in header.splitlines() if line.startswith("etag: ")).removeprefix("etag: ")
            assert (await client.ask(path, more=f"If-None-Match: {tag}\r\n"))[0] == 304
        pages = harness.app.state.pages
        assert pages.page is pages.page
        assert pages.document is pages.document


def every_route() -> list[tuple[str, str]]:
    """Method and path of all routes of the API, without dashboard pages."""
    routes = [route for route in FakeHarness().app.routes if isinstance(route, APIRoute)]
    return [(method, route.path) for route in routes for method in sorted(route.methods)]


async def test_no_route_tells_a_stranger_which_clusters_there_are() -> None:
    app = joined({"atlas": FakeHarness(), "borea": FakeHarness()}).app
    asked = [(method, path) for method, path in every_route() if path.startswith("/v1")]
    assert len(asked) > 50
    async with serving(app) as gateway:
        for cluster in ("atlas", "nowhere"):
            for method, path in [*asked, ("GET", "/v1/no/such/route"), ("BREW", "/v1/jobs")]:
                client = await gateway.connect()
                named = path.replace("{", "").replace("}", "")
                status, _ = await client.ask(f"{named}?cluster={cluster}", method=method)
                assert (method, path, status) == (method, path, 401) or method == "BREW"
                client.close()


async def test_open_routes_do_not_look_at_the_cluster() -> None:
    app = joined({"atlas": FakeHarness(), "borea": FakeHarness()}).app
    async with serving(app) as gateway:
        for method, path in every_route():
            if not path.startswith("/v1"):
                known = await (await gateway.connect()).ask(f"{path}?cluster=atlas", method=method)
                unknown = await (await gateway.connect()).ask(f"{path}?cluster=nowhere", method=method)
                assert known[0] == unknown[0]


async def test_no_answer_repeats_the_host_that_was_sent() -> None:
    async with serving(FakeHarness().app) as gateway:
        for _, path in every_route():
            for asked in (path, f"{path}/", f"/{path}"):
                client = await gateway.connect()
                client.send(f"GET {asked} HTTP/1.1\r\nHost: {EVIL}\r\nX-Forwarded-Host: {EVIL}\r\n\r\n")
                status, header = await client.answer()
                assert EVIL not in header
                assert not 300 <= status < 400
                client.close()


@pytest.mark.parametrize(
    "sent",
    [
        "GET /healthz HTTP/1.1\r\n\r\n",
        "GET /docs HTTP/1.1\r\n\r\n",
        "GET /openapi.json HTTP/1.1\r\n\r\n",
        "GET /metrics HTTP/1.1\r\n\r\n",
        "GET /v1/me HTTP/1.1\r\n\r\n",
        "GET /v1/me HTTP/1.1\r\nAuthorization: Bearer ann\r\n\r\n",
        "GET /nowhere HTTP/1.1\r\n\r\n",
        "POST /healthz HTTP/1.1\r\n\r\n",
        "no HTTP at all\r\n\r\n",
        "GET /half HTTP/1.1\r\n",
    ],
)
async def test_no_answer_may_be_taken_for_another_type(sent: str) -> None:
    async with serving(FakeHarness().app, QUICK) as gateway:
        client = await gateway.connect()
        client.send(sent)
        _, header = await client.answer()
        assert header.count("x-content-type-options: nosniff") == 1
