"""What a fabric holds, as every driver reports it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster.schemas.devices import GPU


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
