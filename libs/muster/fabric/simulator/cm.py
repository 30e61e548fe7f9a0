"""Fsas Cluster Manager, as far as its public clients use it: asynchronous, a resize answers at once.

Routes and fields are those that CoHDI's composable-resource-operator and composable-dra-driver use. The clients define
no more, so these are assumptions:

- `device_count` is the requested count: a resize changes it at once; it falls back if the operation fails.
- A resize compares and sets: a `device_count` that does not follow from the present one is 409, without an effect.
  So if two clients read the same count, one of them must read again.
- A device appears when its switch is done (ADD_COMPLETE). After an attachment that failed half-way it is listed as
  ADD_FAILED, or not at all; a detachment that failed leaves it as REMOVE_FAILED, or removes it.
"""

from typing import Annotated, Self
from uuid import NAMESPACE_URL, uuid5

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from muster.fabric.driver import MachineDevice
from muster.fabric.simulator.build import Machine
from muster.fabric.simulator.fm import OK_STATUS, fabric_uuid
from muster.fabric.simulator.manager import DEVICES_MAX, Manager
from muster.fabric.simulator.operation import Operation, OperationKind, OperationState
from muster.fabric.simulator.problems import Refusal
from muster.fabric.simulator.routing import Known, Trace
from muster.schemas.devices import GPU

Json = dict[str, object]
ADD_COMPLETE, ADD_FAILED, REMOVE_FAILED = "ADD_COMPLETE", "ADD_FAILED", "REMOVE_FAILED"
COUNT_MAX = 100_000

router = APIRouter(prefix="/{fabric}/cluster_manager/cluster_autoscaler")
_CLUSTER = "/tenants/{tenant}/clusters/{cluster}"
Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]


class _In(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Increase(_In):
    spec_uuid: str
    device_count: Count


class _Remove(_In):
    spec_uuid: str
    device_count: Count
    devices: Annotated[tuple[str, ...], Field(min_length=1, max_length=DEVICES_MAX)]


class Resize(_In):
    """Body of a resize: one of the two."""

    increase_resource_count: _Increase | None = None
    remove_resources: _Remove | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.increase_resource_count is None) == (self.remove_resources is None):
            raise ValueError("give increase_resource_count or remove_resources")
        return self


@router.get("/v3" + _CLUSTER + "/machines/{machine}")
async def machine(manager: Known, *, tenant: str, cluster: str, machine: str) -> Json:
    """Return one machine with every kind of device that it may have."""
    _check_cluster(manager, tenant, cluster)
    found = manager.machine(machine)
    manager.now()
    kinds = manager.model.inventory().free
    shown = {
        "uuid": found.id,
        "name": found.name,
        "status": ADD_COMPLETE,
        "status_reason": "",
        "resspecs": [_spec(manager, found, kind) for kind in kinds],
    }
    return {"data": {"tenant_uuid": tenant, "cluster": {"cluster_uuid": cluster, "machine": shown}}}


@router.post("/v3" + _CLUSTER + "/machines/{machine}/actions/resize")
async def resize(
    request: Request, manager: Known, *, tenant: str, cluster: str, machine: str, body: Resize, trace: Trace
) -> Json:
    """Begin to attach or to take away; answers when that is kept."""
    _check_cluster(manager, tenant, cluster)
    found = manager.machine(machine)
    manager.now()
    if body.increase_resource_count is not None:
        begun = _increase(manager, found, body.increase_resource_count, trace)
    else:
        assert body.remove_resources is not None, "a Resize is one of the two"
        begun = _remove(manager, found, body.remove_resources, trace)
    await manager.keep()
    await manager.spoil(request, begun, halves=False)
    return {"status": "success"}


@router.get("/v2" + _CLUSTER + "/nodegroups")
async def node_groups(manager: Known, *, tenant: str, cluster: str) -> Json:
    """Return the groups that machines belong to."""
    _check_cluster(manager, tenant, cluster)
    groups = dict.fromkeys(one.group for one in manager.machines.values())
    return {"nodegroups": [{"uuid": _group_uuid(manager, group), "name": group} for group in groups]}


@router.get("/v2" + _CLUSTER + "/nodegroups/{group}")
async def node_group(manager: Known, *, tenant: str, cluster: str, group: str) -> Json:
    """Return one group with its machines, and the maximum number of GPUs of each."""
    _check_cluster(manager, tenant, cluster)
    mine = [one for one in manager.machines.values() if _group_uuid(manager, one.group) == group]
    if not mine:
        raise Refusal(404, "NoSuchNodeGroup", f"nodegroup {group!r} does not exist")
    resources = [{"type": GPU, "min_resspec_count": mine[0].gpus_min, "max_resspec_count": mine[0].gpus_max}]
    return {"uuid": group, "name": mine[0].group, "mach_ids": [one.id for one in mine], "resspecs": resources}


def _increase(manager: Manager, machine: Machine, wanted: _Increase, trace: str) -> tuple[Operation, ...]:
    kind, model = _kind_of(manager, machine, wanted.spec_uuid)
    count = _count(manager, machine.id, (kind, model))
    if wanted.device_count <= count:
        raise Refusal(409, "CountConflict", f"device_count: {wanted.device_count} is no increase, it is {count} now")
    most = _count_max(manager, machine, kind)
    if wanted.device_count > most:
        raise Refusal(400, "OverMaximum", f"device_count: {wanted.device_count} is over max_resspec_count {most}")
    return manager.attach_many(machine.id, model=model, kind=kind, count=wanted.device_count - count, trace=trace)


def _remove(manager: Manager, machine: Machine, wanted: _Remove, trace: str) -> tuple[Operation, ...]:
    kind = _kind_of(manager, machine, wanted.spec_uuid)
    here = {one.device_id: one for one in manager.model.on_machine(machine.id)}
    by_uuid = {one.device_uuid: one.device_id for one in here.values()}
    ids = [by_uuid.get(name, name) for name in wanted.devices]
    for name, device_id in zip(wanted.devices, ids, strict=True):
        if device_id not in here or (here[device_id].type, here[device_id].model) != kind:
            raise Refusal(404, "NoSuchResource", f"devices: {name!r} is not on machine {machine.id} under this spec")
    count = _count(manager, machine.id, kind)
    if wanted.device_count != count - len(ids):
        raise Refusal(409, "CountConflict", f"device_count: {wanted.device_count}, but {count} less {len(ids)} remain")
    begun: tuple[Operation, ...] = ()
    for device_id in ids:
        begun += manager.detach(machine.id, device_id, trace=trace)
    return begun


def _spec(manager: Manager, machine: Machine, kind: tuple[str, str]) -> Json:
    devices = [one for one in manager.model.on_machine(machine.id) if (one.type, one.model) == kind]
    conditions = [{"column": "model", "operator": "eq", "value": kind[1]}]
    memory_mib = max((one.memory_mib for one in devices), default=0)
    if memory_mib:
        conditions.append({"column": "memory_mib", "operator": "eq", "value": str(memory_mib)})
    return {
        "spec_uuid": _spec_uuid(machine, kind),
        "type": kind[0],
        "selector": {"version": "type_conditions", "expression": {"conditions": conditions}},
        "min_resspec_count": machine.gpus_min if kind[0] == GPU else 0,
        "max_resspec_count": _count_max(manager, machine, kind[0]),
        "device_count": _count(manager, machine.id, kind),
        "devices": [_device(manager, machine, one) for one in devices],
    }


def _device(manager: Manager, machine: Machine, device: MachineDevice) -> Json:
    last = manager.model.last_of(device.device_id)
    failed = last is not None and last.state is OperationState.FAILED and last.machine == machine.id
    attaching = last is not None and last.kind is OperationKind.ATTACH
    shown = {"productname": device.model, "model": device.model, "vendor": "", "removable": True}
    return {
        "device_id": device.device_uuid,
        "status": (ADD_FAILED if attaching else REMOVE_FAILED) if failed else ADD_COMPLETE,
        "status_reason": f"operation {last.id} broke off half-way" if failed and last is not None else "",
        "detail": {
            "fabric_uuid": fabric_uuid(manager),
            "fabric_id": 1,
            "res_uuid": device.device_id,
            "res_type": device.type,
            "res_name": f"{device.type}-{device.device_id[:8]}",
            "res_status": "4",
            "res_op_status": OK_STATUS,
            "resspecs": [shown],
            "tenant_uuid": manager.settings.tenant,
            "mach_uuid": machine.id,
        },
    }


def _count(manager: Manager, machine: str, kind: tuple[str, str]) -> int:
    """Return device_count: the number after all running operations have ended."""
    count = sum((one.type, one.model) == kind for one in manager.model.on_machine(machine))
    for operation in manager.model.running_on(machine):
        device = manager.model.device(operation.device_id)
        if device is not None and (device.type, device.model) == kind:
            count += 1 if operation.kind is OperationKind.ATTACH else -1
    return count


def _count_max(manager: Manager, machine: Machine, kind: str) -> int:
    """Return the maximum number: for GPUs the machine's, for others the number that exists."""
    if kind == GPU:
        return machine.gpus_max
    return sum(one.type == kind for one in map(manager.model.device, manager.model.places()) if one is not None)


def _kind_of(manager: Manager, machine: Machine, spec: str) -> tuple[str, str]:
    for kind in manager.model.inventory().free:
        if _spec_uuid(machine, kind) == spec:
            return kind
    raise Refusal(404, "NoSuchSpec", f"spec_uuid: {spec!r} is none of machine {machine.id}")


def _spec_uuid(machine: Machine, kind: tuple[str, str]) -> str:
    return str(uuid5(NAMESPACE_URL, f"muster-spec:{machine.id}:{kind[0]}:{kind[1]}"))


def _group_uuid(manager: Manager, group: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"muster-group:{manager.model.name}:{group}"))


def _check_cluster(manager: Manager, tenant: str, cluster: str) -> None:
    if tenant != manager.settings.tenant:
        raise Refusal(404, "NoSuchTenant", f"tenant {tenant!r} does not exist")
    if cluster != manager.settings.cluster_id:
        raise Refusal(404, "NoSuchCluster", f"cluster {cluster!r} does not exist")
