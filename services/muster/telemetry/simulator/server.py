"""The exporters' pages over HTTP, as each node's own would be; and pages of the simulator itself.

GET /nodes/<node>/metrics: the page, or what a broken exporter does instead. GET /_faults: what is wrong. POST /_faults:
{"node", "gpu", "fault", "value"}: it is so from now on. DELETE /_faults?node=&gpu=: it is well again. The latter answer
only callers of this machine.
"""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.bus.clock import TimeSource
from muster.telemetry.simulator.gpus import FaultKind
from muster.telemetry.simulator.world import UnknownDeviceError, World

BODY_BYTES_MAX = 64 * 1024
HUNG_S_MAX = 3_600.0
"""A hung exporter lets go of a connection after this; whoever asks has long gone."""
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
        """The application."""
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
        return web.Response(body=text.encode(), headers={"Content-Type": _CONTENT_TYPE})

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
