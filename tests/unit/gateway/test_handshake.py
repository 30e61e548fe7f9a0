"""Connections with TLS on both event loops: how each ends is counted, and none fills the log or outlives the server."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

import pytest
import uvloop
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kit.http.bounded_gateway import Gateway, serving
from kit.http.certificates import Authority
from kit.waiting import until
from muster.bus.gateway_settings import HttpSettings
from muster.gateway.tls import Outcome

Run = Callable[[Coroutine[None, None, None]], None]
PATIENT = HttpSettings(header_s_max=3_600)
ENDED_S_MAX = 20.0

pytestmark = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
"""The gateway runs on uvloop, and most other tests on asyncio."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("tls"))


async def scheme_of(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the scheme that the application sees."""
    await Response(headers={"x-scheme": scope["scheme"]})(scope, receive, send)


async def endless(_: Scope, receive: Receive, send: Send) -> None:
    """Begin an answer, and never end it."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


async def ended_as(gateway: Gateway, **outcomes: int) -> None:
    """Wait until so many connections ended so, and no others."""
    wanted = {Outcome(name): count for name, count in outcomes.items()}
    await until(lambda: gateway.handshakes == wanted, patience_s=ENDED_S_MAX)


def test_a_request_after_a_handshake_is_one_of_https(run: Run, authority: Authority) -> None:
    async def scenario() -> None:
        async with serving(scheme_of, authority=authority) as gateway:
            clients = await asyncio.gather(*(gateway.connect() for _ in range(20)))
            answers = await asyncio.gather(*(client.ask("/") for client in clients))
            assert {(status, "x-scheme: https" in header) for status, header in answers} == {(200, True)}
            await ended_as(gateway, completed=20)

    run(scenario())


def test_what_is_no_handshake_leaves_no_line_in_the_log(
    run: Run, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(scheme_of, authority=authority) as gateway:
            client = await gateway.begin_handshake()
            client.send("GET / HTTP/1.1\r\n\r\n")
            await client.ended()
            await ended_as(gateway, failed=1)

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert caplog.messages == []


@pytest.mark.parametrize("sent_bytes", [0, 100])
def test_a_client_that_leaves_in_its_handshake_gives_its_place_back(
    run: Run, authority: Authority, sent_bytes: int
) -> None:
    async def scenario() -> None:
        async with serving(scheme_of, PATIENT, authority=authority) as gateway:
            (await gateway.begin_handshake(sent_bytes=sent_bytes)).close()
            await ended_as(gateway, failed=1)

    run(scenario())


def test_a_handshake_that_is_late_is_closed(run: Run, authority: Authority) -> None:
    async def scenario() -> None:
        async with serving(scheme_of, HttpSettings(header_s_max=0.1), authority=authority) as gateway:
            await (await gateway.begin_handshake()).ended()
            await ended_as(gateway, closed=1)

    run(scenario())


def test_a_handshake_makes_room_for_a_newer_connection(run: Run, authority: Authority) -> None:
    async def scenario() -> None:
        async with serving(
            scheme_of, PATIENT.model_copy(update={"connections_max": 1}), authority=authority
        ) as gateway:
            idle = await gateway.begin_handshake(sent_bytes=100)
            assert (await (await gateway.connect()).ask("/"))[0] == 200
            await idle.ended()
            await ended_as(gateway, closed=1, completed=1)

    run(scenario())


def test_a_connection_without_a_place_is_refused_before_its_handshake(run: Run, authority: Authority) -> None:
    bounds = PATIENT.model_copy(update={"connections_per_address_max": 1})

    async def scenario() -> None:
        async with serving(endless, bounds, authority=authority) as gateway:
            assert (await (await gateway.connect()).ask("/"))[0] == 200
            assert await (await gateway.begin_handshake(sent_bytes=1_024)).ended() == b""
            await ended_as(gateway, completed=1, refused=1)

    run(scenario())


def test_connections_end_with_the_server_whether_their_handshake_is_done_or_not(run: Run, authority: Authority) -> None:
    async def scenario() -> None:
        async with serving(scheme_of, PATIENT, authority=authority) as gateway:
            silent, shaken = await gateway.begin_handshake(), await gateway.connect()
            await ended_as(gateway, completed=1)
            async with asyncio.timeout(ENDED_S_MAX):
                _, *said = await asyncio.gather(gateway.stop(), silent.ended(), shaken.ended())
            assert said == [b"", b""]
            with pytest.raises(ConnectionRefusedError):
                await gateway.connect()

    run(scenario())
