"""Validation of what managers report about devices, for every driver.

Ids, models and types become fields of facts, and a fact that cannot be written stops its writer with all its fabrics.
So values out of bounds are errors of the one fabric that reported them, and the other fabrics go on. Managers also list
devices that Muster does not compose (network cards, disks, processors): they are left out.
"""

from collections.abc import Iterable

from muster.fabric import bounds
from muster.fabric.driver import AttachOrder, DetachOrder, FabricDriver, FabricNonsenseError, Inventory, MachineDevice
from muster.schemas.base import LABEL_CHARS_MAX
from muster.schemas.devices import CXL_MEMORY, GPU
from muster.schemas.facts.fabric import POOL_MODELS_MAX

TYPES = frozenset({GPU, CXL_MEMORY})
"""Device types that Muster composes, whether configured or not: a pool may hold some before a group asks for them."""
_CHARS_TOLD = 60


class CheckedDriver:
    """A driver that validates the responses of another driver. types: further device types to keep."""

    def __init__(self, driver: FabricDriver, *, types: Iterable[str] = ()) -> None:
        self._driver = driver
        self._types = TYPES | frozenset(types)
        self.parallel_max = driver.parallel_max

    async def attach(self, order: AttachOrder) -> tuple[MachineDevice, ...]:
        """Attach a device; see FabricDriver.attach. Raises FabricNonsenseError for a device out of bounds."""
        found = await self._driver.attach(order)
        for device in found:
            check_device(device, what=f"machine {order.machine}")
        return found

    async def detach(self, order: DetachOrder) -> bool:
        """Detach a device; see FabricDriver.detach."""
        return await self._driver.detach(order)

    async def survey(self) -> Inventory:
        """Return the inventory; see FabricDriver.survey. Devices of types that Muster does not compose are left out."""
        return checked_inventory(await self._driver.survey(), types=self._types)

    async def close(self) -> None:
        """Close the connection of the driver."""
        await self._driver.close()


def checked(driver: FabricDriver) -> FabricDriver:
    """Wrap a driver so that its responses are validated; return a wrapped driver unchanged."""
    return driver if isinstance(driver, CheckedDriver) else CheckedDriver(driver)


def checked_inventory(seen: Inventory, *, types: frozenset[str] = TYPES) -> Inventory:
    """Return the inventory reduced to these device types. Raises FabricNonsenseError for what no fact can hold."""
    free: dict[tuple[str, str], int] = {}
    for (kind, model), count in seen.free.items():
        check_label(kind, what="pool", field="type")
        if kind in types:
            check_label(model, what=f"pool of type {kind}", field="model")
            _check_count(count, most=bounds.DEVICES_MAX, what=f"pool of {model}", field="free")
            free[kind, model] = count
    machines: dict[str, tuple[MachineDevice, ...]] = {}
    kinds, devices_count = set(free), 0
    for machine, devices in seen.machines.items():
        check_label(machine, what="machines", field="machine")
        machines[machine] = kept = tuple(_of_types(devices, types, what=f"machine {machine}"))
        kinds.update((device.type, device.model) for device in kept)
        devices_count += len(kept)
    _check_count(len(kinds), most=POOL_MODELS_MAX, what="survey", field="kinds of device")
    _check_count(len(machines), most=bounds.MACHINES_MAX, what="survey", field="machines")
    _check_count(devices_count, most=bounds.DEVICES_MAX, what="survey", field="devices")
    return Inventory(free=free, machines=machines)


def check_device(device: MachineDevice, *, what: str) -> None:
    """Raise FabricNonsenseError for a field that no fact can hold. device_uuid may be empty: the id is used then."""
    check_label(device.device_id, what=what, field="device_id")
    named = f"{what}: device {device.device_id}"
    if device.device_uuid:
        check_label(device.device_uuid, what=named, field="device_uuid")
    check_label(device.model, what=named, field="model")
    check_label(device.type, what=named, field="type")
    _check_count(device.memory_mib, most=bounds.MEMORY_MIB_MAX, what=named, field="memory_mib")


def check_label(text: str, *, what: str, field: str) -> None:
    """Raise FabricNonsenseError unless the text is a `schemas.base.Label` and printable, since people read it."""
    if not text:
        raise FabricNonsenseError(f"{_short(what)}: {field} is empty")
    if len(text) > LABEL_CHARS_MAX:
        raise FabricNonsenseError(f"{_short(what)}: {field} has {len(text)} characters, more than {LABEL_CHARS_MAX}")
    if not text.isprintable():
        raise FabricNonsenseError(f"{_short(what)}: {field} {text[:_CHARS_TOLD]!a} cannot be printed")


def _of_types(devices: Iterable[MachineDevice], types: frozenset[str], *, what: str) -> Iterable[MachineDevice]:
    for device in devices:
        check_label(device.type, what=what, field="type")
        if device.type in types:
            check_device(device, what=what)
            yield device


def _check_count(count: int, *, most: int, what: str, field: str) -> None:
    if not 0 <= count <= most:
        raise FabricNonsenseError(f"{_short(what)}: {field} is not within 0 and {most}")


def _short(what: str) -> str:
    """Shorten a name that the manager chose; only validated names are shown in full."""
    return what[: bounds.ERROR_CHARS_MAX // 2]
