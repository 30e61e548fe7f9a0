"""Start and stop of a stack on this machine: NATS, Redis, the streams, the admin's token, the services.

Start-up and crash recovery are one path: every start finds the state of the last one and corrects it.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from muster.bus.clock import SystemTime
from muster.bus.names import CENTRE_DOMAIN
from muster.bus.settings import Settings
from muster.core.instant import NS_PER_S
from muster.schemas.access import Endpoints
from muster.stack import nats_server, redis_server
from muster.stack.cells import (
    LEAF_PORT,
    broker_child,
    cell_of,
    start_cells,
    start_services,
    wait_for_links,
    wanted_cell_ports,
)
from muster.stack.declared import declared_users, services_of
from muster.stack.entering import enter, new_secret, new_token
from muster.stack.keys import MintedAccess, mint_access, write_private
from muster.stack.options import (
    StartOptions,
    asked_settings,
    endpoints_of,
    new_settings,
    refuse_another_role,
    remembered_ports,
    wanted_ports,
)
from muster.stack.ports import choose_ports
from muster.stack.probes import all_lead, http_answers, http_ok, redis_answers
from muster.stack.process import Command
from muster.stack.simulators import (
    DCGM_PORT,
    DCGM_SIMULATOR,
    FABRIC_PORT,
    SIMULATOR,
    TELEMETRY,
    are_simulated,
    have_simulator,
    write_credentials,
)
from muster.stack.state_dir import Holder, StateDir, StateDirLock
from muster.stack.supervisor import Child, ChildState, Supervisor

SERVICE_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}
"""Environment of service processes: with one arena per thread, glibc would not share memory freed by other threads."""

LED_S_MAX = 10.0
"""Three times the remaining lease of a killed leader."""
LED_POLL_S = 0.05


@dataclass(frozen=True)
class RunningStack:
    """A running stack. Its starter stops it."""

    state: StateDir
    endpoints: Endpoints
    settings: Settings
    _supervisor: Supervisor
    _lock: StateDirLock

    def children(self) -> tuple[ChildState, ...]:
        """Return the state of every child process, in start order."""
        return self._supervisor.states()

    async def stop(self) -> None:
        """Stop all children, services first, and release the lock. Call it once."""
        try:
            await self._supervisor.stop()
        finally:
            self._lock.release()


async def start(options: StartOptions) -> RunningStack:
    """Start a stack as children of this process; return when the gateway is ready and the services lead.

    It waits at most `LED_S_MAX` for leaders: a stack with a service that cannot lead still serves the rest. Children
    die with the thread that calls this, so call it from the main thread. Raises StateDirError (another stack holds the
    directory, or it is foreign), DeclarationError, ChildNotReadyError, BinaryMissingError, LogError,
    pydantic.ValidationError (settings); processes that were started are ended again.
    """
    state = StateDir(options.state_dir)
    state.prepare()
    now_s = SystemTime().wall() // NS_PER_S
    lock = StateDirLock.acquire(state, holder=Holder(os.getpid(), now_s, options.started_as))
    supervisor = Supervisor(logs_dir=state.logs, run_dir=state.run)
    try:
        endpoints, settings = await _start_locked(options, state, supervisor, now_s=now_s)
    except BaseException:
        try:
            await supervisor.stop()
        finally:
            lock.release()
        raise
    return RunningStack(state, endpoints, settings, supervisor, lock)


async def _start_locked(
    options: StartOptions, state: StateDir, supervisor: Supervisor, *, now_s: int
) -> tuple[Endpoints, Settings]:
    if options.fresh:
        state.wipe()
        state.prepare()
    for stale in state.run.glob("*.pid"):  # left by a killed supervisor, whose children died with it
        stale.unlink()
    asked = asked_settings(options)
    refuse_another_role(state, asked)
    clusters = asked.clusters if asked.role == "centre" else ()
    options = options.model_copy(update={"services": _those_of(asked, options.services)})
    fabrics, exporters = are_simulated(asked), have_simulator(asked) and TELEMETRY in options.services
    remembered = remembered_ports(state)
    ports = choose_ports(
        wanted_ports(options, remembered, fabrics=fabrics, exporters=exporters)
        | wanted_cell_ports(clusters, options, remembered)
    )
    redis = redis_server.RedisConfig(ports["redis"], state.redis, password=new_secret())
    endpoints = endpoints_of(ports, redis_url=redis.url, processes=options.processes(), tls=asked.tls)
    settings = new_settings(options, endpoints)
    cells = tuple(cell_of(name, centre=settings, options=options, ports=ports) for name in clusters)
    users = options.users or await declared_users(options.services, settings)
    access = mint_access(keys_dir=state.keys, credentials_dir=state.creds, users=users, now_s=now_s)
    write_credentials(settings, secret=new_secret)
    write_private(state.settings, settings.model_dump_json(indent=2))
    await supervisor.start(_nats_child(options, state, endpoints=endpoints, access=access), _redis_child(state, redis))
    token = _admin_token(state)
    await enter(settings, token=token, alone=bool(cells))
    if cells:
        await start_cells(cells, supervisor, options=options, now_s=now_s)
        await wait_for_links(cells, monitor_port=endpoints.ports["monitor"])
        await asyncio.gather(*(enter(cell.settings, token=token) for cell in cells))
        await enter(settings, token=token)
    everywhere = endpoints.model_copy(update={"metrics": (*endpoints.metrics, *(cell.metrics_url for cell in cells))})
    write_private(state.endpoints, everywhere.model_dump_json(indent=2))
    if fabrics:
        await supervisor.start(_simulator_child(options, SIMULATOR, endpoints.ports[FABRIC_PORT]))
    if exporters:
        await supervisor.start(_simulator_child(options, DCGM_SIMULATOR, endpoints.ports[DCGM_PORT]))
    await start_services(cells, supervisor, options=options)
    await supervisor.start(*_service_children(options, endpoints))
    if options.ready_path:
        await wait_for_leaders(everywhere.metrics)
    return everywhere, settings


async def wait_for_leaders(metrics: Sequence[str], *, most_s: float = LED_S_MAX) -> None:
    """Wait until the services of all these processes (given by their metrics pages) lead, at most `most_s`.

    The gateway is ready as soon as it can validate jobs; a page loaded at that moment would show services without a
    leader.
    """
    ports = [port_of(page) for page in metrics]
    with suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            while not all(await asyncio.gather(*map(all_lead, ports))):  # noqa: ASYNC110 - no event to await
                await asyncio.sleep(LED_POLL_S)


def port_of(metrics_page: str) -> int:
    """Return the metrics port of a process."""
    return int(metrics_page.rsplit(":", 1)[1].removesuffix("/metrics"))


def _those_of(settings: Settings, services: tuple[str, ...]) -> tuple[str, ...]:
    """Return the services that run on this broker."""
    return tuple(name for name in services if name in services_of(settings))


def _admin_token(state: StateDir) -> str:
    """Create the admin's token for the user who starts the stack: the file has the token, the bucket its hash."""
    if not state.token.exists():
        write_private(state.token, f"{new_token()}\n")
    return state.token.read_text().strip()


def _nats_child(options: StartOptions, state: StateDir, *, endpoints: Endpoints, access: MintedAccess) -> Child:
    ports = endpoints.ports
    config = nats_server.NatsConfig(
        port=ports["nats"],
        monitor_port=ports["monitor"],
        websocket_port=ports["websocket"],
        store_dir=state.nats / "store",
        origins=nats_server.loopback_origins(ports["http"], scheme=urlsplit(endpoints.http).scheme),
        sync_interval_s=options.sync_interval_s,
        store_bytes_max=options.store_bytes_max,
        access=access,
        domain=CENTRE_DOMAIN if LEAF_PORT in ports else "",
        leaf_port=ports.get(LEAF_PORT),
    )
    return broker_child(config, state.nats / "nats-server.conf", name="nats-server")


def _redis_child(state: StateDir, config: redis_server.RedisConfig) -> Child:
    path = state.redis / "redis.conf"
    write_private(path, redis_server.render(config))
    command = Command("redis-server", (str(redis_server.redis_binary()), str(path)))
    return Child(command, partial(redis_answers, config.port))


def _simulator_child(options: StartOptions, name: str, port: int) -> Child:
    """Return the process of all simulated managers, or of all exporters; it starts before the services that call it."""
    command = Command(name, options.command(name), SERVICE_ENVIRONMENT)
    return Child(command, partial(http_answers, port) if options.ready_path else None, ready_s_max=options.ready_s_max)


def _service_children(options: StartOptions, endpoints: Endpoints) -> tuple[Child, ...]:
    """Return one process for all services, or one each; that of the gateway is ready when the gateway is."""
    children = []
    metrics = dict(zip(options.processes(), endpoints.metrics, strict=True))
    for name in options.processes():
        port = port_of(metrics[name])
        command = Command(name, options.command(name), {"MUSTER_METRICS_PORT": str(port), **SERVICE_ENVIRONMENT})
        hosts_gateway = not options.split or name == "gateway"
        tls = urlsplit(endpoints.http).scheme == "https"
        probe = partial(http_ok, endpoints.ports["http"], options.ready_path, tls=tls)
        children.append(
            Child(command, probe if hosts_gateway and options.ready_path else None, ready_s_max=options.ready_s_max)
        )
    return tuple(children)


async def serve(options: StartOptions, *, on_ready: Callable[[RunningStack], None] | None = None) -> None:
    """Start a stack and keep it until SIGINT or SIGTERM. Raises the errors of `start`."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    starting = asyncio.create_task(start(options))
    waiting = asyncio.create_task(asked.wait())
    try:
        await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # asked to stop while starting
            starting.cancel()
            await asyncio.wait((starting,))
            return
        stack = starting.result()
        try:
            if on_ready is not None:
                on_ready(stack)
            await waiting
        finally:
            await stack.stop()
    finally:
        waiting.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
