"""Elements of a simulated fabric: devices, operations, faults. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from pydantic import ConfigDict, with_config

from muster.core import Instant
from muster.fabric.driver import MachineDevice
from muster.fabric.layout import fabric_device_id
from muster.schemas.devices import GPU


class Fault(StrEnum):
    """Ways in which a call fails.

    refuse: an error at once, without an effect. drop: the work is done, without a response. half: begun, then an error;
    the device may have moved or not. nonsense: the work is done, the response cannot be parsed. twice: the request is
    carried out twice, so an attachment brings two devices.
    """

    NONE = "none"
    REFUSE = "refuse"
    DROP = "drop"
    HALF = "half"
    NONSENSE = "nonsense"
    TWICE = "twice"


class OperationKind(StrEnum):
    """Direction in which the device moves."""

    ATTACH = "attach"
    DETACH = "detach"


class OperationState(StrEnum):
    """State of an operation. failed: only by `Fault.HALF`."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PoolDevice:
    """A device without a place. memory_mib: of a memory device."""

    device_uuid: str
    model: str
    type: str = GPU
    memory_mib: int = 0

    def on_machine(self) -> MachineDevice:
        """Return the device as inventories show it; its id on the fabric follows from its uuid."""
        return MachineDevice(
            fabric_device_id(self.device_uuid), self.device_uuid, self.model, self.type, self.memory_mib
        )


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One attachment or detachment; a value, asked anew with `FabricModel.operation`, and as it is saved.

    device_id: of the device that moves, "" if it was not there. due: when it ends. takes_effect: whether the device has
    moved then; false only of a half one. twin: number of the second operation of a request that was carried out twice,
    0 for none; the twin itself says who it is of in `twin_of`. key: the caller's name for the call.
    """

    id: int
    kind: OperationKind
    machine: str
    device_id: str = ""
    begun: Instant
    due: Instant
    state: OperationState = OperationState.RUNNING
    fault: Fault = Fault.NONE
    takes_effect: bool = True
    was_gone: bool = False
    twin: int = 0
    twin_of: int = 0
    key: str = ""
    traceparent: str = ""

    @property
    def is_over(self) -> bool:
        """Return whether it has ended."""
        return self.state is not OperationState.RUNNING
