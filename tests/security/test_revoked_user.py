"""Whose token was revoked, or has expired, reads nothing more: what is open ends within five seconds."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import httpx
import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError

from kit.clocks import FakeTime
from kit.http.bounded_gateway import Gateway, RawClient, serving
from kit.http.gateway import FakeHarness, fact, live_ends
from kit.servers import CLUSTER, DECLARATIONS, NatsServer, running_nats
from kit.waiting import until, until_async
from muster.bus.access import GATEWAY_LIVE
from muster.bus.clock import SystemTime
from muster.bus.gateway_settings import HttpSettings
from muster.bus.jwt import PREFIX_ACCOUNT, ViewCredential, ViewSigner, new_key
from muster.bus.settings import Settings
from muster.bus.streams import bootstrap
from muster.core.instant import NS_PER_S
from muster.gateway.authenticate import CHECK_S
from muster.gateway.authorise import Principal
from muster.gateway.declaration import DECLARATION
from muster.gateway.http import make_app
from muster.gateway.live import Credentials, Live
from muster.gateway.live_connections import Bearer, LiveEnds, NatsLiveConnections
from muster.gateway.metrics import Metrics
from muster.gateway.tokens import NatsTokens
from muster.schemas.access import Role, TokenRecord, token_hash
from muster.schemas.job import Phase
from muster.schemas.live import LiveCredential
from muster.schemas.views import JobView

ENDS_S_MAX = 5.0
JOB = "A" * 26


async def _is_valid() -> bool:
    return True


ANY = Bearer("token", _is_valid)
STREAMS = ("/v1/events?follow=true", "/v1/events?follow=true&limit=10", f"/v1/jobs/{JOB}/events?follow=true")


def a_harness() -> FakeHarness:
    harness = FakeHarness()
    harness.view.rows[JOB] = JobView(
        id=JOB, name="train", team="blue", principal="ann", queue="blue", phase=Phase.RUNNING
    )
    harness.feed.tell(fact(1))
    return harness


@asynccontextmanager
async def reading(gateway: Gateway, token: str) -> AsyncIterator[list[RawClient]]:
    """One open stream of every kind."""
    clients = [await gateway.connect() for _ in STREAMS]
    for client, path in zip(clients, STREAMS, strict=True):
        assert (await client.ask(path, token=token))[0] == 200
    yield clients


async def all_end(clients: list[RawClient]) -> None:
    """Each answer comes to its proper end."""
    async with asyncio.timeout(ENDS_S_MAX):
        for client in clients:
            await client.reader.readuntil(b"\r\n0\r\n\r\n")


def test_a_look_at_open_answers_and_their_end_fit_into_the_promise() -> None:
    assert CHECK_S < ENDS_S_MAX / 2


async def test_open_streams_of_a_revoked_token_end() -> None:
    harness = a_harness()
    async with serving(harness.app) as gateway, reading(gateway, "eve") as clients, reading(gateway, "ann") as others:
        async with harness.client("root") as admin:
            assert (await admin.delete(f"/v1/tokens/{token_hash('eve')}")).status_code == 204
        await all_end(clients)
        assert (await clients[0].ask("/v1/me", token="eve"))[0] == 401
        harness.feed.tell(fact(2))
        for other in others[:2]:  # those of other tokens go on
            await other.reader.readuntil(b'"seq":2')


async def test_open_streams_of_a_token_that_expires_end() -> None:
    harness = a_harness()
    time = FakeTime()
    until_s = time.wall() // NS_PER_S + 60
    record = TokenRecord(principal="temp", role=Role.VIEWER, expires_at_s=until_s)
    harness.tokens.set(token_hash("temp"), record)
    async with serving(make_app(replace(harness.harness, time=time))) as gateway, reading(gateway, "temp") as clients:
        time.advance(61)
        await all_end(clients)
        assert (await clients[0].ask("/v1/me", token="temp"))[0] == 401


async def test_a_stream_that_is_not_read_ends_with_its_token() -> None:
    harness = a_harness()
    async with serving(harness.app) as gateway:
        client = await gateway.connect(receive_bytes=4_096)
        client.send(f"GET {STREAMS[0]} HTTP/1.1\r\nAuthorization: Bearer eve\r\n\r\n")
        await client.answer()
        for seq in range(2, 2_000):
            harness.feed.tell(fact(seq, job="B" * 26))
        harness.tokens.drop(token_hash("eve"))

        def is_closed() -> bool:
            client.send("GET")
            return client.writer.transport.is_closing()

        await until(is_closed, patience_s=ENDS_S_MAX)


async def test_an_expired_token_is_refused_and_none_is_made_expired() -> None:
    harness = a_harness()
    harness.tokens.set(token_hash("old"), TokenRecord(principal="old", role=Role.ADMIN, expires_at_s=1))
    async with harness.client("old") as client:
        assert (await client.get("/v1/me")).status_code == 401
    async with harness.client("root") as admin:
        refused = await admin.post("/v1/tokens", json={"principal": "new", "role": "viewer", "expires_at_s": 1})
        assert (refused.status_code, refused.json()["field"]) == (422, "expires_at_s")


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    others = [declaration for declaration in DECLARATIONS if declaration.service != "gateway"]
    with running_nats(declarations=[DECLARATION, *others]) as server:
        yield server


@pytest.mark.connected
async def test_streams_end_when_another_gateway_revokes_the_token(server: NatsServer) -> None:
    creds = server.credentials_dir
    maker = await server.connect("bootstrap")
    await bootstrap(maker, Settings(state_dir=creds, credentials_dir=creds, cluster=CLUSTER))
    clients = [await server.connect("gateway") for _ in range(2)]
    here, elsewhere = (NatsTokens(client) for client in clients)
    made = await elsewhere.put("secret", TokenRecord(principal="gone", role=Role.VIEWER))
    watching = asyncio.create_task(here.watch())
    await until(lambda: here.principal(made.id) is not None)
    async with (
        serving(make_app(replace(a_harness().harness, tokens=here))) as gateway,
        reading(gateway, "secret") as streams,
    ):
        assert await elsewhere.delete(made.id)
        await all_end(streams)
    watching.cancel()
    for client in (maker, *clients):
        await client.close()


class Dashboards:
    """A gateway that gives credentials of the live view, and the broker's connections that are made with them."""

    def __init__(self, server: NatsServer, harness: FakeHarness, ends: LiveEnds, *, lifetime_s: int) -> None:
        credentials = Credentials(
            (CLUSTER,), "ws://127.0.0.1:1", server.view_signer, SystemTime(), lifetime_s, ends=ends
        )
        self.server = server
        self.app = make_app(replace(harness.harness, live=Live(None, credentials, None)))  # type: ignore[arg-type]

    async def ask(self, token: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(app=self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://muster", headers=headers) as client:
            return await client.post("/v1/live/credential")

    async def credential(self, token: str) -> ViewCredential:
        given = LiveCredential.model_validate_json((await self.ask(token)).content)
        return ViewCredential(given.jwt, given.seed, given.inbox_prefix, given.expires_at_s)

    async def connect(self, credential: ViewCredential) -> tuple[Client, asyncio.Event]:
        """A dashboard that listens, and what is set when the broker ends it."""
        closed = asyncio.Event()

        async def ended() -> None:
            closed.set()

        return await self.server.connect_view(credential, closed_cb=ended), closed


@pytest.mark.connected
async def test_the_broker_ends_the_live_view_of_a_revoked_token(server: NatsServer) -> None:
    harness = a_harness()
    closing = await server.connect(GATEWAY_LIVE)
    ends = LiveEnds(
        NatsLiveConnections(closing, account=server.view_signer.account), time=SystemTime(), metrics=Metrics()
    )
    dashboards = Dashboards(server, harness, ends, lifetime_s=HttpSettings().live_credential_s)
    running = asyncio.create_task(ends.run())
    await closing.flush()
    user = await dashboards.credential("eve")
    _, closed = await dashboards.connect(user)
    other, others_end = await dashboards.connect(await dashboards.credential("ann"))
    harness.tokens.drop(token_hash("eve"))
    assert (await dashboards.ask("eve")).status_code == 401
    async with asyncio.timeout(ENDS_S_MAX):
        await closed.wait()
    for _ in range(3):  # the credential has not expired: whoever connects with it again is put out at once
        with suppress(NatsError):  # already while it connects
            _, closed = await dashboards.connect(user)
            async with asyncio.timeout(CHECK_S / 2):
                await closed.wait()
    assert not others_end.is_set()
    await other.flush()
    running.cancel()
    for client in (other, closing):
        await client.close()


@pytest.mark.connected
async def test_the_user_that_closes_live_connections_can_do_nothing_else(server: NatsServer) -> None:
    refused: list[str] = []

    async def note(error: Exception) -> None:
        refused.append(str(error).lower())

    client = await server.connect(GATEWAY_LIVE, error_cb=note)
    own, view = f"_INBOX.{GATEWAY_LIVE}.x", server.view_signer.account
    asked = ("$SYS.REQ.SERVER.PING.CONNZ", f"$SYS.REQ.ACCOUNT.{view}.CONNZ", "$SYS.REQ.CLAIMS.UPDATE", "$JS.API.INFO")
    for subject in asked:
        await client.publish(subject, b"{}", reply=own)
    for heard in (">", "$SYS.>", "$SYS.ACCOUNT.*.CONNECT", "$SYS.ACCOUNT.>"):
        await client.subscribe(heard)
    await client.flush()
    await until(lambda: len(refused) == len(asked) + 4)
    assert all("permissions violation" in one for one in refused)
    await client.close()


@pytest.mark.connected
async def test_a_credential_of_the_live_view_expires_where_no_gateway_can_end_it(server: NatsServer) -> None:
    harness = a_harness()
    shortest = HttpSettings.model_validate({"live_credential_s": ENDS_S_MAX}).live_credential_s
    dashboards = Dashboards(server, harness, live_ends(SystemTime()), lifetime_s=shortest)
    user = await dashboards.credential("eve")
    _, closed = await dashboards.connect(user)
    async with asyncio.timeout(ENDS_S_MAX + 1):  # the time of the broker, and that of its answer
        await closed.wait()

    async def is_refused() -> bool:
        try:
            await (await server.connect_view(user)).close()
        except NatsError:
            return True
        return False

    await until_async(is_refused)  # from the next whole second on


async def test_a_credential_of_the_live_view_does_not_outlive_its_token() -> None:
    time = FakeTime()
    now_s = time.wall() // NS_PER_S
    signer = ViewSigner(new_key(PREFIX_ACCOUNT, b"s" * 32), new_key(PREFIX_ACCOUNT, b"a" * 32).public)
    credentials = Credentials((CLUSTER,), "ws://127.0.0.1:1", signer, time, 20, live_ends(time))
    assert credentials.give(Principal("eve", Role.VIEWER, expires_at_s=now_s + 7), ANY).expires_at_s == now_s + 7
    assert credentials.give(Principal("eve", Role.VIEWER), ANY).expires_at_s == now_s + 20
