"""What a manager says of devices, checked before anybody believes it: one gate for every driver.

Ids, models and types become fields of facts, and a fact that cannot be written stops its writer with all its fabrics.
So what breaks their bounds is nonsense here: it counts against the one fabric that said it, and the others go on.
Managers also list what Muster has no use for (network cards, disks, processors): devices of other types are left out.
"""

from collections.abc import Iterable

from muster.fabric import bounds
from muster.fabric.driver import AttachOrder, DetachOrder, FabricDriver, FabricNonsenseError, Inventory, MachineDevice
from muster.schemas.base import LABEL_CHARS_MAX
from muster.schemas.devices import CXL_MEMORY, GPU
from muster.schemas.facts.fabric import POOL_MODELS_MAX

TYPES = frozenset({GPU, CXL_MEMORY})
"""Types of device that Muster composes, configured or not: a pool may hold some before a group asks for them."""
_CHARS_TOLD = 60


class CheckedDriver:
    """See FabricDriver: the same calls, and answers within bounds. types: further types that are kept."""

    def __init__(self, driver: FabricDriver, *, types: Iterable[str] = ()) -> None:
        self._driver = driver
        self._types = TYPES | frozenset(types)
        self.parallel_max = driver.parallel_max

    async def attach(self, order: AttachOrder) -> tuple[MachineDevice, ...]:
        """See FabricDriver.attach."""
        found = await self._driver.attach(order)
        for device in found:
            check_device(device, what=f"machine {order.machine}")
        return found

    async def detach(self, order: DetachOrder) -> bool:
        """See FabricDriver.detach."""
        return await self._driver.detach(order)

    async def survey(self) -> Inventory:
        """See FabricDriver.survey. Devices of types that nobody composes are left out."""
        return checked_inventory(await self._driver.survey(), types=self._types)

    async def close(self) -> None:
        """See FabricDriver.close."""
        await self._driver.close()


def checked(driver: FabricDriver) -> FabricDriver:
    """The driver with its answers checked; one that checks them already is given back as it is."""
    return driver if isinstance(driver, CheckedDriver) else CheckedDriver(driver)


def checked_inventory(seen: Inventory, *, types: frozenset[str] = TYPES) -> Inventory:
    """What was seen of devices of these types. Raises FabricNonsenseError for what no fact can hold."""
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
    """Raises FabricNonsenseError with the field that no fact can hold. device_uuid may be empty: it is the id then."""
    check_label(device.device_id, what=what, field="device_id")
    named = f"{what}: device {device.device_id}"
    if device.device_uuid:
        check_label(device.device_uuid, what=named, field="device_uuid")
    check_label(device.model, what=named, field="model")
    check_label(device.type, what=named, field="type")
    _check_count(device.memory_mib, most=bounds.MEMORY_MIB_MAX, what=named, field="memory_mib")


def check_label(text: str, *, what: str, field: str) -> None:
    """As `schemas.base.Label`, and printable, since people are shown it. Raises FabricNonsenseError."""
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
    """What a manager calls something may be long itself; only checked words are told whole."""
    return what[: bounds.ERROR_CHARS_MAX // 2]
