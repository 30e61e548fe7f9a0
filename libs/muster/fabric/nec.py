"""Driver for NEC CDIM: a layout is applied, one at a time, and polled until it has ended.

Routes and fields: CoHDI/composable-resource-operator v0.2.1, internal/cdi/nec, and project-cdim's layout-apply.

The driver chooses the device: a free one of the model is connected to a CPU of the node. One apply runs at a time, so
there is at most one call, and 409 E40010 (another apply runs, perhaps of another client) changes nothing. An apply that
failed and was rolled back changed nothing either; one that ends in any other way may have left a device anywhere.
"""

import asyncio
from typing import Literal

from pydantic import Field, JsonValue

from muster.fabric import bounds
from muster.fabric.checked import check_device
from muster.fabric.driver import (
    AttachOrder,
    DetachOrder,
    DeviceHealth,
    FabricNonsenseError,
    FabricRefusedError,
    FabricUnavailableError,
    Inventory,
    MachineDevice,
)
from muster.fabric.http import Answer, ManagerHttp, parsed, poll, segment
from muster.schemas.devices import CXL_MEMORY, GPU

_API = "cdim/api/v1"
_TYPES = {"GPU": GPU, "MEMORY": CXL_MEMORY, "CXLMEMORY": CXL_MEMORY, "MEMORYCXL": CXL_MEMORY}
_HEALTH = {"OK": DeviceHealth.OK, "WARNING": DeviceHealth.WARNING, "CRITICAL": DeviceHealth.CRITICAL}
_GOES_ON = ("IN_PROGRESS", "CANCELING")


class _Status(Answer):
    health: str = "OK"


class _Device(Answer):
    deviceID: str  # noqa: N815 - the manager's name
    type: str
    model: str = ""
    serialNumber: str = ""  # noqa: N815
    capacityMiB: int = 0  # noqa: N815
    status: _Status = _Status()

    @property
    def kind(self) -> str:
        return _TYPES.get(self.type.upper(), self.type.lower())

    def on_machine(self) -> MachineDevice:
        return MachineDevice(
            device_id=self.deviceID,
            device_uuid=self.serialNumber or self.deviceID,
            model=self.model,
            type=self.kind,
            memory_mib=self.capacityMiB,
            health=_HEALTH.get(self.status.health.upper(), DeviceHealth.WARNING),
        )


class _Resource(Answer):
    device: _Device
    nodeIDs: tuple[str, ...] = ()  # noqa: N815


class _Resources(Answer):
    resources: tuple[_Resource, ...] = Field(max_length=bounds.DEVICES_MAX)

    def of_node(self, node: str) -> list[_Device]:
        return [resource.device for resource in self.resources if node in resource.nodeIDs]


class _NodeResource(Answer):
    device: _Device


class _Node(Answer):
    id: str
    resources: tuple[_NodeResource, ...] = Field(default=(), max_length=bounds.DEVICES_MAX)

    def cpu(self) -> str:
        """Return the device to which others are connected. Raises FabricRefusedError if there is none."""
        for resource in self.resources:
            if resource.device.type.upper() == "CPU":
                return resource.device.deviceID
        raise FabricRefusedError(f"node {self.id}: the manager shows no CPU, so nothing can be connected to it")


class _Nodes(Answer):
    nodes: tuple[_Node, ...] = Field(max_length=bounds.MACHINES_MAX)


class _Begun(Answer):
    applyID: str = Field(min_length=1)  # noqa: N815


class _Apply(Answer):
    status: str
    rollbackStatus: str = ""  # noqa: N815


class LayoutApply:
    """Driver for NEC CDIM. It sends no authentication; keep the manager's network closed."""

    parallel_max = bounds.PARALLEL_MAX["nec"]

    def __init__(self, http: ManagerHttp, *, call_s: float, poll_s: float = bounds.POLL_S_MIN) -> None:
        self._http = http
        self._call_s = call_s
        self._poll_s = poll_s

    async def attach(self, order: AttachOrder) -> tuple[MachineDevice, ...]:
        """Connect a free device of the model to the node; see FabricDriver.attach."""
        until = self._until()
        node = await self._node(order.machine, until=until, trace=order.traceparent)
        resources = await self._resources(until=until, trace=order.traceparent)
        alike = [resource for resource in resources.resources if _is(resource.device, order)]
        if not alike:
            raise FabricRefusedError(f"model {order.model}: the manager has no {order.type} of this model")
        free = next((resource.device for resource in alike if not resource.nodeIDs), None)
        if free is None:
            raise FabricRefusedError(f"model {order.model}: no {order.type} of this model is free")
        device = free.on_machine()
        check_device(device, what="GET resources")  # before it is connected
        await self._apply("connect", node.cpu(), free.deviceID, until=until, trace=order.traceparent)
        return (device,)

    async def detach(self, order: DetachOrder) -> bool:
        """Disconnect the device from the node; see FabricDriver.detach."""
        until = self._until()
        node = await self._node(order.machine, until=until, trace=order.traceparent)
        resources = await self._resources(until=until, trace=order.traceparent)
        if all(device.deviceID != order.device_id for device in resources.of_node(order.machine)):
            return False
        await self._apply("disconnect", node.cpu(), order.device_id, until=until, trace=order.traceparent)
        return True

    async def survey(self) -> Inventory:
        """Return the inventory; see FabricDriver.survey. Devices of no node are free; of every type, CPUs too."""
        until = self._until()
        nodes = await self._nodes(until=until)
        machines: dict[str, list[MachineDevice]] = {node.id: [] for node in nodes}
        free: dict[tuple[str, str], int] = {}
        for resource in (await self._resources(until=until)).resources:
            device = resource.device
            free.setdefault((device.kind, device.model), 0)
            if not resource.nodeIDs:
                free[device.kind, device.model] += 1
            for node_id in resource.nodeIDs:
                machines.setdefault(node_id, []).append(device.on_machine())
        return Inventory(free=free, machines={machine: tuple(devices) for machine, devices in machines.items()})

    async def close(self) -> None:
        """Close the connection."""
        await self._http.close()

    def _until(self) -> float:
        return asyncio.get_running_loop().time() + self._call_s

    async def _nodes(self, *, until: float, trace: str = "") -> tuple[_Node, ...]:
        body = await self._http.read(f"{_API}/nodes", until=until, params={"detail": "true"}, trace=trace)
        return parsed(_Nodes, body, what="GET nodes").nodes

    async def _node(self, node_id: str, *, until: float, trace: str) -> _Node:
        for node in await self._nodes(until=until, trace=trace):
            if node.id == node_id:
                return node
        raise FabricRefusedError(f"machine {node_id!r}: the manager has no such node")

    async def _resources(self, *, until: float, trace: str = "") -> _Resources:
        body = await self._http.read(f"{_API}/resources", until=until, params={"detail": "true"}, trace=trace)
        return parsed(_Resources, body, what="GET resources")

    async def _apply(
        self, operation: Literal["connect", "disconnect"], cpu: str, device_id: str, *, until: float, trace: str
    ) -> None:
        """Post one procedure, and poll until it has ended."""
        procedure: dict[str, JsonValue] = {
            "operationID": 1,
            "operation": operation,
            "sourceDeviceID": cpu,
            "destinationDeviceID": device_id,
            "dependencies": [],
        }
        body = await self._http.change(
            "POST", f"{_API}/layout-apply", until=until, body={"procedures": [procedure]}, trace=trace
        )
        apply_id = parsed(_Begun, body, what="POST layout-apply").applyID

        what = f"layout-apply {apply_id}"
        path = f"{_API}/layout-apply/{segment(apply_id, field='applyID')}"

        async def look() -> _Apply | None:
            seen = parsed(_Apply, await self._http.read(path, until=until, trace=trace), what=what)
            return None if seen.status in _GOES_ON or seen.rollbackStatus in _GOES_ON else seen

        ended = await poll(look, until=until, what=what, poll_s=self._poll_s)
        if ended.status == "COMPLETED":
            return
        said = f"{what}: {ended.status}, rollback {ended.rollbackStatus or 'none'}"
        if ended.status in ("FAILED", "CANCELED") and ended.rollbackStatus == "COMPLETED":
            raise FabricUnavailableError(f"{said}: no change was applied")
        raise FabricNonsenseError(said)


def _is(device: _Device, order: AttachOrder) -> bool:
    return (device.kind, device.model) == (order.type, order.model)
