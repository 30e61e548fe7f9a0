"""`muster run fabric-simulator`: one process that serves every simulated fabric of a stack; no service of the bus."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
import uvloop

from muster.bus.logs import set_up_logs
from muster.bus.settings import Settings, load_settings
from muster.fabric.simulator.hosting import open_manager
from muster.fabric.simulator.manager import Manager
from muster.fabric.simulator.server import make_app
from muster.schemas.access import Endpoints

PORT = "fabric"
LEAVE_S = 2
"""For answers that are under way when the process is asked to end; what runs goes on in the next one."""
BACKLOG = 512
CONNECTIONS_MAX = 2_048


class NoFabricPortError(Exception):
    """Nobody said where to listen."""


def main(state_dir: Path) -> None:
    """Serve until SIGTERM. Raises OSError, pydantic.ValidationError, NoFabricPortError, ValueError, SavedStateError."""
    set_up_logs(("fabric-simulator",), os.environ)
    settings = load_settings(state_dir, os.environ)
    app = make_app(managers_of(settings))
    config = uvicorn.Config(
        app,
        host=settings.http_host,
        port=port_of(state_dir),
        backlog=BACKLOG,
        limit_concurrency=CONNECTIONS_MAX,
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=LEAVE_S,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(_Server(config)))


async def _serve(server: uvicorn.Server) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, setattr, server, "should_exit", True)
    await server.serve()


class _Server(uvicorn.Server):
    """uvicorn would send itself the signal once more after it has served: being asked to end is no failure."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them to `_serve`."""
        yield


def managers_of(settings: Settings) -> list[Manager]:
    """One for each simulated fabric, as it was left. Raises what `open_manager` raises."""
    return [
        open_manager(fabric, settings.scaling.groups, path=settings.state_dir / "fabric" / f"{fabric.name}.json")
        for fabric in settings.fabrics
        if fabric.simulated is not None
    ]


def port_of(state_dir: Path) -> int:
    """From `run/endpoints.json`. Raises NoFabricPortError, OSError, pydantic.ValidationError."""
    path = state_dir / "run" / "endpoints.json"
    ports = Endpoints.model_validate_json(path.read_bytes()).ports
    if PORT not in ports:
        raise NoFabricPortError(f"{path}: ports has no {PORT!r}; start the stack with a simulated fabric")
    return ports[PORT]
