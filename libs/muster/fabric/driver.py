"""The port to a CDI manager: three calls, four classes of failures, and the inventory of a fabric. Pure.

A driver keeps no state but its connection and token: its caller decides about retries, deadlines and concurrency.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

from muster.schemas.devices import GPU
from muster.schemas.facts.device import CallFailure


class DeviceHealth(StrEnum):
    """Health of a device as the manager reports it; Fsas: first character of res_op_status, 0, 1, 2."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class MachineDevice:
    """A device on a machine."""

    device_id: str
    """Id of the device in the fabric."""
    device_uuid: str
    """Id of the device as its node reports it."""
    model: str
    type: str = GPU
    memory_mib: int = 0
    """Capacity of a memory device."""
    health: DeviceHealth = DeviceHealth.OK


@dataclass(frozen=True, slots=True)
class Inventory:
    """The devices of a fabric, free and attached."""

    free: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Number of free devices in the pool, by (type, model)."""
    machines: Mapping[str, tuple[MachineDevice, ...]] = field(default_factory=dict)
    """Attached devices, by machine."""


class FabricError(Exception):
    """Base class of failed calls; `failure` says what is known of the effect."""

    failure: ClassVar[CallFailure]


class FabricTimeoutError(FabricError):
    """The call was not answered in time: it is unknown whether it was, or will be, carried out."""

    failure = CallFailure.TIMEOUT


class FabricRefusedError(FabricError):
    """The manager refused the call permanently: nothing was changed, and a retry will fail."""

    failure = CallFailure.REFUSED


class FabricUnavailableError(FabricError):
    """The manager was not reached or is not ready (5xx, another operation runs): nothing was changed; retry later."""

    failure = CallFailure.UNAVAILABLE


class FabricNonsenseError(FabricError):
    """The response is invalid: it is unknown what was carried out."""

    failure = CallFailure.NONSENSE


@dataclass(frozen=True, slots=True)
class AttachOrder:
    """A request to attach one device of `model` from the pool to `machine`."""

    machine: str
    model: str
    type: str = GPU
    traceparent: str = ""
    """W3C trace context, sent as a header."""


@dataclass(frozen=True, slots=True)
class DetachOrder:
    """A request to return one device to the pool."""

    machine: str
    device_id: str
    type: str = GPU
    traceparent: str = ""


class FabricDriver(Protocol):
    """A client of one fabric's manager. Every method raises FabricError and nothing else; `call_s` bounds each call."""

    parallel_max: int
    """Maximum number of concurrent calls to the manager, whatever the settings allow."""

    async def attach(self, order: AttachOrder) -> tuple[MachineDevice, ...]:
        """Attach one device. Returns the machine's devices of this type and model, the new one among them.

        Managers do not report which device is new where several are attached at a time; the caller knows which are
        claimed.
        """
        ...

    async def detach(self, order: DetachOrder) -> bool:
        """Detach one device. Returns False if it was already gone."""
        ...

    async def survey(self) -> Inventory:
        """Return all devices of the fabric."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...
