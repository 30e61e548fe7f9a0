"""What a simulated fabric is made of and what it does: devices, operations, faults. Pure."""

from dataclasses import dataclass, fields
from enum import StrEnum

from muster.core import Instant
from muster.fabric.inventory import MachineDevice
from muster.fabric.layout import fabric_device_id
from muster.schemas.devices import GPU


class Fault(StrEnum):
    """How a call goes wrong.

    refuse: an error at once, nothing is done. drop: the work is done, the caller never gets an answer. half: begun,
    then an error; the device may have moved or not. nonsense: the work is done, the answer cannot be understood.
    twice: the request is carried out twice, so an attachment brings two devices.
    """

    NONE = "none"
    REFUSE = "refuse"
    DROP = "drop"
    HALF = "half"
    NONSENSE = "nonsense"
    TWICE = "twice"


class OperationKind(StrEnum):
    """Which way the device goes."""

    ATTACH = "attach"
    DETACH = "detach"


class OperationState(StrEnum):
    """Where an operation is. failed: only by `Fault.HALF`."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PoolDevice:
    """A device before it is anywhere. memory_mib: of a memory device."""

    device_uuid: str
    model: str
    type: str = GPU
    memory_mib: int = 0

    def on_machine(self) -> MachineDevice:
        """The same, as inventories show it; its id on the fabric follows from its uuid."""
        return MachineDevice(
            fabric_device_id(self.device_uuid), self.device_uuid, self.model, self.type, self.memory_mib
        )


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the fabric behaves; see muster.bus.settings.SimulatedFabricSettings. Shares are of calls, in [0, 1]."""

    seed: int = 1
    switch_median_s: float = 10.0
    switch_sigma: float = 0.4
    refuse_share: float = 0.0
    drop_share: float = 0.0
    half_share: float = 0.0
    nonsense_share: float = 0.0
    twice_share: float = 0.0
    limit: int = 64

    def __post_init__(self) -> None:
        shares = {field.name: getattr(self, field.name) for field in fields(self) if field.name.endswith("_share")}
        for name, share in shares.items():
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"{name}: {share} is no share; give a number from 0 to 1")
        if sum(shares.values()) > 1.0 + 1e-9:
            raise ValueError(f"{', '.join(shares)}: together {sum(shares.values()):g}, more than every call")
        if self.limit < 1:
            raise ValueError(f"limit: {self.limit} operations at a time do nothing; give 1 or more")


@dataclass(frozen=True, slots=True)
class Operation:
    """One attachment or detachment; a value, asked anew with `FabricModel.operation`.

    device: the one that moves; None if it was not there. due: when it ends. takes_effect: whether the device has moved
    then; false only of a half one. twin: number of the second operation of a request that was carried out twice, 0 for
    none; the twin itself says who it is of in `twin_of`. key: the caller's name for the call.
    """

    id: int
    kind: OperationKind
    machine: str
    device: MachineDevice | None
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
        """Whether it runs no more."""
        return self.state is not OperationState.RUNNING
