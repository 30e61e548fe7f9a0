"""Dashboard users (account VIEW), and credentials that ended, on a real nats-server."""

import asyncio
import os
import time

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoServersError

from kit.servers import CLUSTER, DECLARATIONS, NatsServer
from muster.bus.access import bus_users
from muster.bus.jwt import VIEW_SUBSCRIPTIONS_MAX, ViewCredential, mint_view_user
from muster.stack import nats_server as nats_server_config
from muster.stack.keys import mint_access

pytestmark = pytest.mark.connected


def view_of(server: NatsServer, *teams: str, expires_in_s: float = 60.0, age_s: int = 0) -> ViewCredential:
    return mint_view_user(
        server.view_signer,
        clusters=(CLUSTER,),
        teams=teams,
        now_s=int(time.time()) - age_s,
        expires_in_s=expires_in_s,
        entropy=os.urandom(32),
    )


async def refusal_of(server: NatsServer, credential: ViewCredential, *, subscribe: str = "", publish: str = "") -> str:
    """What the server says to one attempt."""
    refusals: asyncio.Queue[str] = asyncio.Queue()

    async def told(error: Exception) -> None:
        refusals.put_nowait(str(error).lower())

    client = await server.connect_view(credential, error_cb=told)
    try:
        if subscribe:
            await client.subscribe(subscribe)
        else:
            await client.publish(publish, b"x")
        await client.flush()
        return await asyncio.wait_for(refusals.get(), 5)
    finally:
        await client.close()


async def received(client: Client, subject: str) -> "asyncio.Queue[Msg]":
    queue: asyncio.Queue[Msg] = asyncio.Queue()
    await client.subscribe(subject, cb=queue.put)
    await client.flush()
    return queue


async def test_a_dashboard_sees_its_team_and_what_is_public(nats_server: NatsServer) -> None:
    dashboard = await nats_server.connect_view(view_of(nats_server, "vision"))
    team = await received(dashboard, f"view.{CLUSTER}.vision.>")
    public = await received(dashboard, f"view.{CLUSTER}.public.>")
    projector = await nats_server.connect("projector")
    await projector.publish(f"view.{CLUSTER}.vision.job.J", b"mine")
    await projector.publish(f"view.{CLUSTER}.public.node.N", b"everybody's")
    async with asyncio.timeout(5):
        assert (await team.get()).data == b"mine"
        assert (await public.get()).data == b"everybody's"
    await projector.close()
    await dashboard.close()


@pytest.mark.parametrize(
    "subject",
    [
        f"view.{CLUSTER}.speech.>",
        f"view.{CLUSTER}.*.>",
        "view.>",
        "view.other.vision.>",
        f"muster.{CLUSTER}.>",
        "muster.fed.>",
        "$KV.tokens.>",
        "_INBOX.>",
        ">",
    ],
)
async def test_a_dashboard_may_not_subscribe_to_anything_else(nats_server_shared: NatsServer, subject: str) -> None:
    refusal = await refusal_of(nats_server_shared, view_of(nats_server_shared, "vision"), subscribe=subject)
    assert "permissions violation for subscription" in refusal


@pytest.mark.parametrize(
    "subject",
    [f"view.{CLUSTER}.vision.x", f"muster.{CLUSTER}.agent.fence", f"$JS.API.STREAM.INFO.LOG_{CLUSTER}", "query.x.y.z"],
)
async def test_a_dashboard_may_not_publish_anything(nats_server_shared: NatsServer, subject: str) -> None:
    refusal = await refusal_of(nats_server_shared, view_of(nats_server_shared, "vision"), publish=subject)
    assert "permissions violation for publish" in refusal


async def test_a_dashboard_over_websocket_is_bound_alike(nats_server: NatsServer) -> None:
    nats_server.url = nats_server.websocket_url
    credential = view_of(nats_server, "vision")
    assert "subscription" in await refusal_of(nats_server, credential, subscribe=f"muster.{CLUSTER}.>")


async def test_a_dashboard_is_disconnected_when_its_credential_ends(nats_server: NatsServer) -> None:
    closed = asyncio.Event()

    async def left() -> None:
        closed.set()

    credential = view_of(nats_server, "vision", expires_in_s=1)
    client = await nats_server.connect_view(credential, closed_cb=left)
    async with asyncio.timeout(5):
        await closed.wait()
    assert client.is_closed


async def test_an_expired_credential_does_not_connect(nats_server_shared: NatsServer) -> None:
    credential = view_of(nats_server_shared, "vision", age_s=60, expires_in_s=30)
    with pytest.raises((NatsError, NoServersError)):
        await nats_server_shared.connect_view(credential, max_reconnect_attempts=0)


async def test_a_changed_declaration_takes_rights_back_from_old_credentials(nats_server: NatsServer) -> None:
    old = nats_server.credentials("agent").read_text()
    access = mint_access(
        keys_dir=nats_server.directory / "keys",
        credentials_dir=nats_server.credentials_dir,
        users=bus_users(DECLARATIONS, clusters=(CLUSTER,)),
        now_s=int(time.time()) + 2,  # the next start; never in the second of the last one
    )
    nats_server.stop()
    (nats_server.directory / "nats-server.conf").unlink()
    nats_server.config = nats_server_config.NatsConfig(
        port=nats_server.config.port,
        monitor_port=nats_server.config.monitor_port,
        store_dir=nats_server.config.store_dir,
        access=access,
    )
    nats_server.start()
    await (await nats_server.connect("agent")).close()
    nats_server.credentials("agent").write_text(old)
    with pytest.raises((NatsError, NoServersError)):
        await nats_server.connect("agent", max_reconnect_attempts=0)


async def test_nobody_connects_without_credentials(nats_server_shared: NatsServer) -> None:
    with pytest.raises((NatsError, NoServersError)):
        await nats_server_shared.connect(max_reconnect_attempts=0)


async def test_a_dashboard_may_not_subscribe_without_end(nats_server_shared: NatsServer) -> None:
    refused = asyncio.Event()

    async def told(error: Exception) -> None:
        if "maximum subscriptions" in str(error).lower():
            refused.set()

    async def left() -> None:
        refused.set()

    client = await nats_server_shared.connect_view(view_of(nats_server_shared, "vision"), error_cb=told, closed_cb=left)
    for number in range(VIEW_SUBSCRIPTIONS_MAX + 1):
        await client.subscribe(f"view.{CLUSTER}.vision.output.{number}")
    async with asyncio.timeout(5):
        await refused.wait()
    await client.close()
