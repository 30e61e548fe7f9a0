"""NEC CDIM's configuration manager and layout-apply, as far as a client needs them to move devices.

Routes and fields are those of project-cdim's API reference and of CoHDI's composable-resource-operator. A node is its
CPU: the CPU's deviceID is the node's id and the machine's. Assumptions: a GPU's uuid stands in `device.serialNumber`;
hardware that fails makes a layout FAILED, a manager that is not ready answers 503.
"""

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from muster.core import NS_PER_S
from muster.fabric.inventory import DeviceHealth, MachineDevice
from muster.fabric.simulator.build import Machine
from muster.fabric.simulator.layouts import IN_PROGRESS, Layout, apply
from muster.fabric.simulator.manager import Manager
from muster.fabric.simulator.problems import Refusal
from muster.fabric.simulator.routing import Trace, Working
from muster.fabric.simulator.saved import LayoutRecord
from muster.schemas.devices import CXL_MEMORY, GPU

Json = dict[str, object]
CPU = "CPU"
DEFAULT_GROUP = "00000000-0000-7000-8000-000000000000"
_TYPES = {GPU: "GPU", CXL_MEMORY: "memory"}
_HEALTH = {DeviceHealth.OK: "OK", DeviceHealth.WARNING: "Warning", DeviceHealth.CRITICAL: "Critical"}

router = APIRouter(prefix="/{fabric}/cdim/api/v1")


@router.get("/resources")
async def resources(manager: Working, detail: bool = False) -> JSONResponse:
    """Every device of the fabric, CPUs too."""
    manager.now()
    found = [_cpu(machine, detail=detail) for machine in manager.machines.values()]
    found += [_resource(device, place, detail=detail) for device, place in _placed(manager)]
    return JSONResponse({"count": len(found), "resources": found})


@router.get("/resources/{device_id}")
async def resource(manager: Working, device_id: str) -> Json:
    """One device, whole."""
    manager.now()
    if device_id in manager.machines:
        return _cpu(manager.machines[device_id], detail=True)
    device = manager.model.device(device_id)
    if device is None:
        raise Refusal(404, "E40004", f"resource {device_id!r} is not found")
    return _resource(device, manager.model.places()[device_id], detail=True)


@router.get("/nodes")
async def nodes(manager: Working, detail: bool = False) -> JSONResponse:
    """Every node with its devices."""
    manager.now()
    found = [_node(manager, machine, detail=detail) for machine in manager.machines.values()]
    return JSONResponse({"count": len(found), "nodes": found})


@router.get("/nodes/{node}")
async def node(manager: Working, node: str) -> Json:
    """One node, whole."""
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
    """How a layout stands."""
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
