"""Place of every device of a simulated fabric: free in the pool, taken from it, or on one machine. Pure.

Free devices are taken in the order in which they were entered, independent of the order of their return: the result of
an attachment is a function of the free devices, not of history.
"""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from muster.fabric.driver import FabricRefusedError, Inventory, MachineDevice
from muster.fabric.simulator.operation import PoolDevice

Kind = tuple[str, str]
"""Type and model."""


class Places:
    """The devices and machines of one fabric."""

    def __init__(self, fabric: str, machines: Iterable[str]) -> None:
        self._fabric = fabric
        self._machines: dict[str, dict[str, MachineDevice]] = {machine: {} for machine in machines}
        self._devices: dict[str, MachineDevice] = {}
        self._rank: dict[str, int] = {}
        self._by_rank: list[MachineDevice] = []
        self._free: dict[Kind, list[int]] = {}

    @property
    def machines(self) -> tuple[str, ...]:
        """Return every machine."""
        return tuple(self._machines)

    @property
    def devices(self) -> Mapping[str, MachineDevice]:
        """Return every device by its id, in the order of the pool."""
        return self._devices

    def enter(self, device: PoolDevice, machine: str = "") -> None:
        """Add a new device: on a machine, or "" in the pool. Raises ValueError: not new, or unknown machine."""
        known = device.on_machine()
        if known.device_id in self._devices:
            raise ValueError(f"fabric {self._fabric}: device {device.device_uuid} is there twice")
        if machine and machine not in self._machines:
            raise ValueError(
                f"fabric {self._fabric}: device {device.device_uuid} stands on {machine!r}, no such machine"
            )
        self._rank[known.device_id] = len(self._by_rank)
        self._by_rank.append(known)
        self._devices[known.device_id] = known
        self._free.setdefault(kind_of(known), [])
        if machine:
            self.put_on(machine, known)
        else:
            self.put_back(known)

    def on_machine(self, machine: str) -> Mapping[str, MachineDevice]:
        """Devices of one machine by id, in the order in which they came. Raises FabricRefusedError."""
        if machine not in self._machines:
            raise FabricRefusedError(f"machine {machine!r}: fabric {self._fabric} has no such machine")
        return self._machines[machine]

    def has_free(self, kind: Kind) -> bool:
        """Return whether a device of this kind can be taken."""
        return bool(self._free.get(kind))

    def take(self, kind: Kind) -> MachineDevice:
        """Take the first free device out of the pool. Raises FabricRefusedError."""
        ranks = self._free.get(kind)
        if ranks is None:
            raise FabricRefusedError(f"model {kind[1]!r}: fabric {self._fabric} has no {kind[0]} of that model")
        if not ranks:
            raise FabricRefusedError(f"model {kind[1]!r}: no {kind[0]} of it is free in the pool of {self._fabric}")
        return self._by_rank[heappop(ranks)]

    def check_free(self, device_id: str) -> None:
        """Raises FabricRefusedError unless this very device is in the pool."""
        device = self._devices.get(device_id)
        if device is None:
            raise FabricRefusedError(f"device {device_id!r}: fabric {self._fabric} has no such device")
        if self._rank[device_id] not in self._free[kind_of(device)]:
            raise FabricRefusedError(f"device {device_id}: it is on a machine; detach it there first")

    def take_named(self, device_id: str) -> MachineDevice:
        """Take this free device out of the pool."""
        device = self._devices[device_id]
        ranks = self._free[kind_of(device)]
        ranks.remove(self._rank[device_id])
        heapify(ranks)
        return device

    def put_back(self, device: MachineDevice) -> None:
        """Put a device back into the pool."""
        heappush(self._free[kind_of(device)], self._rank[device.device_id])

    def put_on(self, machine: str, device: MachineDevice) -> None:
        """Put a device onto a machine, beside its other devices."""
        self._machines[machine].setdefault(device.device_id, device)

    def take_off(self, machine: str, device: MachineDevice) -> None:
        """Away from a machine, if it is there."""
        self._machines[machine].pop(device.device_id, None)

    def inventory(self) -> Inventory:
        """Return the free devices and those on machines, with all machines."""
        return Inventory(
            free={kind: len(ranks) for kind, ranks in self._free.items()},
            machines={machine: tuple(devices.values()) for machine, devices in self._machines.items()},
        )

    def free(self) -> tuple[MachineDevice, ...]:
        """Return the devices in the pool, in the order in which they would be taken."""
        return tuple(self._by_rank[rank] for ranks in self._free.values() for rank in sorted(ranks))

    def all(self) -> dict[str, str]:
        """Machine of every device by its id, in the order in which they came there; "" for elsewhere."""
        standing = {device_id: machine for machine, devices in self._machines.items() for device_id in devices}
        return {device_id: "" for device_id in self._devices if device_id not in standing} | standing

    def restore(self, places: Mapping[str, str], *, moving: Iterable[str]) -> None:
        """Be as `all` said it was; a device that it does not name stays where it is, names of nothing are left out.

        moving: devices that are neither in the pool nor on a machine, or are and will leave it.
        """
        stood = {device_id: devices for devices in self._machines.values() for device_id in devices}
        for device_id, machine in places.items():
            if device_id not in self._devices or (machine and machine not in self._machines):
                continue
            if device_id in stood:
                del stood[device_id][device_id]
            if machine:
                self._machines[machine][device_id] = self._devices[device_id]
        elsewhere = {device_id for devices in self._machines.values() for device_id in devices} | set(moving)
        self._free = {kind: [] for kind in self._free}
        for device_id, device in self._devices.items():
            if device_id not in elsewhere:
                self.put_back(device)


def kind_of(device: MachineDevice) -> Kind:
    """Return the type and model of a device."""
    return device.type, device.model
