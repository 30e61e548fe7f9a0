"""The port to a CDI manager: three calls, four ways in which they go wrong, and what a fabric holds. Pure.

A driver keeps no state but its connection and token: who calls decides about retries, deadlines and how much at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

from muster.schemas.devices import GPU
from muster.schemas.facts.device import CallFailure


class DeviceHealth(StrEnum):
    """What the manager says of a device; Fsas: first character of res_op_status, 0, 1, 2."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class MachineDevice:
    """A device on a machine. device_id: as the fabric calls it; device_uuid: as its node shows it.

    memory_mib: of a memory device.
    """

    device_id: str
    device_uuid: str
    model: str
    type: str = GPU
    memory_mib: int = 0
    health: DeviceHealth = DeviceHealth.OK


@dataclass(frozen=True, slots=True)
class Inventory:
    """free: how many devices lie in the pool, by (type, model). machines: what is attached, by machine."""

    free: Mapping[tuple[str, str], int] = field(default_factory=dict)
    machines: Mapping[str, tuple[MachineDevice, ...]] = field(default_factory=dict)


class FabricError(Exception):
    """A call that went wrong; `failure` says what is known of its effect."""

    failure: ClassVar[CallFailure]


class FabricTimeoutError(FabricError):
    """No answer in time: nobody knows whether it was, or will yet be, carried out."""

    failure = CallFailure.TIMEOUT


class FabricRefusedError(FabricError):
    """The manager said no, and would say so again: nothing was changed."""

    failure = CallFailure.REFUSED


class FabricUnavailableError(FabricError):
    """Not reached, or not ready (5xx, another operation runs): nothing was changed, later it may work."""

    failure = CallFailure.UNAVAILABLE


class FabricNonsenseError(FabricError):
    """An answer that cannot be understood: nobody knows what was carried out."""

    failure = CallFailure.NONSENSE


@dataclass(frozen=True, slots=True)
class AttachOrder:
    """One device of `model` from the pool to `machine`. traceparent: W3C, sent along as a header."""

    machine: str
    model: str
    type: str = GPU
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class DetachOrder:
    """One device back to the pool."""

    machine: str
    device_id: str
    type: str = GPU
    traceparent: str = ""


class FabricDriver(Protocol):
    """One fabric behind one manager. Every method raises FabricError and nothing else; `call_s` bounds each call.

    parallel_max: calls that the manager can take at a time at most, whatever the settings allow.
    """

    parallel_max: int

    async def attach(self, order: AttachOrder) -> tuple[MachineDevice, ...]:
        """Attach one. Returns devices of this type and model that are on the machine now, the new one among them.

        Managers do not say which one is new where several are attached at a time; who calls knows which are claimed.
        """
        ...

    async def detach(self, order: DetachOrder) -> bool:
        """Take one away. False if it was not there any more."""
        ...

    async def survey(self) -> Inventory:
        """All that there is."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...
