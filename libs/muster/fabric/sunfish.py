"""Driver for Sunfish and other managers that compose by Redfish: a PATCH of a system adds one device.

The PATCH: CoHDI/composable-resource-operator v0.2.1, internal/cdi/sunfish; the rest: DMTF's Redfish (DSP0266).

The response names no device, so the driver reads the system afterwards; a failure of that read is reported as an
unknown effect, because the device may be attached. The pool is the set of unused resource blocks of the composition
service. Collections are read with `$expand`, and members that are only links are followed, on the same host and within
bounds.
"""

import asyncio
from dataclasses import dataclass

from pydantic import Field, JsonValue

from muster.fabric import bounds
from muster.fabric.driver import (
    AttachOrder,
    DetachOrder,
    DeviceHealth,
    FabricError,
    FabricNonsenseError,
    FabricRefusedError,
    FabricTimeoutError,
    Inventory,
    MachineDevice,
)
from muster.fabric.http import Answer, AnswerT, ManagerHttp, each, parsed, parsed_part, segment
from muster.schemas.base import Label
from muster.schemas.devices import CXL_MEMORY, GPU

_API = "redfish/v1"
_HEALTH = {"OK": DeviceHealth.OK, "Warning": DeviceHealth.WARNING, "Critical": DeviceHealth.CRITICAL}


@dataclass(frozen=True, slots=True)
class _Kind:
    """Redfish's names for a device type."""

    type: str
    collection: str
    """Collection of a system that holds these devices."""
    asks: tuple[tuple[str, str], ...]
    """Properties by which a request for one more device names the type."""


_KINDS = {
    GPU: _Kind(GPU, "Processors", (("ProcessorType", "GPU"),)),
    CXL_MEMORY: _Kind(CXL_MEMORY, "Memory", (("MemoryType", "CXL"),)),
}


class _Status(Answer):
    Health: str = "OK"


class _Member(Answer):
    """A processor or a memory of a system or of a resource block."""

    Id: str
    ProcessorType: str = ""
    Model: str = ""
    UUID: str = ""
    SerialNumber: str = ""
    CapacityMiB: int = 0
    Status: _Status = _Status()

    def on_machine(self, kind: str) -> MachineDevice:
        return MachineDevice(
            device_id=self.Id,
            device_uuid=self.SerialNumber or self.UUID or self.Id,
            model=self.Model,
            type=kind,
            memory_mib=self.CapacityMiB if kind == CXL_MEMORY else 0,
            health=_HEALTH.get(self.Status.Health, DeviceHealth.WARNING),
        )


class _System(Answer):
    Id: Label


class _Composition(Answer):
    CompositionState: str


class _Block(Answer):
    CompositionStatus: _Composition
    Processors: tuple[_Member, ...] = Field(default=(), max_length=bounds.DEVICES_MAX)
    Memory: tuple[_Member, ...] = Field(default=(), max_length=bounds.DEVICES_MAX)


class _Link(Answer):
    at: str = Field(alias="@odata.id")


class _Page(Answer):
    Members: tuple[dict[str, JsonValue], ...] = Field(max_length=bounds.DEVICES_MAX)
    next: str = Field(default="", alias="Members@odata.nextLink")


class Redfish:
    """Driver for a Redfish composition service."""

    parallel_max = bounds.PARALLEL_MAX["sunfish"]

    def __init__(self, http: ManagerHttp, *, call_s: float) -> None:
        self._http = http
        self._call_s = call_s

    async def attach(self, order: AttachOrder) -> tuple[MachineDevice, ...]:
        """Compose one more device of the model into the system; see FabricDriver.attach."""
        until, kind = self._until(), _kind(order.type)
        more: dict[str, JsonValue] = {"@Redfish.RequestCount": 1, **dict(kind.asks), "Model": order.model}
        body: dict[str, JsonValue] = {"Name": order.machine, kind.collection: {"Members": [more]}}
        said = await self._http.change("PATCH", _system(order.machine), until=until, body=body, trace=order.traceparent)
        if said:  # 200 shows the system, 204 has no body
            parsed(Answer, said, what=f"PATCH system {order.machine}")
        try:
            devices = await self._devices(order.machine, kind, until=until, trace=order.traceparent)
        except FabricNonsenseError:
            raise
        except FabricError as error:
            raise FabricTimeoutError(f"system {order.machine}: composed, but reading it failed: {error}") from error
        found = tuple(device for device in devices if device.model == order.model)
        if not found:
            raise FabricNonsenseError(f"system {order.machine}: success, but no {order.type} of {order.model} is in it")
        return found

    async def detach(self, order: DetachOrder) -> bool:
        """Remove the device from the system, unless it is already gone; see FabricDriver.detach."""
        until, kind = self._until(), _kind(order.type)
        path = f"{_system(order.machine)}/{kind.collection}/{segment(order.device_id, field='device_id')}"
        if not await self._is_there(order, kind, until=until):
            return False
        try:
            said = await self._http.change("DELETE", path, until=until, trace=order.traceparent)
        except FabricRefusedError:
            if await self._is_there(order, kind, until=until):
                raise
            return False  # another client detached it meanwhile
        if said:
            parsed(Answer, said, what=f"DELETE {path}")
        return True

    async def survey(self) -> Inventory:
        """Return the inventory of all systems and resource blocks; see FabricDriver.survey."""
        until = self._until()
        systems = await self._collection(f"{_API}/Systems", _System, until=until)
        if len(systems) > bounds.MACHINES_MAX:
            raise FabricNonsenseError(f"GET Systems: more than {bounds.MACHINES_MAX}")

        async def devices(system: _System) -> tuple[MachineDevice, ...]:
            found = [await self._devices(system.Id, kind, until=until) for kind in _KINDS.values()]
            return tuple(device for part in found for device in part)

        standing = await each(systems, devices)
        free: dict[tuple[str, str], int] = {}
        for block in await self._collection(f"{_API}/CompositionService/ResourceBlocks", _Block, until=until):
            for kind, members in ((GPU, _gpus(block.Processors)), (CXL_MEMORY, block.Memory)):
                for member in members:
                    is_free = block.CompositionStatus.CompositionState == "Unused"
                    free[kind, member.Model] = free.get((kind, member.Model), 0) + is_free
        return Inventory(
            free=free, machines={system.Id: found for system, found in zip(systems, standing, strict=True)}
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._http.close()

    def _until(self) -> float:
        return asyncio.get_running_loop().time() + self._call_s

    async def _is_there(self, order: DetachOrder, kind: _Kind, *, until: float) -> bool:
        devices = await self._devices(order.machine, kind, until=until, trace=order.traceparent)
        return any(device.device_id == order.device_id for device in devices)

    async def _devices(self, machine: str, kind: _Kind, *, until: float, trace: str = "") -> tuple[MachineDevice, ...]:
        path = f"{_system(machine)}/{kind.collection}"
        members = await self._collection(path, _Member, until=until, trace=trace)
        wanted = _gpus(tuple(members)) if kind.type == GPU else members
        return tuple(member.on_machine(kind.type) for member in wanted)

    async def _collection(self, path: str, model: type[AnswerT], *, until: float, trace: str = "") -> list[AnswerT]:
        """Return all members of a collection, from all pages. Raises FabricNonsenseError above PAGES_MAX pages."""
        found: list[AnswerT] = []
        at, params = path, {"$expand": "."}

        async def member(said: dict[str, JsonValue]) -> AnswerT:
            if set(said) - {"@odata.id"}:
                return parsed_part(model, said, what=path)
            link = _path(parsed_part(_Link, said, what=path).at)
            return parsed(model, await self._http.read(link, until=until, trace=trace), what=link)

        for _ in range(bounds.PAGES_MAX):
            page = parsed(_Page, await self._http.read(at, until=until, params=params, trace=trace), what=path)
            found.extend(await each(page.Members, member))
            if not page.next:
                return found
            at, params = _path(page.next), {}
        raise FabricNonsenseError(f"{path}: more than {bounds.PAGES_MAX} pages")


def _kind(name: str) -> _Kind:
    kind = _KINDS.get(name)
    if kind is None:
        raise FabricRefusedError(f"type {name!r}: this driver composes {', '.join(_KINDS)}")
    return kind


def _system(machine: str) -> str:
    return f"{_API}/Systems/{segment(machine, field='machine')}"


def _gpus(members: tuple[_Member, ...]) -> list[_Member]:
    return [member for member in members if member.ProcessorType == "GPU"]


def _path(link: str) -> str:
    """Return a link of the service as a path below its base. Raises FabricNonsenseError if it leads elsewhere."""
    at = link.find(f"/{_API}/")
    if at < 0 or "://" in link or link.startswith("//") or "/../" in link:
        raise FabricNonsenseError(f"link {link[:200]!r} does not lead into {_API}")
    return link[at + 1 :]
