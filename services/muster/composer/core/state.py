"""All stores of the composer, with indexes that bound each decision by what changed.

Only folds change them, except for the worklist of what to evaluate.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from muster.composer.core.config import ComposerConfig
from muster.composer.core.fabrics import Fabrics
from muster.composer.core.limits import ANOMALIES_MAX, CROSSING_S
from muster.composer.core.nodes import Hosts
from muster.composer.core.records import CALLING, STANDING, Attachment, FabricRecords, Kind, Requests, Store
from muster.composer.core.worklist import Worklist
from muster.core import NEVER, Instant, after
from muster.schemas.devices import AttachmentPhase
from muster.schemas.facts.device import PendingDetach
from muster.schemas.facts.fabric import DeviceAway


def asks_more(request: PendingDetach, known: PendingDetach) -> bool:
    """Return whether a request goes further than another: by force, for good, or a person's after the scaler's."""
    return (
        (request.force and not known.force)
        or (request.keep and not known.keep)
        or (bool(known.scale) and not request.scale)
    )


class Anomalies(Counter[str]):
    """Facts that fit no state, counted by kind."""

    def note(self, what: str) -> None:
        """Count one such fact."""
        if what not in self and len(self) >= ANOMALIES_MAX:
            what = "others"
        self[what] += 1


class Attachments(Store[Attachment]):
    """Attachments by id: those that are not over, and those whose node is still drained for them.

    Invariant: every change of an attachment is followed by `touch`, so that the next decision evaluates it.
    """

    def __init__(
        self, hosts: Hosts, requests: Requests, fabrics: FabricRecords, *, worklist: Worklist, anomalies: Anomalies
    ) -> None:
        super().__init__()
        self.hosts = hosts
        self._requests = requests
        self._fabrics = fabrics
        self._worklist = worklist
        self._anomalies = anomalies
        self.by_uuid: dict[str, str] = {}
        """Attachments with a device, by its UUID."""
        self.by_device: dict[tuple[str, str], str] = {}
        """Attachments with a device, by fabric and device id."""
        self.on_machine: dict[str, dict[str, None]] = {}
        self.withholding: dict[str, str] = {}
        """Attachments by the id of their request to drain."""
        self.kinds_on: dict[str, Counter[Kind]] = {}
        """Present and expected devices of each machine, cached until it changes."""
        self.reserved: Counter[tuple[str, Kind]] = Counter()
        """Devices of pools reserved for attachments."""
        self._calling: dict[str, dict[str, None]] = {}

    # --- calls -----------------------------------------------------------------------------------------------

    def calling(self, fabric: str) -> Mapping[str, None]:
        """Return the attachments of a fabric with a call that is under way or of unknown outcome."""
        return self._calling.get(fabric, {})

    def in_flight(self, fabric: str, now: Instant) -> int:
        """Return how many calls may still have an effect."""
        calling = [self._all[name] for name in self.calling(fabric)]
        return sum(one.is_calling or (one.is_unsure and one.deadline_at > now) for one in calling)

    def begin_call(self, attachment: Attachment) -> None:
        """Count a call that begins."""
        self._calling.setdefault(attachment.fabric, {})[attachment.id] = None

    def end_call(self, attachment: Attachment) -> None:
        """Stop counting the call, if there was one."""
        calling = self._calling.get(attachment.fabric, {})
        calling.pop(attachment.id, None)
        if not calling:
            self._calling.pop(attachment.fabric, None)

    # --- changes ---------------------------------------------------------------------------------------------

    def add(self, attachment: Attachment) -> None:
        """Add a new attachment, or one from a checkpoint."""
        self._all[attachment.id] = attachment
        if attachment.requested.node:  # it may have left before the checkpoint that this comes from
            self.hosts.machines.node_on.setdefault(attachment.machine, attachment.requested.node)
        self.on_machine.setdefault(attachment.machine, {})[attachment.id] = None
        if attachment.requested.request and not attachment.phase.is_over:
            self._requests.ensure(attachment.requested.request).attachments[attachment.id] = None
        for request_id in filter(None, (attachment.request_id, attachment.withdrawn_id)):
            self.withholding[request_id] = attachment.id
        if attachment.is_calling or (attachment.is_unsure and attachment.phase in CALLING):
            self._fabrics.ensure(attachment.fabric)
            self.begin_call(attachment)
        self.reserve(attachment)
        self.own(attachment)
        self.touch(attachment)

    def reserve(self, attachment: Attachment) -> None:
        """Reserve a device for it, if it has none yet."""
        if attachment.is_coming:
            self.reserved[attachment.fabric, attachment.kind] += 1

    def unreserve(self, attachment: Attachment) -> None:
        """End the reservation, before it gets its device or is over."""
        if attachment.is_coming:
            self.reserved[attachment.fabric, attachment.kind] -= 1

    def own(self, attachment: Attachment) -> None:
        """Index its device."""
        if not attachment.has_device:
            return
        key = attachment.fabric, attachment.device_id
        if self.by_device.setdefault(key, attachment.id) != attachment.id:
            self._anomalies.note("one device for two attachments")
        self.by_uuid[attachment.device_uuid] = attachment.id

    def disown(self, attachment: Attachment, at: Instant) -> None:
        """Record that its device went back to the pool."""
        key = attachment.fabric, attachment.device_id
        if self.by_device.get(key) == attachment.id:
            del self.by_device[key]
        if self.by_uuid.get(attachment.device_uuid) == attachment.id:
            del self.by_uuid[attachment.device_uuid]
        away = DeviceAway(device_id=attachment.device_id, device_uuid=attachment.device_uuid, at=at)
        if self._fabrics.ensure(attachment.fabric).take_away(away):
            self.kinds_on.clear()  # of whichever machine that was, its node may show it
        self.kinds_on.pop(attachment.machine, None)

    def drop(self, attachment: Attachment) -> None:
        """Remove an attachment that is over and owes nothing."""
        del self._all[attachment.id]
        for request_id in (attachment.request_id, attachment.withdrawn_id):
            self.withholding.pop(request_id, None)
        self.kinds_on.pop(attachment.machine, None)
        here = self.on_machine.get(attachment.machine, {})
        here.pop(attachment.id, None)
        if not here:
            self.on_machine.pop(attachment.machine, None)
        self._worklist.forget(attachment.id, attachment.fabric)

    def touch(self, attachment: Attachment) -> None:
        """Mark the attachment and its request for evaluation."""
        self._worklist.look(attachment.id)
        self.kinds_on.pop(attachment.machine, None)
        if attachment.requested.request:
            self._worklist.look_request(attachment.requested.request)
        self._worklist.look_waiting(attachment.device_uuid)

    def finish(self, attachment: Attachment, phase: AttachmentPhase, at: Instant) -> None:
        """End it on the fabric."""
        self.end_call(attachment)
        request = self._requests.get(attachment.requested.request)
        if request is not None:
            request.attachments.pop(attachment.id, None)
        attachment.phase, attachment.since = phase, at
        self.touch(attachment)

    def here(self, node: str) -> Iterator[Attachment]:
        """Yield the attachments of a node's machine that are not over."""
        description = self.hosts.nodes.description(node)
        machine = description.machine if description is not None else ""
        for name in self.on_machine.get(machine, ()):
            attachment = self._all[name]
            if not attachment.phase.is_over:
                yield attachment

    def want_away(self, attachment: Attachment, request: PendingDetach) -> None:
        """Request its detachment at once, even during a wait; a stronger earlier request stays."""
        known = attachment.wish
        if known is None or asks_more(request, known):
            if known is not None:
                kept = {"force": request.force or known.force, "keep": request.keep or known.keep}
                request = request.model_copy(update=kept)
            attachment.wish = request
        if attachment.phase in STANDING:
            attachment.retry_at = after(attachment.since, CROSSING_S) if attachment.withdrawn_id else NEVER
        self.touch(attachment)


class State:
    """The stores, connected with each other."""

    def __init__(self, fabrics: Fabrics, config: ComposerConfig) -> None:
        self.config = config
        self.bounds = config.bounds
        self.calls = fabrics
        self.worklist = Worklist()
        self.anomalies = Anomalies()
        self.hosts = Hosts(machine for group in config.groups for machine in group.machines)
        self.requests = Requests()
        self.fabrics = FabricRecords(fabric.name for fabric in config.fabrics)
        self.attachments = Attachments(
            self.hosts, self.requests, self.fabrics, worklist=self.worklist, anomalies=self.anomalies
        )
