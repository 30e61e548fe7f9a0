"""`muster serve fabric-simulator`: one process that serves every simulated fabric of a stack, each by all protocols.

`/<fabric>` is the root of a manager's API, as in `fabrics[].url` of the settings; a fabric answers every protocol,
independent of its driver in the settings.

Pages of the simulator itself, for tests and demonstrations, only for clients on the same machine:

GET /<fabric>/_inventory: the true state. GET /<fabric>/_operations: the newest operations with their traces. POST
/<fabric>/_faults: the behavior until the next start. POST /<fabric>/_devices: add a device, with any fields, as if
built in by hand, until the next start.
"""

import asyncio
import ipaddress
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

import uvicorn
import uvloop
from fastapi import APIRouter, Depends, FastAPI, Request
from pydantic import ConfigDict, Field, ValidationError, model_validator, with_config
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.bus.logs import set_up_logs
from muster.bus.settings import FabricSettings, Settings, load_settings
from muster.core.settings import FabricBehaviour, GroupSettings
from muster.fabric.simulator import cm, fm, nec, redfish
from muster.fabric.simulator.build import build_model, machines_of
from muster.fabric.simulator.clock import FabricClock, RunningClock
from muster.fabric.simulator.manager import Manager, Tokens, read_login
from muster.fabric.simulator.model import OPERATIONS_KEPT
from muster.fabric.simulator.nec import after_restart
from muster.fabric.simulator.operation import Fault, Operation, PoolDevice
from muster.fabric.simulator.problems import HANDLED, Refusal, refused
from muster.fabric.simulator.routing import Any
from muster.fabric.simulator.saved import FabricStore, LayoutRecord, SavedStateError, dump, load
from muster.schemas.access import Endpoints

Json = dict[str, object]
DELAY_S_MAX = 900.0


async def from_here(request: Request) -> None:
    """Raises Refusal (403) for a caller from another machine."""
    host = request.client.host if request.client is not None else ""
    try:
        here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = False
    if not here:
        raise Refusal(403, "Forbidden", "pages of the simulator itself answer only callers of its own machine")


router = APIRouter(prefix="/{fabric}", dependencies=[Depends(from_here)])


class Faults(FabricBehaviour):
    """Change of the behavior; a field that is missing or null stays. outage, delay_s: of every call; see Manager."""

    outage: Literal["none", "refuse", "drop", "nonsense"] | None = None
    delay_s: Annotated[float, Field(ge=0, le=DELAY_S_MAX)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _null_is_not_given(cls, said: object) -> object:
        return {key: value for key, value in said.items() if value is not None} if isinstance(said, dict) else said

    @model_validator(mode="after")
    def _at_most_every_call(self) -> Self:
        """Accept any sum: the shares are checked together with those that stay."""
        return self


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class NewDevice(PoolDevice):
    """machine: "" is the pool. The rest may be nonsense."""

    machine: str = ""


@router.get("/_inventory")
async def inventory(manager: Any) -> Json:
    """Return the place of every device; `moving` has those under way, `machines` has them only while detaching."""
    now = manager.now()
    model = manager.model
    held = model.inventory()
    return {
        "fabric": model.name,
        "now": now,
        "free": [{"type": kind, "model": name, "count": count} for (kind, name), count in held.free.items()],
        "machines": {machine: [asdict(one) for one in devices] for machine, devices in held.machines.items()},
        "moving": dict(model.moving()),
        "running": model.running,
    }


@router.get("/_operations")
async def operations(manager: Any) -> Json:
    """Return the newest operations, newest first."""
    manager.now()
    return {"operations": [_operation(manager, one) for one in manager.model.operations()[:OPERATIONS_KEPT]]}


@router.post("/_faults")
async def set_faults(manager: Any, faults: Faults) -> Json:
    """Change the behavior and return all of it. Raises Refusal (400) if the shares exceed every call."""
    wanted = faults.model_dump(exclude_unset=True, exclude={"outage", "delay_s"})
    try:
        manager.model.behaviour = FabricBehaviour(**{**dict(manager.model.behaviour), **wanted})
    except ValidationError as error:
        raise Refusal(400, "BadRequest", error.errors()[0]["msg"].removeprefix("Value error, ")) from error
    if faults.outage is not None:
        manager.outage = Fault(faults.outage)
    if faults.delay_s is not None:
        manager.delay_s = faults.delay_s
    return _behaviour(manager)


@router.post("/_devices")
async def build_in(manager: Any, new: NewDevice) -> Json:
    """Answers the fabric's own id of the device. Raises Refusal (400)."""
    try:
        manager.model.enter(new, new.machine)
    except ValueError as error:
        raise Refusal(400, "BadRequest", str(error)) from error
    return {"device_id": new.on_machine().device_id}


def _behaviour(manager: Manager) -> Json:
    return {**dict(manager.model.behaviour), "outage": manager.outage, "delay_s": manager.delay_s}


def _operation(manager: Manager, operation: Operation) -> Json:
    device = manager.model.device(operation.device_id)
    shown = {**asdict(operation), "device": asdict(device) if device is not None else None}
    del shown["device_id"]
    return shown


BODY_BYTES_MAX = 1024 * 1024
PORT = "fabric"
LEAVE_S = 2
"""For answers that are under way when the process is asked to end; what runs goes on in the next one."""
BACKLOG = 512
CONNECTIONS_MAX = 2_048


def open_manager(
    fabric: FabricSettings,
    groups: Sequence[GroupSettings] = (),
    *,
    path: Path | None = None,
    clock: FabricClock | None = None,
) -> Manager:
    """Return a manager that can be served.

    path: file of its state, None for none. clock: None is the machine's. Raises ValueError (settings), SavedStateError
    (names the file), OSError, pydantic.ValidationError (credentials).
    """
    model = build_model(fabric, groups)
    layouts: tuple[LayoutRecord, ...] = ()
    if path is not None and path.exists():
        try:
            layouts = load(model, path.read_bytes())
        except SavedStateError as error:
            raise SavedStateError(f"{path}: {error}") from error
    assert fabric.simulated is not None, "build_model asks for it"
    login = read_login(fabric.credentials) if fabric.credentials is not None else None
    manager = Manager(
        model=model,
        settings=fabric,
        machines=machines_of(fabric, groups),
        clock=clock or RunningClock(not_before=model.now),
        tokens=Tokens(fabric.name, login, fabric.simulated.token_s) if login is not None else None,
        layouts={record.apply_id: after_restart(record, now=model.now) for record in layouts},
    )
    if path is not None:
        manager.store = FabricStore(path, lambda: dump(model, tuple(manager.layouts.values())))
    return manager


def make_app(managers: Iterable[Manager]) -> FastAPI:
    """Return the application, without FastAPI's own pages, which load from third-party servers."""
    app = FastAPI(title="Simulated fabric managers", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.managers = {manager.model.name: manager for manager in managers}
    for routes in (fm.router, cm.router, nec.router, redfish.router, router):
        app.router.routes.extend(routes.routes)  # flat: a nested router is matched and entered per request
    for error in HANDLED:
        app.add_exception_handler(error, refused)
    app.add_api_route("/", _fabrics, methods=["GET"])
    app.add_middleware(_BoundedBodies)
    return app


class _BoundedBodies:
    """Refuses requests larger than BODY_BYTES_MAX before they are in memory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > BODY_BYTES_MAX:
                raise Refusal(413, "TooLarge", f"the request is larger than {BODY_BYTES_MAX} bytes")
            return message

        await self._app(scope, counted, send)


async def _fabrics(request: Request) -> dict[str, list[str]]:
    """Return the names of the served fabrics; a response also means that the process is ready."""
    return {"fabrics": list(request.app.state.managers)}


class NoFabricPortError(Exception):
    """The settings have no port for the simulator."""


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
