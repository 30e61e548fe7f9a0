"""`muster serve dcgm-simulator`: one process with a page for every simulated node; it writes nothing on the bus.

GET /nodes/<node>/metrics: the page, as the node's own exporter would give it, or what a broken one does instead.
GET /_faults: what is wrong. POST /_faults: {"node", "gpu", "fault", "value"}: it is so from now on.
DELETE /_faults?node=&gpu=: it is well again. The latter answer only callers of this machine.
"""

import asyncio
import ipaddress
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import uvloop
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.bus.access import READER
from muster.bus.checkpoint import Checkpoints, CheckpointUnavailableError
from muster.bus.checkpoint_store import NatsCheckpoints
from muster.bus.clock import SystemTime, TimeSource
from muster.bus.connection import connect
from muster.bus.fold import CONTROL_KIND
from muster.bus.logs import set_up_logs
from muster.bus.nats_log import SharedLog
from muster.bus.ports import LogError
from muster.bus.settings import Settings, load_settings
from muster.core import Fact
from muster.schemas.access import Endpoints
from muster.schemas.subjects import cluster_log
from muster.telemetry.simulator.gpus import FaultKind
from muster.telemetry.simulator.world import UnknownDeviceError, World

BODY_BYTES_MAX = 64 * 1024
HUNG_S_MAX = 3_600.0
"""A hung exporter closes a connection after this time, longer than any client waits."""
NONSENSE = "<html><body>502 Bad Gateway</body></html>\n"
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class NewFault(BaseModel):
    """Body of POST /_faults. gpu: its place on the node; None: the node's exporter. value: see `FaultKind`."""

    model_config = ConfigDict(extra="forbid")

    node: str
    gpu: Annotated[int, Field(ge=0)] | None = None
    fault: FaultKind
    value: Annotated[float, Field(ge=0, le=1e6)] = 1.0


class Pages:
    """Answers for one cluster's nodes. world: the one that is folded just now."""

    def __init__(self, world: Callable[[], World], clock: TimeSource) -> None:
        self._world, self._clock = world, clock

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_get("/", self._ready)
        app.router.add_get("/nodes/{node}/metrics", self._page)
        app.router.add_get("/_faults", _from_here(self._faults))
        app.router.add_post("/_faults", _from_here(self._inject))
        app.router.add_delete("/_faults", _from_here(self._clear))
        return app

    async def _ready(self, _: web.Request) -> web.Response:
        return web.json_response({"nodes": len(self._world().holdings.nodes)})

    async def _page(self, request: web.Request) -> web.StreamResponse:
        world, node = self._world(), request.match_info["node"]
        try:
            faults = world.faults_of(node).values
            if FaultKind.HUNG in faults:
                await asyncio.sleep(HUNG_S_MAX)
            if FaultKind.DOWN in faults:
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=503)
            if FaultKind.SLOW in faults:
                await asyncio.sleep(faults[FaultKind.SLOW])
            text = NONSENSE if FaultKind.NONSENSE in faults else world.page(node, self._clock.wall())
        except UnknownDeviceError as error:
            return web.Response(status=404, text=f"{error}\n")
        # The server holds a response until the next request of its connection: not one with a body of 80 KB
        response = web.StreamResponse(headers={"Content-Type": _CONTENT_TYPE})
        response.content_length = len(body := text.encode())
        await response.prepare(request)
        await response.write(body)
        await response.write_eof()
        return response

    async def _faults(self, _: web.Request) -> web.Response:
        found: list[dict[str, object]] = []
        for name, node in self._world().nodes.items():
            if node.faults.values:
                found.append({"node": name, "gpu": None, "faults": node.faults.values})
            found += [
                {"node": name, "gpu": gpu.index, "faults": gpu.faults.values}
                for gpu in node.gpus.values()
                if gpu.faults.values
            ]
        return web.json_response({"faults": found})

    async def _inject(self, request: web.Request) -> web.Response:
        try:
            new = NewFault.model_validate_json(await request.read())
            self._world().inject(new.node, new.gpu, new.fault, new.value, self._clock.wall())
        except (ValidationError, ValueError) as error:
            return web.json_response({"error": str(error)}, status=400)
        except UnknownDeviceError as error:
            return web.json_response({"error": str(error)}, status=404)
        return web.json_response(new.model_dump(mode="json"))

    async def _clear(self, request: web.Request) -> web.Response:
        node, gpu = request.query.get("node", ""), request.query.get("gpu")
        if gpu is not None and not gpu.isdecimal():
            return web.json_response({"error": "gpu: give its place on the node"}, status=400)
        try:
            self._world().clear(node, None if gpu is None else int(gpu))
        except UnknownDeviceError as error:
            return web.json_response({"error": str(error)}, status=404)
        return web.json_response({"node": node, "gpu": gpu})


def _from_here(handler: Handler) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        try:
            here = ipaddress.ip_address(request.remote or "").is_loopback
        except ValueError:
            here = False
        if not here:
            return web.json_response({"error": "only callers of this machine may ask this"}, status=403)
        return await handler(request)

    return checked


READ_MESSAGES = 1_000
READ_S = 5.0
AGAIN_S = 1.0
FOLLOWER = "dcgm-simulator"
_logger = logging.getLogger(__name__)


async def follow(settings: Settings, begin: Callable[[], Callable[[Fact], None]]) -> None:
    """Fold for ever. begin: makes an empty state and answers how to fold into it; again after every loss of place.

    Raises CredentialsError, and DisconnectedError if the connection is closed for good.
    """
    closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_closed(user: str) -> None:
        if not closed.done():
            closed.set_result(user)

    client = await connect(settings, READER, on_closed=on_closed)
    log = SharedLog(client, cluster_log(settings.cluster))
    checkpoints = Checkpoints(NatsCheckpoints(client), log.name)
    reading = asyncio.create_task(_read(log, checkpoints, begin), name="follow the log")
    ends: list[asyncio.Future[None] | asyncio.Future[str]] = [reading, closed]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            reading.result()
        raise ConnectionError(f"the connection of {closed.result()} was closed")
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await client.close()


async def _read(log: SharedLog, checkpoints: Checkpoints, begin: Callable[[], Callable[[Fact], None]]) -> None:
    while True:
        try:
            recorded, facts = await checkpoints.recover(FOLLOWER, await log.voided())
            apply = begin()
            for fact in facts:
                apply(fact)
            reader = await log.reader(after_seq=0 if recorded is None else recorded.seq)
            try:
                while True:
                    batch = await reader.read(limit=READ_MESSAGES, timeout_s=READ_S)
                    for fact in batch.facts:
                        if fact.kind != CONTROL_KIND:
                            apply(fact)
            finally:
                await reader.close()
        except (LogError, CheckpointUnavailableError) as error:
            _logger.warning("%s cannot be followed, trying again: %s", log.name.stream, error)
        await asyncio.sleep(AGAIN_S)


PORT = "dcgm"
BACKLOG = 1_024
LEAVE_S = 1.0


class NoExporterPortError(Exception):
    """The settings have no port for the exporters."""


def main(state_dir: Path) -> None:
    """Serve until SIGTERM. Raises OSError, pydantic.ValidationError, NoExporterPortError, CredentialsError."""
    set_up_logs((FOLLOWER,), os.environ)
    settings = load_settings(state_dir, os.environ)
    port = port_of(state_dir)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(settings, port))


async def serve(settings: Settings, port: int) -> None:
    """Serve the pages of the cluster's nodes until SIGTERM or SIGINT. Raises what `follow` raises, and OSError."""
    worlds = [_new(settings)]

    def begin() -> Callable[[Fact], None]:
        """Return a new fold; injected faults stay with their nodes."""
        before, fresh = worlds[0], _new(settings)
        fresh.nodes = before.nodes
        worlds[0] = fresh
        return fresh.apply

    app = Pages(lambda: worlds[0], SystemTime()).app()
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=LEAVE_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.http_host, port, backlog=BACKLOG).start()
        following = asyncio.create_task(follow(settings, begin), name="follow")
        stopped = asyncio.create_task(_asked_to_stop().wait())
        await asyncio.wait({following, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if following.done():
            following.result()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    finally:
        await runner.cleanup()


def _new(settings: Settings) -> World:
    return World(settings.simulation.seed, settings.simulation.telemetry_interval_s)


def _asked_to_stop() -> asyncio.Event:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def port_of(state_dir: Path) -> int:
    """Read the port from `run/endpoints.json`. Raises NoExporterPortError, OSError, pydantic.ValidationError."""
    path = state_dir / "run" / "endpoints.json"
    ports = Endpoints.model_validate_json(path.read_bytes()).ports
    if PORT not in ports:
        raise NoExporterPortError(f"{path}: ports has no {PORT!r}; start the stack with simulated exporters")
    return ports[PORT]
