"""The newest look at each fabric, and what of it does not agree with the log.

Remembered by the instance that looked, never part of the log: another leader looks anew.
"""

from dataclasses import dataclass, field

from muster.composer.core.fabrics import Surveyed, SurveyWentWrong
from muster.composer.core.limits import ERROR_CHARS_MAX, SKEW_S
from muster.composer.core.records import STANDING, Fabric, Kind
from muster.composer.core.state import State, young_s
from muster.core import NEVER, Instant, after
from muster.fabric.checked import checked_inventory
from muster.fabric.driver import FabricNonsenseError, Inventory, MachineDevice
from muster.schemas.facts.device import CallFailure


@dataclass(slots=True)
class Look:
    """began_at: of the newest look that succeeded, 0 if none did. unclaimed: devices that no attachment has, by id.

    found_on: machines whose nodes joined a moment ago: what stands there stood there before.
    missing: attachments whose device is not where it should be. counts: free and attached devices, by kind.
    failures: looks in a row that failed, the newest of which began at failed_at.
    """

    began_at: Instant = NEVER
    inventory: Inventory = field(default_factory=Inventory)
    unclaimed: dict[str, tuple[str, MachineDevice]] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    found_on: set[str] = field(default_factory=set)
    counts: dict[Kind, tuple[int, int]] = field(default_factory=dict)
    failures: int = 0
    failed_at: Instant = NEVER
    failure: CallFailure | None = None
    error: str = ""

    def shows(self, machine: str, device_id: str) -> bool:
        """Whether the device stood on the machine."""
        return any(device.device_id == device_id for device in self.inventory.machines.get(machine, ()))

    def is_after(self, moment: Instant) -> bool:
        """Whether it surely began after this moment, of whichever clock."""
        return self.began_at > after(moment, SKEW_S)


class Looks:
    """One look per fabric."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.of: dict[str, Look] = {}
        self._seen: set[str] = set()

    def at(self, fabric: str) -> Look:
        """The newest look at a fabric."""
        return self.of.setdefault(fabric, Look())

    def take(self, seen: Surveyed | SurveyWentWrong) -> bool:
        """A look, new or again. Whether it is new."""
        look = self.at(seen.fabric)
        if isinstance(seen, SurveyWentWrong):
            return _fail(look, seen.began_at, seen.failure, seen.error)
        if seen.began_at <= max(look.began_at, look.failed_at) or seen.fabric not in self._state.fabrics:
            return False
        try:
            inventory = checked_inventory(seen.inventory)
        except FabricNonsenseError as error:  # else no fact could hold it, and no fabric would get any call
            return _fail(look, seen.began_at, error.failure, str(error))
        look.began_at, look.inventory = seen.began_at, inventory
        look.failures, look.failure, look.error = 0, None, ""
        look.counts = _counts(inventory)
        self._compare(self._state.fabrics[seen.fabric], look)
        for name in self._state.marks.unsettled.get(seen.fabric, ()):
            self._state.marks.look(name)
        return True

    def _compare(self, fabric: Fabric, look: Look) -> None:
        state, present = self._state, set[tuple[str, str]]()
        look.unclaimed, look.missing, look.found_on = {}, {}, self._first_seen(fabric.name, look.began_at)
        for machine, devices in look.inventory.machines.items():
            is_ours = machine in state.machines.node_on
            for device in devices:
                present.add((machine, device.device_id))
                if is_ours and (fabric.name, device.device_id) not in state.by_device:
                    look.unclaimed[device.device_id] = machine, device
        for (owner, device_id), name in state.by_device.items():
            attachment = state.attachments[name]
            is_there = (attachment.machine, device_id) in present
            if owner == fabric.name and not is_there and attachment.phase in STANDING:
                look.missing[name] = None
                state.marks.look(name)

    def _first_seen(self, fabric: str, began_at: Instant) -> set[str]:
        """Machines of nodes that joined a moment ago, at the first look at them."""
        first, bound_s = set(), young_s(self._state)
        for machine, joined_at in self._state.machines.young.get(fabric, {}).items():
            if machine not in self._seen and began_at <= after(joined_at, bound_s):
                first.add(machine)
        if first:
            self._seen = (self._seen | first) & self._state.machines.node_on.keys()
        return first

    def left_over(self, fabric: str, taken: set[tuple[str, str]]) -> list[tuple[str, MachineDevice]]:
        """Devices on machines that still belong to no attachment, as far as this look can tell."""
        state, look = self._state, self.at(fabric)
        found = []
        for device_id, (machine, device) in tuple(look.unclaimed.items()):
            key = fabric, device_id
            away_at = state.fabrics[fabric].away_at(device_id)
            if key in state.by_device or (away_at and not look.is_after(away_at)):
                del look.unclaimed[device_id]
            elif key not in taken:
                found.append((machine, device))
        return found


def _fail(look: Look, began_at: Instant, failure: CallFailure, error: str) -> bool:
    """A look that began then failed; the same again is no second one. Whether it is new."""
    if began_at <= look.failed_at:
        return False
    look.failures, look.failed_at = look.failures + 1, began_at
    look.failure, look.error = failure, error[:ERROR_CHARS_MAX]
    return True


def _counts(inventory: Inventory) -> dict[Kind, tuple[int, int]]:
    """Free and attached devices, by kind."""
    found = {kind: (free, 0) for kind, free in inventory.free.items()}
    for devices in inventory.machines.values():
        for device in devices:
            free, attached = found.get((device.type, device.model), (0, 0))
            found[device.type, device.model] = free, attached + 1
    return found
