"""What the log says is attached, folded apart from the composer, and compared with what the fabric really holds."""

from muster.core import Fact, Instant
from muster.fabric.simulator.model import FabricModel
from muster.schemas.devices import Origin
from muster.schemas.facts.composability import RequestEnded
from muster.schemas.facts.device import (
    AttachmentRequested,
    CallFailed,
    CallStarted,
    DeviceAttached,
    DeviceDetached,
)


class Ledger:
    """Counts, claims and breaches.

    claims: attachment and machine of each device that the log says is attached. attaching: attachments whose call is
    under way as the log has it. doubly_attached: claims of a device that was claimed. misplaced: claims of devices
    that are not on that machine at a quiet moment.
    """

    def __init__(self, model: FabricModel) -> None:
        self._model = model
        self.claims: dict[str, tuple[str, str]] = {}
        self.attaching: dict[str, Instant] = {}
        self._detaching: dict[str, Instant] = {}
        self._requested: dict[str, AttachmentRequested] = {}
        self._tried: set[str] = set()
        self._unsettled: set[str] = set()
        self.cycles = self.calls = self.retries = self.adoptions = 0
        self.orphans_found = self.orphans_returned = self.requests_failed = self.given_up = 0
        self.doubly_attached = self.misplaced = self.quiet_moments = self.in_flight_max = 0

    def fold(self, fact: Fact) -> None:
        """One fact further."""
        name, payload = fact.subject_id, fact.payload
        match payload:
            case AttachmentRequested():
                self._requested[name] = payload
            case CallStarted():
                self._call(fact, payload)
            case CallFailed():
                self._failed(fact)
            case DeviceAttached():
                self._attached(name, payload)
            case DeviceDetached():
                self._detached(name, payload)
            case RequestEnded(failed=True):
                self.requests_failed += 1
        match fact.kind, fact.name:
            case "attachment", "failed":
                self.attaching.pop(name, None)
                self._unsettled.discard(name)
            case "attachment", "detach-given-up":
                self._detaching.pop(name, None)
                self._unsettled.discard(name)
                self.given_up += 1
            case "fabric", "orphan-found":
                self.orphans_found += 1
            case "fabric", "orphan-returned":
                self.orphans_returned += 1

    def look(self) -> None:
        """At a quiet moment compare what the fabric holds with the log."""
        in_flight = len(self.attaching) + len(self._detaching)
        self.in_flight_max = max(self.in_flight_max, in_flight)
        if not in_flight and not self._unsettled and not self._model.running:
            self.quiet_moments += 1
            self.misplaced += sum(
                1
                for device_id, (_, machine) in self.claims.items()
                if all(there.device_id != device_id for there in self._model.on_machine(machine))
            )

    def leaked(self) -> int:
        """Devices on machines that no attachment claims."""
        machines = self._model.inventory().machines
        return sum(1 for devices in machines.values() for device in devices if device.device_id not in self.claims)

    def _call(self, fact: Fact, started: CallStarted) -> None:
        calls = self.attaching if fact.name == "attaching" else self._detaching
        self.calls += 1
        self.retries += fact.subject_id in self._tried
        self._tried.add(fact.subject_id)
        self._unsettled.discard(fact.subject_id)
        calls[fact.subject_id] = Instant(started.deadline_at)

    def _failed(self, fact: Fact) -> None:
        calls = self.attaching if fact.name == "attach-failed" else self._detaching
        calls.pop(fact.subject_id, None)
        self._unsettled.add(fact.subject_id)

    def _attached(self, name: str, device: DeviceAttached) -> None:
        self.attaching.pop(name, None)
        self._tried.discard(name)
        self._unsettled.discard(name)
        self.adoptions += device.adopted and self._requested[name].origin is not Origin.ORPHAN
        if device.device_id in self.claims:
            self.doubly_attached += 1
        self.claims[device.device_id] = name, device.machine

    def _detached(self, name: str, device: DeviceDetached) -> None:
        self._detaching.pop(name, None)
        self._tried.discard(name)
        self._unsettled.discard(name)
        self.claims.pop(device.device_id, None)
        self.cycles += self._requested.pop(name).origin is not Origin.ORPHAN
