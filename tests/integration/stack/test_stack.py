"""A whole stack with real servers; its services are stand-ins that only live."""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import psutil
import pytest
import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from kit.ports import own_ports
from kit.servers import DECLARATIONS
from kit.waiting import until
from muster.bus.access import bus_users, inbox_prefix
from muster.bus.settings import Settings
from muster.schemas.access import Role, TokenRecord, token_hash
from muster.stack import control
from muster.stack.options import StartOptions
from muster.stack.state_dir import NotAStateDirError, StateDir, StateDirLockedError, holder_of
from muster.stack.supervisor import ChildNotReadyError
from muster.stack.up import RunningStack, start

pytestmark = pytest.mark.connected

LIVE = "import signal; signal.pause()"
PORTS = ("nats", "monitor", "websocket", "redis", "http", "metrics")


@pytest.fixture
def options(tmp_path: Path) -> StartOptions:
    return StartOptions(
        state_dir=tmp_path / "state",
        users=bus_users(DECLARATIONS, clusters=("local",)),
        service_command=(sys.executable, "-S", "-c", LIVE),
        ready_path="",
        ports=own_ports(*PORTS),
        settings={"telemetry": {"enabled": False}},
    )


@pytest.fixture
async def stack(options: StartOptions) -> AsyncIterator[RunningStack]:
    stack = await start(options)
    yield stack
    await stack.stop()


def pid_of(stack: RunningStack, name: str) -> int:
    return next(child.pid for child in stack.children() if child.name == name) or 0


async def connect(settings: Settings, user: str) -> nats.NATS:
    return await nats.connect(
        settings.nats_url,
        user_credentials=str(settings.credentials_dir / f"{user}.creds"),
        inbox_prefix=inbox_prefix(user),
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.05,
    )


async def stored(settings: Settings) -> int:
    reader = await connect(settings, "reader")
    try:
        return (await reader.jetstream().stream_info("LOG_local")).state.messages
    finally:
        await reader.close()


async def write_one(settings: Settings) -> None:
    agent = await connect(settings, "agent")
    await agent.jetstream().publish("muster.local.agent.fence", b"{}", timeout=5)
    await agent.close()


async def test_a_started_stack_has_its_streams_and_its_admin(stack: RunningStack) -> None:
    token = stack.state.token.read_text().strip()
    gateway = await connect(stack.settings, "gateway")
    entry = await gateway.jetstream().get_last_msg("KV_tokens", f"$KV.tokens.{token_hash(token)}")
    assert TokenRecord.model_validate_json(entry.data or b"").role is Role.ADMIN
    await gateway.close()
    assert await stored(stack.settings) == 0
    async with redis.Redis.from_url(stack.endpoints.redis) as client:
        assert await client.ping()


async def test_secrets_are_readable_by_this_user_alone(stack: RunningStack) -> None:
    state = stack.state
    secrets = [state.token, state.settings, state.endpoints, *state.creds.iterdir(), *state.keys.iterdir()]
    secrets += [state.nats / "nats-server.conf", state.redis / "redis.conf"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}


async def test_redis_is_closed_to_who_has_not_the_password(stack: RunningStack) -> None:
    async with redis.Redis(port=stack.endpoints.ports["redis"], retry=Retry(NoBackoff(), 0)) as client:
        with pytest.raises(redis.AuthenticationError):
            await client.ping()


async def test_state_and_ports_survive_a_restart(options: StartOptions) -> None:
    first = await start(options)
    token, ports = first.state.token.read_text(), first.endpoints.ports
    await write_one(first.settings)
    await first.stop()
    again = await start(options.model_copy(update={"ports": {}}))
    try:
        assert again.state.token.read_text() == token
        assert again.endpoints.ports == ports
        assert await stored(again.settings) == 1
    finally:
        await again.stop()


async def test_starting_fresh_forgets_everything(options: StartOptions) -> None:
    first = await start(options)
    token = first.state.token.read_text()
    await write_one(first.settings)
    await first.stop()
    again = await start(options.model_copy(update={"fresh": True}))
    try:
        assert again.state.token.read_text() != token
        assert await stored(again.settings) == 0
    finally:
        await again.stop()


@pytest.mark.parametrize("name", ["nats-server", "redis-server", "all"])
async def test_a_killed_process_comes_back_with_what_was_stored(stack: RunningStack, name: str) -> None:
    await write_one(stack.settings)
    old = pid_of(stack, name)
    os.kill(old, signal.SIGKILL)
    await until(lambda: pid_of(stack, name) not in (0, old))
    async with asyncio.timeout(15):
        while True:
            try:
                assert await stored(stack.settings) == 1
                break
            except (OSError, nats.errors.Error):  # it listens in a moment
                await asyncio.sleep(0.05)


async def test_a_second_start_is_refused_and_disturbs_nothing(stack: RunningStack, options: StartOptions) -> None:
    with pytest.raises(StateDirLockedError, match=rf"process {os.getpid()} \(muster up\)"):
        await start(options.model_copy(update={"fresh": True}))
    with pytest.raises(StateDirLockedError, match=str(os.getpid())):
        control.detach(options)
    assert stack.state.token.exists()
    assert all(child.pid for child in stack.children())


async def test_a_failed_start_leaves_nothing_running(options: StartOptions) -> None:
    children = psutil.Process().children()
    with pytest.raises(ChildNotReadyError, match="all was not ready"):
        await start(options.model_copy(update={"ready_path": "/readyz", "ready_s_max": 0.3}))
    assert psutil.Process().children() == children
    assert holder_of(StateDir(options.state_dir)) is None


async def test_a_foreign_directory_is_not_used(options: StartOptions) -> None:
    options.state_dir.mkdir()
    (options.state_dir / "thesis.tex").write_text("years of work")
    with pytest.raises(NotAStateDirError):
        await start(options.model_copy(update={"fresh": True}))


def test_a_stack_in_the_background_is_asked_and_ended(options: StartOptions) -> None:
    assert not control.status(options.state_dir).running
    assert control.down(options.state_dir).holder is None
    split = options.model_copy(update={"split": True, "services": ("gateway", "agent")})
    begun = control.detach(split)
    try:
        assert begun.running
        names = {process.name for process in begun.processes}
        assert names == {"supervisor", "nats-server", "redis-server", "gateway", "agent"}
        assert all(process.rss_mib > 0 for process in begun.processes)
    finally:
        stopped = control.down(options.state_dir)
    assert stopped.holder == begun.holder
    assert not any(psutil.pid_exists(process.pid) for process in begun.processes if process.name != "supervisor")
    after = control.status(options.state_dir)
    assert not after.running
    assert after.endpoints == begun.endpoints


async def test_what_is_simulated_has_processes_of_its_own_before_any_service(options: StartOptions) -> None:
    fabrics = [{"name": "blue", "simulated": {"pool": {"A100": 2}}}]
    ports = own_ports(*PORTS, "fabric", "dcgm")
    stack = await start(options.model_copy(update={"settings": {"fabrics": fabrics}, "ports": ports}))
    try:
        begun = [child.name for child in stack.children()]
        assert begun == ["nats-server", "redis-server", "fabric-simulator", "dcgm-simulator", "all"]
        settings = Settings.model_validate_json(stack.state.settings.read_bytes())
        assert settings.telemetry.url == f"http://127.0.0.1:{stack.endpoints.ports['dcgm']}/nodes/{{node}}/metrics"
        (fabric,) = settings.fabrics
        assert fabric.url == f"http://127.0.0.1:{stack.endpoints.ports['fabric']}/blue"
        assert fabric.credentials is not None
        assert stat.S_IMODE(fabric.credentials.stat().st_mode) == 0o600
    finally:
        await stack.stop()


def test_why_a_background_start_failed_is_told(options: StartOptions) -> None:
    with pytest.raises(control.StartFailedError, match="all was not ready"):
        control.detach(options.model_copy(update={"ready_path": "/readyz", "ready_s_max": 0.3}))
    assert not control.status(options.state_dir).running


def test_a_killed_supervisor_takes_its_children_along(options: StartOptions) -> None:
    begun = control.detach(options)
    assert begun.holder is not None
    os.kill(begun.holder.pid, signal.SIGKILL)
    os.waitpid(begun.holder.pid, 0)
    children = [psutil.Process(p.pid) for p in begun.processes if p.name != "supervisor" and psutil.pid_exists(p.pid)]
    assert not psutil.wait_procs(children, timeout=5)[1]
    assert not control.status(options.state_dir).running
