"""Requests share few connections, and no answer is ever taken for that of another request."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import uvloop

from muster.kube import bounds
from muster.kube.connection import KubeConnection
from muster.kube.credentials import NoCredentials
from muster.kube.errors import KubeConfigError, UnavailableError
from muster.kube.resources import CONFIG_MAPS, NODES
from muster.kube.transport import Request
from muster_tools.local_kubernetes.pki import make_pki

AGENT = "muster-test/1"
NODE = b'{"kind":"Node","metadata":{"name":"n"}}'
Handle = Callable[["Heard", asyncio.StreamWriter], Awaitable[None]]


class Heard:
    """One request as it came: its head, and which connection of the server brought it."""

    def __init__(self, head: bytes, body: bytes, connection: int) -> None:
        self.head = head.decode()
        self.body = body
        self.connection = connection

    @property
    def target(self) -> str:
        return self.head.split(" ", 2)[1]


def answer(body: bytes = NODE, *, head: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


class Server:
    """Gives every request to `handle`, and keeps what it heard."""

    def __init__(self, handle: Handle | None = None) -> None:
        self.heard: list[Heard] = []
        self.connections = 0
        self.ended = 0
        self.url = ""
        self._handle = handle or plainly

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"Content-Length: (\d+)", head)
                heard = Heard(head, await reader.readexactly(int(length[1])) if length else b"", number)
                self.heard.append(heard)
                await self._handle(heard, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended += 1
            writer.close()


async def plainly(_: Heard, writer: asyncio.StreamWriter) -> None:
    writer.write(answer())


@asynccontextmanager
async def serving(handle: Handle | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(handle)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listening.close()


def connected(server: Server, *, connections_max: int = 4) -> KubeConnection:
    return KubeConnection(NoCredentials(server.url), user_agent=AGENT, connections_max=connections_max, attempts_max=1)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 - a socket's state has no event
            await asyncio.sleep(0.001)


async def test_one_connection_serves_requests_one_after_the_other() -> None:
    async with serving() as server, connected(server) as kube:
        for _ in range(3):
            assert await kube.get(NODES, "n") == {"kind": "Node", "metadata": {"name": "n"}}
    assert server.connections == 1


async def test_no_more_connections_are_open_than_may_be() -> None:
    async with serving() as server, connected(server, connections_max=2) as kube:
        await asyncio.gather(*(kube.get(NODES, f"n{number}") for number in range(20)))
        assert len(server.heard) == 20
        assert server.connections == 2


async def test_a_request_says_what_it_must() -> None:
    async with serving() as server, connected(server) as kube:
        await kube.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace="x", metadata_only=True)
        await kube.get(NODES, "n")
    made, read = server.heard
    assert made.head.startswith("POST /api/v1/namespaces/x/configmaps HTTP/1.1\r\n")
    assert f"Host: {server.url.removeprefix('http://')}\r\n" in made.head
    assert f"User-Agent: {AGENT}\r\n" in made.head
    assert "Content-Type: application/json\r\n" in made.head
    assert "as=PartialObjectMetadata" in made.head
    assert made.body == b'{"metadata":{"name":"a"}}'
    assert "Content-" not in read.head


async def test_a_server_may_lie_below_a_path() -> None:
    async with serving() as server, KubeConnection.plain(f"{server.url}/k8s/east", user_agent=AGENT) as kube:
        await kube.get(NODES, "n")
    assert server.heard[0].target == "/k8s/east/api/v1/nodes/n"


async def test_an_answer_may_come_in_chunks_and_after_a_hint() -> None:
    async def handle(_: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in (NODE[:5], NODE[5:], b""):
            await writer.drain()
            await asyncio.sleep(0.001)
            writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")

    async with serving(handle) as server, connected(server) as kube:
        for _ in range(2):
            assert (await kube.get(NODES, "n"))["kind"] == "Node"
    assert server.connections == 1


async def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    async def handle(_: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(more="Connection: close\r\n"))
        writer.close()

    async with serving(handle) as server, connected(server) as kube:
        for _ in range(3):
            await kube.get(NODES, "n")
    assert server.connections == 3


async def test_a_connection_that_broke_off_while_idle_harms_nobody() -> None:
    async def handle(_: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(answer())
        asyncio.get_running_loop().call_soon(writer.close)

    async with serving(handle) as server, connected(server) as kube:
        await kube.get(NODES, "n")
        await until(lambda: server.ended == 1)
        await asyncio.sleep(0.01)  # until the end of the stream has come here as well
        await kube.get(NODES, "n")
    assert server.connections == 2


async def test_what_was_given_up_is_not_taken_for_a_later_answer() -> None:
    held: list[asyncio.StreamWriter] = []

    async def handle(heard: Heard, writer: asyncio.StreamWriter) -> None:
        if heard.connection == 1:
            held.append(writer)
        else:
            writer.write(answer())

    async with serving(handle) as server, connected(server, connections_max=1) as kube:
        waiting = asyncio.create_task(kube.get(NODES, "late"))
        await until(lambda: bool(held))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        held[0].write(answer(b'{"kind":"Wrong"}'))
        assert (await kube.get(NODES, "n"))["kind"] == "Node"
        assert server.connections == 2


async def test_a_change_without_an_answer_in_time_may_have_been_made(monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[Heard] = []

    async def handle(heard: Heard, writer: asyncio.StreamWriter) -> None:
        if answered:
            await asyncio.sleep(30)
        answered.append(heard)
        writer.write(answer(b'{"kind":"Node"}'))

    async with serving(handle) as server, connected(server) as kube:
        await kube.get(NODES, "n")  # so that the time goes by while it waits for an answer, not for a connection
        monkeypatch.setattr("muster.kube.connection.Request", _impatient)
        with pytest.raises(UnavailableError, match="check before repeating it") as failed:
            await kube.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace="x")
        assert failed.value.effect_unknown


def _impatient(*given: object, **named: object) -> object:
    return Request(*given, **{**named, "timeout_s": 0.05})  # type: ignore[arg-type]


async def test_a_server_that_is_not_there_did_nothing() -> None:
    async with serving() as server:
        pass
    async with connected(server) as kube:
        with pytest.raises(UnavailableError, match="no change was applied") as failed:
            await kube.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace="x")
        assert not failed.value.effect_unknown


async def test_nonsense_and_too_much_are_no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "BODY_BYTES_MAX", 20)
    said = {"nonsense": b"SSH-2.0-what\r\n\r\n", "much": answer(b"x" * 21)}

    async def handle(heard: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(said[heard.target.rsplit("/", 1)[1]])

    async with serving(handle) as server, connected(server) as kube:
        with pytest.raises(UnavailableError, match="not HTTP"):
            await kube.get(NODES, "nonsense")
        with pytest.raises(UnavailableError, match="larger than 20 bytes"):
            await kube.get(NODES, "much")


async def test_words_that_nobody_asked_for_close_the_connection() -> None:
    async def handle(_: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(answer())
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(answer(b'{"kind":"Wrong"}'))

    async with serving(handle) as server, connected(server) as kube:
        await kube.get(NODES, "n")
        await until(lambda: server.ended == 1)
        assert (await kube.get(NODES, "n"))["kind"] == "Node"


async def test_a_token_cannot_bring_a_header_of_its_own() -> None:
    class Sly(NoCredentials):
        async def authorization(self) -> str:
            return "Bearer x\r\nImpersonate-User: admin"

    async with serving() as server, KubeConnection(Sly(server.url), user_agent=AGENT, attempts_max=1) as kube:
        with pytest.raises(KubeConfigError, match="line break"):
            await kube.get(NODES, "n")
    assert not server.heard


async def test_a_proxy_is_asked_where_there_is_one() -> None:
    async with serving() as proxy:
        credentials = NoCredentials("http://kube.invalid")
        credentials.proxy = proxy.url
        async with KubeConnection(credentials, user_agent=AGENT, attempts_max=1) as kube:
            await kube.get(NODES, "n")
    assert proxy.heard[0].target == "http://kube.invalid/api/v1/nodes/n"


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_certificates_are_looked_at(run: Callable[..., None], tmp_path: Path) -> None:
    pki = make_pki(tmp_path, now=datetime.now(UTC))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pki.server_certificate, pki.server_key)

    class Trusting(NoCredentials):
        trusts: Path | None = pki.ca

        async def tls(self) -> ssl.SSLContext | None:
            return ssl.create_default_context(cafile=self.trusts)

    async def scenario() -> None:
        async with serving(tls=tls) as server:
            trusting = Trusting(server.url)
            async with KubeConnection(trusting, user_agent=AGENT, attempts_max=1) as kube:
                for _ in range(2):
                    assert (await kube.get(NODES, "n"))["kind"] == "Node"
            assert server.connections == 1
            trusting.trusts = None
            async with KubeConnection(trusting, user_agent=AGENT, attempts_max=1) as kube:
                with pytest.raises(UnavailableError, match="certificate-authority"):
                    await kube.get(NODES, "n")

    run(scenario())
