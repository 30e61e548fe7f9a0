"""Driver for the Fsas Fabric Manager: one synchronous PATCH or DELETE per device.

Routes and fields: CoHDI/composable-resource-operator v0.2.1, internal/cdi/fti/fm.

The manager responds when the switch is done, so an attachment costs one request. A lost response leaves its effect
unknown: the driver never sends the request again. A detachment reads the machine first, and again where the manager
refuses, so detaching a device that is already gone is no error. The pool is counted per model, because the manager has
no other count.
"""

import asyncio
import json
from collections.abc import Iterable

from pydantic import Field, JsonValue

from muster.fabric import bounds
from muster.fabric.driver import (
    AttachOrder,
    DetachOrder,
    DeviceHealth,
    FabricNonsenseError,
    FabricRefusedError,
    Inventory,
    MachineDevice,
)
from muster.fabric.http import Answer, ManagerHttp, each, parsed, segment
from muster.schemas.base import Label

_HEALTH = {"0": DeviceHealth.OK, "1": DeviceHealth.WARNING, "2": DeviceHealth.CRITICAL}
_API = "fabric_manager/api/v1"


class Condition(Answer):
    """One comparison in `condition` or `conditions`: column `model` (or another) compared with a value."""

    column: str = ""
    operator: str = "eq"
    value: str | int | float | None = None


def value_of(conditions: Iterable[Condition], column: str) -> str:
    """Return the value that a column must be equal to, "" if no condition names it."""
    for condition in conditions:
        if condition.column == column and condition.operator == "eq" and condition.value is not None:
            return str(condition.value)
    return ""


def memory_mib_of(conditions: Iterable[Condition]) -> int:
    """Return the capacity in column `memory_mib`, 0 without one. Raises FabricNonsenseError if it is out of bounds."""
    value = value_of(conditions, "memory_mib")
    if len(value) > len(str(bounds.MEMORY_MIB_MAX)):
        raise FabricNonsenseError(f"memory_mib: {len(value)} digits are more than any device has")
    return int(value) if value.isdecimal() else 0


def health_of(operation_status: str) -> DeviceHealth:
    """Return the health from the first character of res_op_status; an unknown one is a warning."""
    return _HEALTH.get(operation_status[:1], DeviceHealth.WARNING) if operation_status else DeviceHealth.OK


class _Spec(Answer):
    condition: tuple[Condition, ...] = ()


class _Resource(Answer):
    res_uuid: str
    res_name: str = ""
    res_type: str
    res_op_status: str = ""
    res_serial_num: str = ""
    res_spec: _Spec = _Spec()

    def device(self) -> MachineDevice:
        return MachineDevice(
            device_id=self.res_uuid,
            device_uuid=self.res_serial_num,
            model=value_of(self.res_spec.condition, "model") or self.res_name,
            type=self.res_type,
            memory_mib=memory_mib_of(self.res_spec.condition),
            health=health_of(self.res_op_status),
        )


class _Machine(Answer):
    mach_uuid: Label
    fabric_uuid: str = ""
    resources: tuple[_Resource, ...] | None = Field(default=None, max_length=bounds.DEVICES_MAX)

    def devices(self) -> tuple[MachineDevice, ...]:
        return tuple(resource.device() for resource in self.resources or ())


class _Machines(Answer):
    machines: tuple[_Machine, ...] = Field(max_length=bounds.MACHINES_MAX)


class _MachinesAnswer(Answer):
    data: _Machines


class _Reserved(Answer):
    reserved_res_num_per_fabric: int = Field(ge=0)


class FabricManager:
    """Driver for a Fabric Manager. models: (type, model) pairs whose pool a survey counts."""

    parallel_max = bounds.PARALLEL_MAX["fm"]

    def __init__(
        self, http: ManagerHttp, *, tenant: str, call_s: float, models: Iterable[tuple[str, str]] = ()
    ) -> None:
        self._http = http
        self._tenant = tenant
        self._call_s = call_s
        self._models = tuple(dict.fromkeys(models))

    async def attach(self, order: AttachOrder) -> tuple[MachineDevice, ...]:
        """Attach a device; see FabricDriver.attach. Raises FabricNonsenseError if the response lacks it."""
        wanted: dict[str, JsonValue] = {
            "res_type": order.type,
            "res_spec": {"condition": [{"column": "model", "operator": "eq", "value": order.model}]},
            "res_num": 1,
        }
        body = await self._update("PATCH", order.machine, wanted, until=self._until(), trace=order.traceparent)
        what = f"PATCH machine {order.machine}"
        found = tuple(
            device
            for machine in parsed(_MachinesAnswer, body, what=what).data.machines
            if machine.mach_uuid == order.machine
            for device in machine.devices()
            if (device.type, device.model) == (order.type, order.model)
        )
        if not found:
            raise FabricNonsenseError(f"{what}: success, but no {order.type} of model {order.model} is on it")
        return found

    async def detach(self, order: DetachOrder) -> bool:
        """Detach a device, unless it is already gone; see FabricDriver.detach."""
        until = self._until()
        if not await self._is_there(order, until=until):
            return False
        wanted: dict[str, JsonValue] = {"res_type": order.type, "res_uuid": order.device_id, "res_num": 1}
        try:
            said = await self._update("DELETE", order.machine, wanted, until=until, trace=order.traceparent)
        except FabricRefusedError:
            if await self._is_there(order, until=until):
                raise
            return False  # another client detached it meanwhile
        if said:  # 200 may show the machine, 204 has no body
            parsed(Answer, said, what=f"DELETE machine {order.machine}")
        return True

    async def survey(self) -> Inventory:
        """Return the inventory; see FabricDriver.survey. Machines listed without `resources` are read one by one."""
        until = self._until()
        body = await self._http.read(f"{_API}/machines", until=until, params=self._params)
        machines = parsed(_MachinesAnswer, body, what="GET machines").data.machines

        async def whole(machine: _Machine) -> _Machine:
            return machine if machine.resources is not None else await self._machine(machine.mach_uuid, until=until)

        filled = await each(machines, whole)
        per_fabric = {machine.fabric_uuid: machine.mach_uuid for machine in machines}
        asked = [(kind, model, machine) for kind, model in self._models for machine in per_fabric.values()]

        async def free(one: tuple[str, str, str]) -> int:
            return await self._free(*one, until=until)

        counts: dict[tuple[str, str], int] = {}
        for (kind, model, _), count in zip(asked, await each(asked, free), strict=True):
            counts[kind, model] = counts.get((kind, model), 0) + count
        return Inventory(free=counts, machines={machine.mach_uuid: machine.devices() for machine in filled})

    async def close(self) -> None:
        """Close the connection."""
        await self._http.close()

    @property
    def _params(self) -> dict[str, str]:
        return {"tenant_uuid": self._tenant}

    def _until(self) -> float:
        return asyncio.get_running_loop().time() + self._call_s

    async def _machine(self, machine: str, *, until: float, trace: str = "") -> _Machine:
        path = f"{_API}/machines/{segment(machine, field='machine')}"
        body = await self._http.read(path, until=until, params=self._params, trace=trace)
        for found in parsed(_MachinesAnswer, body, what=f"GET machine {machine}").data.machines:
            if found.mach_uuid == machine:
                return found
        raise FabricNonsenseError(f"GET machine {machine}: the answer is about other machines")

    async def _is_there(self, order: DetachOrder, *, until: float) -> bool:
        machine = await self._machine(order.machine, until=until, trace=order.traceparent)
        return any(resource.res_uuid == order.device_id for resource in machine.resources or ())

    async def _free(self, kind: str, model: str, machine: str, *, until: float) -> int:
        condition = json.dumps({"column": "model", "operator": "eq", "value": model})
        path = f"{_API}/machines/{segment(machine, field='machine')}/available-reserved-resources"
        params = {**self._params, "res_type": kind, "condition": condition}
        body = await self._http.read(path, until=until, params=params)
        return parsed(_Reserved, body, what=f"GET {path}").reserved_res_num_per_fabric

    async def _update(
        self, method: str, machine: str, wanted: dict[str, JsonValue], *, until: float, trace: str
    ) -> bytes:
        envelope: JsonValue = {
            "tenants": {
                "tenant_uuid": self._tenant,
                "machines": [{"mach_uuid": machine, "resources": [{"res_specs": [wanted]}]}],
            }
        }
        path = f"{_API}/machines/{segment(machine, field='machine')}/update"
        return await self._http.change(method, path, until=until, body=envelope, params=self._params, trace=trace)
