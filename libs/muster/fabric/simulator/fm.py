"""Fsas Fabric Manager, as far as its public clients use it: synchronous, an answer comes when the switch is done.

Routes and fields are those that CoHDI's composable-resource-operator and composable-dra-driver use. What no client
says is an assumption: codes of errors, 404 for a machine or device that is not there, 503 before anything was begun,
500 when it broke off half-way.
"""

from typing import Annotated
from urllib.parse import parse_qsl
from uuid import NAMESPACE_URL, uuid5

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import JSONResponse, Response

from muster.fabric.driver import MachineDevice
from muster.fabric.simulator.build import Machine
from muster.fabric.simulator.manager import DEVICES_MAX, Manager
from muster.fabric.simulator.operation import Operation
from muster.fabric.simulator.problems import Refusal
from muster.fabric.simulator.routing import Known, Trace, Working
from muster.schemas.devices import GPU

Json = dict[str, object]
OK_STATUS = "00"
"""res_op_status of a device that is well; its first character counts."""
POWERED_ON = 4
"""res_status and mach_status of what is in use; the figures' meaning is not public."""
FORM_BYTES_MAX = 16 * 1024

router = APIRouter(prefix="/{fabric}")
_MACHINES = "/fabric_manager/api/v1/machines"


class _In(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Condition(_In):
    """One comparison with a property."""

    column: str
    operator: str = "eq"
    value: str


class _Conditions(_In):
    condition: tuple[Condition, ...] = ()


class _Wanted(_In):
    res_type: str = GPU
    res_spec: _Conditions = _Conditions()
    res_uuid: str = ""
    res_num: Annotated[int, Field(ge=1, le=DEVICES_MAX)] = 1


class _Resource(_In):
    res_specs: tuple[_Wanted, ...]


class _Machine(_In):
    mach_uuid: str
    resources: tuple[_Resource, ...]


class _Tenants(_In):
    tenant_uuid: str
    machines: tuple[_Machine, ...]


class Update(_In):
    """Body of an update."""

    tenants: _Tenants


@router.post("/id_manager/realms/{realm}/protocol/openid-connect/token")
async def token(request: Request, realm: str, manager: Working) -> Json:
    """Return a token for an OpenID Connect password grant."""
    if manager.tokens is None:
        raise Refusal(404, "invalid_request", "this fabric has no credentials, so it asks for no token")
    form = (await request.body())[:FORM_BYTES_MAX].decode("utf-8", "replace")
    return manager.tokens.grant(realm, dict(parse_qsl(form)), now=manager.now())


@router.get(_MACHINES)
async def machines(manager: Known, tenant_uuid: str) -> JSONResponse:
    """Return every machine with its devices."""
    _check_tenant(manager, tenant_uuid)
    manager.now()
    shown = [_machine(manager, one, manager.model.on_machine(one.id)) for one in manager.machines.values()]
    return JSONResponse({"data": {"machines": shown}})


@router.get(_MACHINES + "/{machine}")
async def machine(manager: Known, machine: str, tenant_uuid: str) -> Json:
    """Return one machine."""
    _check_tenant(manager, tenant_uuid)
    return {"data": {"machines": [_machine(manager, manager.machine(machine), manager.devices_on(machine))]}}


@router.get(_MACHINES + "/{machine}/available-reserved-resources")
async def available(manager: Known, machine: str, tenant_uuid: str, condition: str, res_type: str = GPU) -> Json:
    """Return the number of a model's free devices in this machine's fabric; condition: JSON of one comparison."""
    _check_tenant(manager, tenant_uuid)
    manager.machine(machine)
    manager.now()
    try:
        wanted = Condition.model_validate_json(condition)
    except ValidationError as error:
        raise Refusal(400, "BadRequest", "condition: give {column, operator, value} as JSON") from error
    if wanted.column != "model" or wanted.operator != "eq":
        raise Refusal(400, "BadRequest", "condition: only column model with operator eq is served")
    free = manager.model.inventory().free.get((res_type, wanted.value), 0)
    return {**_fabric(manager), "reserved_res_num_per_fabric": free}


@router.patch(_MACHINES + "/{machine}/update")
async def attach(
    request: Request, manager: Known, *, machine: str, tenant_uuid: str, body: Update, trace: Trace
) -> Json:
    """Attach devices; the response has only the new ones."""
    wanted = _wanted(manager, machine, tenant_uuid, body)
    begun: tuple[Operation, ...] = ()
    for one in wanted:
        model = next((each.value for each in one.res_spec.condition if each.column == "model"), "")
        begun += manager.attach_many(machine, model=model, kind=one.res_type, count=one.res_num, trace=trace)
    await manager.settle(request, begun)
    moved = [manager.model.device(one.device_id) for one in begun if not one.twin_of]
    new = [device for device in moved if device is not None]
    return {"data": {"machines": [_machine(manager, manager.machine(machine), new)]}}


@router.delete(_MACHINES + "/{machine}/update")
async def detach(
    request: Request, manager: Known, *, machine: str, tenant_uuid: str, body: Update, trace: Trace
) -> Response:
    """Take away; 204 without a body."""
    wanted = _wanted(manager, machine, tenant_uuid, body)
    begun: tuple[Operation, ...] = ()
    for one in wanted:
        begun += manager.detach(machine, one.res_uuid, trace=trace)
    await manager.settle(request, begun)
    return Response(status_code=204)


def fabric_uuid(manager: Manager) -> str:
    """Return the managers' id of the whole fabric."""
    return str(uuid5(NAMESPACE_URL, f"muster-fabric:{manager.model.name}"))


def _check_tenant(manager: Manager, tenant: str) -> None:
    if tenant != manager.settings.tenant:
        raise Refusal(404, "NoSuchTenant", f"tenant_uuid {tenant!r} does not exist")


def _wanted(manager: Manager, machine: str, tenant: str, body: Update) -> list[_Wanted]:
    _check_tenant(manager, tenant)
    _check_tenant(manager, body.tenants.tenant_uuid)
    others = [one.mach_uuid for one in body.tenants.machines if one.mach_uuid != machine]
    if others:
        raise Refusal(400, "BadRequest", f"mach_uuid: {others[0]!r} is not the machine of the path")
    manager.machine(machine)
    wanted = [spec for one in body.tenants.machines for resource in one.resources for spec in resource.res_specs]
    if not wanted:
        raise Refusal(400, "BadRequest", "res_specs: empty, so there is nothing to do")
    return wanted


def _fabric(manager: Manager) -> Json:
    return {"fabric_uuid": fabric_uuid(manager), "fabric_id": 1}


def _machine(manager: Manager, machine: Machine, devices: tuple[MachineDevice, ...] | list[MachineDevice]) -> Json:
    return {
        **_fabric(manager),
        "mach_uuid": machine.id,
        "mach_id": machine.index,
        "mach_name": machine.name,
        "mach_status": POWERED_ON,
        "mach_status_detail": "ACTIVE PON",
        "tenant_uuid": manager.settings.tenant,
        "resources": [_device(device) for device in devices],
    }


def _device(device: MachineDevice) -> Json:
    condition = [{"column": "model", "operator": "eq", "value": device.model}]
    if device.memory_mib:
        condition.append({"column": "memory_mib", "operator": "eq", "value": str(device.memory_mib)})
    return {
        "res_uuid": device.device_id,
        "res_name": f"{device.type}-{device.device_id[:8]}",
        "res_type": device.type,
        "res_status": POWERED_ON,
        "res_op_status": OK_STATUS,
        "res_serial_num": device.device_uuid,
        "res_spec": {"condition": condition},
    }
