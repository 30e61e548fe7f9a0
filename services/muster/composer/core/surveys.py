"""The newest survey of each fabric, its differences from the log, and when the next one is due.

They belong to this process, not to the log: another leader surveys again. A fabric is surveyed periodically, and as
soon as that would settle the outcome of a call.
"""

from dataclasses import dataclass, field

from muster.composer.core.config import ComposerConfig
from muster.composer.core.fabrics import Fabrics, Surveyed, SurveyWentWrong
from muster.composer.core.limits import ERROR_CHARS_MAX, SKEW_S, SURVEY_BACKOFF_S_MAX
from muster.composer.core.records import STANDING, Attachment, Fabric, FabricRecords, Kind
from muster.composer.core.state import Attachments
from muster.composer.core.worklist import Worklist
from muster.core import NEVER, Instant, after
from muster.fabric.checked import checked_inventory
from muster.fabric.driver import FabricNonsenseError, Inventory, MachineDevice
from muster.schemas.facts.device import CallFailure


@dataclass(slots=True)
class Survey:
    """The newest successful survey of a fabric, at `began_at` (0: none), and failures since.

    `unclaimed`: devices without an attachment, by id. `found_on`: machines of new nodes, whose devices were found
    there. `missing`: attachments whose device is absent. `counts`: free and attached devices by kind. `failures`:
    consecutive failed surveys, the newest of which began at `failed_at`.
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
        """Return whether the device was on the machine."""
        return any(device.device_id == device_id for device in self.inventory.machines.get(machine, ()))

    def is_after(self, moment: Instant) -> bool:
        """Return whether it certainly began after this time, whatever the clocks."""
        return self.began_at > after(moment, SKEW_S)


class Surveys:
    """The newest survey of each fabric."""

    def __init__(
        self, config: ComposerConfig, attachments: Attachments, fabrics: FabricRecords, *, worklist: Worklist
    ) -> None:
        self._config = config
        self._attachments = attachments
        self._fabrics = fabrics
        self._machines = attachments.hosts.machines
        self._worklist = worklist
        self.of: dict[str, Survey] = {}
        self._seen: set[str] = set()

    def at(self, fabric: str) -> Survey:
        """Return the newest survey of a fabric."""
        return self.of.setdefault(fabric, Survey())

    def take(self, seen: Surveyed | SurveyWentWrong) -> bool:
        """Take a survey; return whether it is new."""
        look = self.at(seen.fabric)
        if isinstance(seen, SurveyWentWrong):
            return _fail(look, seen.began_at, seen.failure, seen.error)
        if seen.began_at <= max(look.began_at, look.failed_at) or seen.fabric not in self._fabrics:
            return False
        try:
            inventory = checked_inventory(seen.inventory)
        except FabricNonsenseError as error:  # else no fact could hold it, and no fabric would get any call
            return _fail(look, seen.began_at, error.failure, str(error))
        look.began_at, look.inventory = seen.began_at, inventory
        look.failures, look.failure, look.error = 0, None, ""
        look.counts = _counts(inventory)
        self._compare(self._fabrics[seen.fabric], look)
        for name in self._worklist.unsettled.get(seen.fabric, ()):
            self._worklist.look(name)
        return True

    def _compare(self, fabric: Fabric, look: Survey) -> None:
        attachments, present = self._attachments, set[tuple[str, str]]()
        look.unclaimed, look.missing, look.found_on = {}, {}, self._first_seen(fabric.name, look.began_at)
        for machine, devices in look.inventory.machines.items():
            is_ours = machine in self._machines.node_on
            for device in devices:
                present.add((machine, device.device_id))
                if is_ours and (fabric.name, device.device_id) not in attachments.by_device:
                    look.unclaimed[device.device_id] = machine, device
        for (owner, device_id), name in attachments.by_device.items():
            attachment = attachments[name]
            is_there = (attachment.machine, device_id) in present
            if owner == fabric.name and not is_there and attachment.phase in STANDING:
                look.missing[name] = None
                self._worklist.look(name)

    def _first_seen(self, fabric: str, began_at: Instant) -> set[str]:
        """Return the machines of new nodes at their first survey."""
        first, bound_s = set(), self._config.bounds.young_s
        for machine, joined_at in self._machines.young.get(fabric, {}).items():
            if machine not in self._seen and began_at <= after(joined_at, bound_s):
                first.add(machine)
        if first:
            self._seen = (self._seen | first) & self._machines.node_on.keys()
        return first

    def left_over(self, fabric: str, taken: set[tuple[str, str]]) -> list[tuple[str, MachineDevice]]:
        """Return devices on machines that still have no attachment in this survey."""
        look = self.at(fabric)
        found = []
        for device_id, (machine, device) in tuple(look.unclaimed.items()):
            key = fabric, device_id
            away_at = self._fabrics[fabric].away_at(device_id)
            if key in self._attachments.by_device or (away_at and not look.is_after(away_at)):
                del look.unclaimed[device_id]
            elif key not in taken:
                found.append((machine, device))
        return found

    def ask(self, calls: Fabrics, now: Instant) -> None:
        """Request the next survey of each fabric; may be repeated."""
        for config in self._config.fabrics:
            calls.ask_survey(config.name, self._not_before(config.name, self.at(config.name), now))

    def _not_before(self, fabric: str, look: Survey, now: Instant) -> Instant:
        moment = after(look.began_at, self._config.bounds.survey_s) if look.began_at else Instant(0)
        for name in self._worklist.unsettled.get(fabric, ()):
            attachment = self._attachments.get(name)
            if attachment is not None and attachment.failure is not None:
                settles_at = _settles_at(attachment)
                if settles_at > look.began_at:
                    moment = min(moment, settles_at)
        if look.failures and look.failed_at >= look.began_at:
            backoff_s = min(SURVEY_BACKOFF_S_MAX, self._config.bounds.backoff_s * 2 ** min(look.failures - 1, 16))
            moment = max(moment, after(look.failed_at, backoff_s))
        record = self._fabrics[fabric]
        return max(moment, record.retry_at) if record.is_open(now) else moment


def _fail(look: Survey, began_at: Instant, failure: CallFailure, error: str) -> bool:
    """Record a failed survey; return whether it is new."""
    if began_at <= look.failed_at:
        return False
    look.failures, look.failed_at = look.failures + 1, began_at
    look.failure, look.error = failure, error[:ERROR_CHARS_MAX]
    return True


def _counts(inventory: Inventory) -> dict[Kind, tuple[int, int]]:
    """Return free and attached devices by kind."""
    found = {kind: (free, 0) for kind, free in inventory.free.items()}
    for devices in inventory.machines.values():
        for device in devices:
            free, attached = found.get((device.type, device.model), (0, 0))
            found[device.type, device.model] = free, attached + 1
    return found


def _settles_at(attachment: Attachment) -> Instant:
    """Return from when a survey shows the effect of its failed call."""
    return Instant(after(attachment.settled_at, SKEW_S if attachment.is_unsure else 0.0) + 1)
