"""Pages of the simulator itself, for tests and demonstrations; only from the machine that it runs on.

GET /<fabric>/_inventory: the truth. GET /<fabric>/_operations: the newest operations with their traces. POST
/<fabric>/_faults: how it behaves from now on, until it is started again. POST /<fabric>/_devices: one device more, as
if somebody had built it in by hand, and as strange as you like; it is forgotten when the simulator is started again.
"""

import ipaddress
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Depends, Request
from pydantic import ConfigDict, Field, ValidationError, model_validator, with_config

from muster.core.settings import FabricBehaviour
from muster.fabric.simulator.manager import Manager
from muster.fabric.simulator.model import OPERATIONS_KEPT
from muster.fabric.simulator.operation import Fault, Operation, PoolDevice
from muster.fabric.simulator.problems import Refusal
from muster.fabric.simulator.routing import Any

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
    """What is to change; a field left out or null stays. outage, delay_s: of every call, reads too; see Manager."""

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
    """Where every device is; `moving` names those on their way, which `machines` counts only while detached."""
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
    """The newest operations, newest first."""
    manager.now()
    return {"operations": [_operation(manager, one) for one in manager.model.operations()[:OPERATIONS_KEPT]]}


@router.post("/_faults")
async def set_faults(manager: Any, faults: Faults) -> Json:
    """Change the behaviour; answers the whole of it. Raises Refusal (400) if the shares are more than every call."""
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
