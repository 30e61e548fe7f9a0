"""NEC CDIM's configuration manager and layout-apply, as far as a client needs them to move devices.

Routes and fields are those of project-cdim's API reference and of CoHDI's composable-resource-operator. A node is its
CPU: the CPU's deviceID is the node's id and the machine's. Assumptions: a GPU's uuid stands in `device.serialNumber`;
hardware that fails makes a layout FAILED, a manager that is not ready answers 503.
"""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Request
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator
from starlette.responses import JSONResponse

from muster.core import NS_PER_S
from muster.fabric.driver import DeviceHealth, FabricError, FabricUnavailableError, MachineDevice
from muster.fabric.simulator.build import Machine
from muster.fabric.simulator.manager import DEVICES_MAX, Manager
from muster.fabric.simulator.operation import Operation, OperationState
from muster.fabric.simulator.problems import Refusal
from muster.fabric.simulator.routing import Trace, Working
from muster.fabric.simulator.saved import LayoutRecord
from muster.schemas.devices import CXL_MEMORY, GPU

LAYOUTS_KEPT = 100
"""Layouts that are over and still known; the oldest are forgotten."""
CPU = "CPU"
DEFAULT_GROUP = "00000000-0000-7000-8000-000000000000"
_TYPES = {GPU: "GPU", CXL_MEMORY: "memory"}
_HEALTH = {DeviceHealth.OK: "OK", DeviceHealth.WARNING: "Warning", DeviceHealth.CRITICAL: "Critical"}


IN_PROGRESS, COMPLETED, FAILED, SKIPPED = "IN_PROGRESS", "COMPLETED", "FAILED", "SKIPPED"


class Procedure(BaseModel):
    """One step. sourceDeviceID: the CPU; destinationDeviceID: the device; the field's older names are read too."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    operation_id: Annotated[int, Field(validation_alias="operationID")]
    operation: Literal["connect", "disconnect", "boot", "shutdown"]
    source: Annotated[str, Field(validation_alias=AliasChoices("sourceDeviceID", "targetCPUID"))] = ""
    destination: Annotated[str, Field(validation_alias=AliasChoices("destinationDeviceID", "targetDeviceID"))] = ""
    dependencies: tuple[int, ...] = ()

    def shown(self) -> dict[str, object]:
        """Return the procedure as the API shows it."""
        return {
            "operationID": self.operation_id,
            "operation": self.operation,
            "sourceDeviceID": self.source,
            "destinationDeviceID": self.destination,
            "dependencies": list(self.dependencies),
        }


class Layout(BaseModel):
    """Body of a layout-apply."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    procedures: Annotated[tuple[Procedure, ...], Field(max_length=DEVICES_MAX)]

    @model_validator(mode="after")
    def _can_be_carried_out(self) -> Self:
        """Check that every dependency names an earlier procedure, so that there is an order."""
        known: set[int] = set()
        for one in self.procedures:
            if one.operation_id in known:
                raise ValueError(f"operationID {one.operation_id} is there twice")
            if unknown := set(one.dependencies) - known:
                raise ValueError(f"dependencies of {one.operation_id}: {min(unknown)} does not stand before it")
            known.add(one.operation_id)
        return self


class LayoutRun:
    """One layout under way. Procedures without a device to move (boot, shutdown) take no time."""

    def __init__(self, manager: Manager, layout: Layout, *, apply_id: str, trace: str) -> None:
        self._manager = manager
        self._left = {one.operation_id: one for one in layout.procedures}
        self._moving: dict[int, Operation] = {}
        self._results: dict[int, dict[str, object]] = {}
        self._trace = trace
        self.record = LayoutRecord(
            apply_id=apply_id,
            status=IN_PROGRESS,
            procedures=tuple(one.shown() for one in layout.procedures),
            started=manager.now(),
        )

    @property
    def moving(self) -> tuple[Operation, ...]:
        """Return the operations under way."""
        return tuple(self._moving.values())

    def begin(self) -> None:
        """Begin what may. Raises FabricUnavailableError if the very first cannot be: then nothing was changed."""
        for one in tuple(self._left.values()):
            if any(self._results.get(before, {}).get("status") != COMPLETED for before in one.dependencies):
                continue
            try:
                self._begin(one)
            except FabricUnavailableError as error:
                if not self._moving and not self._results:
                    raise
                self._end(one, FAILED, str(error))
            except (FabricError, Refusal) as error:
                self._end(one, FAILED, str(error))

    async def finish(self) -> None:
        """Carry out the rest; what depends on a failure is skipped."""
        while self._moving:
            await self._manager.clock.until(max(one.due for one in self._moving.values()))
            self._manager.now()
            for operation_id, operation in tuple(self._moving.items()):
                over = self._manager.model.operation(operation.id)
                failed = over.state is OperationState.FAILED
                del self._moving[operation_id]
                self._end_moved(operation_id, FAILED if failed else COMPLETED, "broke off half-way" if failed else "")
            self.begin()
        for one in tuple(self._left.values()):
            self._end(one, SKIPPED, "")
        failed = any(result["status"] != COMPLETED for result in self._results.values())
        self.record = self.record.model_copy(
            update={
                "status": FAILED if failed else COMPLETED,
                "results": tuple(self._results.values()),
                "ended": self._manager.now(),
            }
        )
        self._manager.layouts[self.record.apply_id] = self.record
        await self._manager.keep()

    def _begin(self, one: Procedure) -> None:
        manager = self._manager
        if one.operation == "connect":
            [operation] = manager.attach(one.source, model="", device_id=one.destination, trace=self._trace)
        elif one.operation == "disconnect":
            [operation] = manager.detach(one.source, one.destination, trace=self._trace)
        else:
            manager.machine(one.destination)
            self._end(one, COMPLETED, "")
            return
        self._moving[one.operation_id] = operation
        del self._left[one.operation_id]

    def _end(self, one: Procedure, status: str, message: str) -> None:
        del self._left[one.operation_id]
        self._end_moved(one.operation_id, status, message)

    def _end_moved(self, operation_id: int, status: str, message: str) -> None:
        result: dict[str, object] = {"operationID": operation_id, "status": status}
        if message:
            result["responseBody"] = {"code": "E50000", "message": message}
        self._results[operation_id] = result


async def apply(request: Request, manager: Manager, layout: Layout, *, trace: str) -> str:
    """Begin a layout; its id when that is kept. Raises Refusal (409, E40010) while another runs, FabricError."""
    running = next((one.apply_id for one in manager.layouts.values() if one.status == IN_PROGRESS), None)
    if running is not None:
        raise Refusal(409, "E40010", f"layout-apply {running} is running; one at a time")
    newest = max((int(one, 16) for one in manager.layouts), default=0)
    run = LayoutRun(manager, layout, apply_id=f"{newest + 1:010x}", trace=trace)
    run.begin()
    manager.layouts[run.record.apply_id] = run.record
    for oldest in tuple(manager.layouts)[:-LAYOUTS_KEPT]:
        del manager.layouts[oldest]
    moving = run.moving
    task = asyncio.create_task(run.finish(), name=f"layout {run.record.apply_id}")
    manager.tasks.add(task)
    task.add_done_callback(manager.tasks.discard)
    await manager.keep()
    await manager.spoil(request, moving, halves=False)
    return run.record.apply_id


def after_restart(record: LayoutRecord, *, now: int) -> LayoutRecord:
    """Return a layout after a restart of the process that applied it: a running one has failed."""
    if record.status != IN_PROGRESS:
        return record
    return record.model_copy(update={"status": FAILED, "ended": now})


Json = dict[str, object]

router = APIRouter(prefix="/{fabric}/cdim/api/v1")


@router.get("/resources")
async def resources(manager: Working, detail: bool = False) -> JSONResponse:
    """Return every device of the fabric, including CPUs."""
    manager.now()
    found = [_cpu(machine, detail=detail) for machine in manager.machines.values()]
    found += [_resource(device, place, detail=detail) for device, place in _placed(manager)]
    return JSONResponse({"count": len(found), "resources": found})


@router.get("/resources/{device_id}")
async def resource(manager: Working, device_id: str) -> Json:
    """Return one device with all fields."""
    manager.now()
    if device_id in manager.machines:
        return _cpu(manager.machines[device_id], detail=True)
    device = manager.model.device(device_id)
    if device is None:
        raise Refusal(404, "E40004", f"resource {device_id!r} is not found")
    return _resource(device, manager.model.places()[device_id], detail=True)


@router.get("/nodes")
async def nodes(manager: Working, detail: bool = False) -> JSONResponse:
    """Return every node with its devices."""
    manager.now()
    found = [_node(manager, machine, detail=detail) for machine in manager.machines.values()]
    return JSONResponse({"count": len(found), "nodes": found})


@router.get("/nodes/{node}")
async def node(manager: Working, node: str) -> Json:
    """Return one node with all fields."""
    manager.now()
    if node not in manager.machines:
        raise Refusal(404, "E40004", f"node {node!r} is not found")
    return _node(manager, manager.machines[node], detail=True)


@router.post("/layout-apply")
async def layout_apply(request: Request, manager: Working, *, layout: Layout, trace: Trace) -> JSONResponse:
    """Begin a layout: 202 and its id. 409 E40010 while another runs."""
    return JSONResponse({"applyID": await apply(request, manager, layout, trace=trace)}, 202)


@router.get("/layout-apply")
async def layouts(manager: Working) -> Json:
    """Layouts that are known, newest first."""
    found = [_layout(record) for record in reversed(manager.layouts.values())]
    return {"totalCount": len(found), "count": len(found), "applyResults": found}


@router.get("/layout-apply/{apply_id}")
async def layout(manager: Working, apply_id: str) -> Json:
    """Return the state of a layout."""
    record = manager.layouts.get(apply_id)
    if record is None:
        raise Refusal(404, "E40020", f"Specified Layout Apply ID {apply_id!r} is not found")
    return _layout(record)


def _placed(manager: Manager) -> list[tuple[MachineDevice, str]]:
    placed = [(manager.model.device(device_id), machine) for device_id, machine in manager.model.places().items()]
    return [(device, machine) for device, machine in placed if device is not None]


def _node(manager: Manager, machine: Machine, *, detail: bool) -> Json:
    devices = manager.model.on_machine(machine.id)
    shown = [_resource(device, machine.id, detail=detail) for device in devices]
    return {"id": machine.id, "resources": [_cpu(machine, detail=detail), *shown]}


def _cpu(machine: Machine, *, detail: bool) -> Json:
    device: Json = {"deviceID": machine.id, "type": CPU, "status": {"state": "Enabled", "health": "OK"}}
    if detail:
        device |= {"model": "", "serialNumber": machine.name, "powerState": "On"}
    return _entry(device, machine.id)


def _resource(device: MachineDevice, machine: str, *, detail: bool) -> Json:
    shown: Json = {
        "deviceID": device.device_id,
        "type": _TYPES.get(device.type, device.type),
        "status": {"state": "Enabled", "health": _HEALTH[device.health]},
    }
    if detail:
        shown |= {"model": device.model, "serialNumber": device.device_uuid, "powerState": "On"}
        shown["links"] = [{"deviceID": machine, "type": CPU}] if machine else []
        if device.memory_mib:
            shown["capacityMiB"] = device.memory_mib
    return _entry(shown, machine)


def _entry(device: Json, node: str) -> Json:
    return {
        "device": device,
        "detected": True,
        "annotation": {"available": True},
        "resourceGroupIDs": [DEFAULT_GROUP],
        "nodeIDs": [node] if node else [],
    }


def _layout(record: LayoutRecord) -> Json:
    shown: Json = {"applyID": record.apply_id, "status": record.status, "startedAt": _utc(record.started)}
    if record.status != IN_PROGRESS:
        shown |= {
            "procedures": list(record.procedures),
            "applyResult": list(record.results),
            "endedAt": _utc(record.ended),
        }
    return shown


def _utc(moment: int) -> str:
    return datetime.fromtimestamp(moment / NS_PER_S, UTC).isoformat(timespec="milliseconds")
