"""Redfish composition, as Sunfish serves it and as DMTF's DSP2050 describes it, for a pool of single devices.

- The pool is `CompositionService/ResourceBlocks`: one block per device, CompositionState Unused, Composing or Composed.
- A machine is a ComputerSystem; `Links.ResourceBlocks` says which blocks it has, also those on their way to it.
- `PATCH Systems/{id}` composes: `Processors.Members[{"@Redfish.RequestCount": n, ProcessorType, Model}]` adds n devices
  of a model (what the Composable Resource Operator sends, also to the system `System` with the machine as `Name`), and
  `Links.ResourceBlocks` is the whole list that there shall be: blocks come and go accordingly.
- `DELETE Systems/{id}/Processors/{id}`, `.../Memory/{id}` takes one device away.

Answers come when the switches are done. With `If-Match`, a PATCH of a system that changed meanwhile is 412. A request
count of 0 says which model shall go but not which device, so it is refused. All members are given whole with `$expand`.
"""

import hashlib
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from muster.fabric.driver import DeviceHealth, MachineDevice
from muster.fabric.simulator.build import Machine
from muster.fabric.simulator.manager import DEVICES_MAX, Manager
from muster.fabric.simulator.operation import Operation, OperationKind
from muster.fabric.simulator.problems import Refusal
from muster.fabric.simulator.routing import Trace, Working
from muster.schemas.devices import CXL_MEMORY, GPU

Json = dict[str, object]
ANY_SYSTEM = "System"
_COLLECTIONS = {"Processors": GPU, "Memory": CXL_MEMORY}
_HEALTH = {DeviceHealth.OK: "OK", DeviceHealth.WARNING: "Warning", DeviceHealth.CRITICAL: "Critical"}

router = APIRouter(prefix="/{fabric}/redfish/v1")
Expand = Annotated[str, Query(alias="$expand")]


class _In(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Request(_In):
    count: Annotated[int, Field(alias="@Redfish.RequestCount", ge=1, le=DEVICES_MAX)]
    model: Annotated[str, Field(alias="Model")]


class _Requests(_In):
    members: Annotated[tuple[_Request, ...], Field(alias="Members", max_length=DEVICES_MAX)] = ()


class _Link(_In):
    at: Annotated[str, Field(alias="@odata.id")]


class _Links(_In):
    blocks: Annotated[tuple[_Link, ...] | None, Field(alias="ResourceBlocks", max_length=DEVICES_MAX)] = None


class Composition(_In):
    """Body of a PATCH of a system."""

    name: Annotated[str, Field(alias="Name")] = ""
    processors: Annotated[_Requests, Field(alias="Processors")] = _Requests()
    memory: Annotated[_Requests, Field(alias="Memory")] = _Requests()
    links: Annotated[_Links, Field(alias="Links")] = _Links()


@router.get("")
@router.get("/")
async def root(manager: Working) -> Json:
    """Return the service root."""
    top = _top(manager)
    return {
        "@odata.id": top,
        "Id": "RootService",
        "Name": manager.model.name,
        "RedfishVersion": "1.15.0",
        "Systems": {"@odata.id": f"{top}/Systems"},
        "CompositionService": {"@odata.id": f"{top}/CompositionService"},
    }


@router.get("/Systems")
async def systems(manager: Working, expand: Expand = "") -> JSONResponse:
    """Return every machine."""
    manager.now()
    path = f"{_top(manager)}/Systems"
    return JSONResponse(_collection(path, [_system(manager, one) for one in manager.machines.values()], expand))


@router.get("/Systems/{system}")
async def system(manager: Working, system: str) -> JSONResponse:
    """Return one machine, with its ETag."""
    manager.now()
    return _shown(manager, _machine(manager, system))


@router.patch("/Systems/{system}")
async def compose(
    request: Request,
    manager: Working,
    *,
    system: str,
    body: Composition,
    trace: Trace,
    if_match: Annotated[str, Header()] = "",
) -> JSONResponse:
    """Give a machine devices, or also take some away."""
    manager.now()
    machine = _machine(manager, system, name=body.name)
    if if_match not in ("", "*", _etag(manager, machine)):
        raise Refusal(412, "PreconditionFailed", f"system {machine.id} has changed; read it again")
    begun: tuple[Operation, ...] = ()
    for kind, requests in ((GPU, body.processors), (CXL_MEMORY, body.memory)):
        for one in requests.members:
            begun += manager.attach_many(machine.id, model=one.model, kind=kind, count=one.count, trace=trace)
    if body.links.blocks is not None:
        begun += _make_so(manager, machine, [one.at.rsplit("/", 1)[-1] for one in body.links.blocks], trace)
    await manager.settle(request, begun)
    return _shown(manager, machine)


@router.get("/Systems/{system}/{collection}")
async def members(manager: Working, system: str, collection: str, expand: Expand = "") -> Json:
    """Processors (a CPU too) or memory of a machine."""
    manager.now()
    machine = _machine(manager, system)
    path = f"{_top(manager)}/Systems/{machine.id}/{collection}"
    found = [_member(path, device) for device in _of(manager, machine, collection)]
    cpus = [_cpu(path)] if collection == "Processors" else []
    return _collection(path, cpus + found, expand)


@router.get("/Systems/{system}/{collection}/{member}")
async def member(manager: Working, system: str, collection: str, member: str) -> Json:
    """Return one member."""
    manager.now()
    machine = _machine(manager, system)
    path = f"{_top(manager)}/Systems/{machine.id}/{collection}"
    for device in _of(manager, machine, collection):
        if device.device_id == member:
            return _member(path, device)
    if (collection, member) == ("Processors", "CPU1"):
        return _cpu(path)
    raise Refusal(404, "ResourceMissingAtURI", f"{collection} {member!r} is not in system {machine.id}")


@router.delete("/Systems/{system}/{collection}/{member}")
async def take_away(
    request: Request, manager: Working, *, system: str, collection: str, member: str, trace: Trace
) -> Response:
    """Give one device back to the pool."""
    manager.now()
    machine = _machine(manager, system)
    if all(device.device_id != member for device in _of(manager, machine, collection)):
        raise Refusal(404, "ResourceMissingAtURI", f"{collection} {member!r} is not in system {machine.id}")
    await manager.settle(request, manager.detach(machine.id, member, trace=trace))
    return Response(status_code=204)


@router.get("/CompositionService")
async def composition_service(manager: Working) -> Json:
    """Return the composition service, which links to the pool."""
    path = f"{_top(manager)}/CompositionService"
    return {
        "@odata.id": path,
        "Id": "CompositionService",
        "Name": "Composition Service",
        "ServiceEnabled": True,
        "ResourceBlocks": {"@odata.id": f"{path}/ResourceBlocks"},
    }


@router.get("/CompositionService/ResourceBlocks")
async def blocks(manager: Working, expand: Expand = "") -> JSONResponse:
    """Return every device of the fabric, wherever it is."""
    manager.now()
    places = manager.model.places()
    found = [_block(manager, device_id, machine) for device_id, machine in places.items()]
    return JSONResponse(_collection(f"{_top(manager)}/CompositionService/ResourceBlocks", found, expand))


@router.get("/CompositionService/ResourceBlocks/{block}")
async def block(manager: Working, block: str) -> Json:
    """Return one device."""
    manager.now()
    if manager.model.device(block) is None:
        raise Refusal(404, "ResourceMissingAtURI", f"resource block {block!r} does not exist")
    return _block(manager, block, manager.model.places()[block])


def _make_so(manager: Manager, machine: Machine, wanted: list[str], trace: str) -> tuple[Operation, ...]:
    """Attach what is wanted and not there, detach what is there and not wanted."""
    unknown = [one for one in wanted if manager.model.device(one) is None]
    if unknown:
        raise Refusal(400, "PropertyValueError", f"Links.ResourceBlocks: {unknown[0]!r} does not exist")
    there = _composed(manager, machine)
    begun: tuple[Operation, ...] = ()
    for device_id in dict.fromkeys(wanted):
        if device_id not in there:
            begun += manager.attach(machine.id, model="", device_id=device_id, trace=trace)
    for device_id in there:
        if device_id not in wanted:
            begun += manager.detach(machine.id, device_id, trace=trace)
    return begun


def _composed(manager: Manager, machine: Machine) -> list[str]:
    """Ids of the devices that a machine has once everything that runs has come to its end."""
    there = dict.fromkeys(device.device_id for device in manager.model.on_machine(machine.id))
    for operation in manager.model.running_on(machine.id):
        if operation.kind is OperationKind.ATTACH:
            there[operation.device_id] = None
        else:
            there.pop(operation.device_id, None)
    return list(there)


def _machine(manager: Manager, system: str, *, name: str = "") -> Machine:
    """By its id or its node's name; `System` takes the one that `Name` of the body names. Raises Refusal (404)."""
    wanted = name if system == ANY_SYSTEM else system
    if wanted in manager.machines:
        return manager.machines[wanted]
    for machine in manager.machines.values():
        if machine.name == wanted:
            return machine
    raise Refusal(404, "ResourceMissingAtURI", f"system {wanted!r} does not exist")


def _of(manager: Manager, machine: Machine, collection: str) -> list[MachineDevice]:
    kind = _COLLECTIONS.get(collection)
    if kind is None:
        raise Refusal(404, "ResourceMissingAtURI", f"{collection!r} is not served; {', '.join(_COLLECTIONS)} are")
    return [device for device in manager.model.on_machine(machine.id) if device.type == kind]


def _shown(manager: Manager, machine: Machine) -> JSONResponse:
    etag = _etag(manager, machine)
    return JSONResponse({**_system(manager, machine), "@odata.etag": etag}, headers={"ETag": etag})


def _etag(manager: Manager, machine: Machine) -> str:
    names = " ".join((machine.id, *sorted(_composed(manager, machine))))
    return f'"{hashlib.sha256(names.encode()).hexdigest()[:16]}"'


def _system(manager: Manager, machine: Machine) -> Json:
    top = _top(manager)
    path = f"{top}/Systems/{machine.id}"
    return {
        "@odata.id": path,
        "Id": machine.id,
        "Name": machine.name,
        "SystemType": "Composed",
        "PowerState": "On",
        "Status": {"State": "Enabled", "Health": "OK"},
        **{collection: {"@odata.id": f"{path}/{collection}"} for collection in _COLLECTIONS},
        "Links": {
            "ResourceBlocks": [
                {"@odata.id": f"{top}/CompositionService/ResourceBlocks/{one}"} for one in _composed(manager, machine)
            ]
        },
    }


def _block(manager: Manager, device_id: str, machine: str) -> Json:
    device = manager.model.device(device_id)
    assert device is not None, "places name devices"
    path = f"{_top(manager)}/CompositionService/ResourceBlocks/{device_id}"
    state = "Composed" if machine else "Composing" if device_id in manager.model.moving() else "Unused"
    collection = next((name for name, kind in _COLLECTIONS.items() if kind == device.type), "Processors")
    systems = [{"@odata.id": f"{_top(manager)}/Systems/{machine}"}] if machine else []
    return {
        "@odata.id": path,
        "Id": device_id,
        "Name": f"{device.model} {device_id[:8]}",
        "ResourceBlockType": ["Memory" if collection == "Memory" else "Processor"],
        "CompositionStatus": {"CompositionState": state, "Reserved": False, "SharingCapable": False},
        collection: [_member(f"{path}/{collection}", device)],
        "Links": {"ComputerSystems": systems},
        "Status": {"State": "Enabled", "Health": _HEALTH[device.health]},
    }


def _member(path: str, device: MachineDevice) -> Json:
    shown: Json = {
        "@odata.id": f"{path}/{device.device_id}",
        "Id": device.device_id,
        "Name": device.model,
        "Model": device.model,
        "SerialNumber": device.device_uuid,
        "Status": {"State": "Enabled", "Health": _HEALTH[device.health]},
    }
    if device.type == CXL_MEMORY:
        return shown | {"MemoryType": "CXL", "CapacityMiB": device.memory_mib}
    if device.type != GPU:
        return shown | {"ProcessorType": "OEM"}
    return shown | {"ProcessorType": "GPU", "UUID": device.device_uuid.removeprefix("GPU-")}


def _cpu(path: str) -> Json:
    status = {"State": "Enabled", "Health": "OK"}
    return {"@odata.id": f"{path}/CPU1", "Id": "CPU1", "Name": "CPU1", "ProcessorType": "CPU", "Status": status}


def _collection(path: str, members: list[Json], expand: str) -> Json:
    shown = members if expand else [{"@odata.id": one["@odata.id"]} for one in members]
    name = path.rsplit("/", 1)[-1]
    return {"@odata.id": path, "Name": f"{name} Collection", "Members@odata.count": len(members), "Members": shown}


def _top(manager: Manager) -> str:
    return f"/{manager.model.name}/redfish/v1"
