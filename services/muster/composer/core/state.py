"""All that the composer believes, with the indexes that keep each decision as small as what changed.

Only folds change it, but for the worklist, which remember what has to be looked at.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from muster.cluster import Holds, Nodes
from muster.composer.core.config import ComposerConfig
from muster.composer.core.fabrics import Fabrics
from muster.composer.core.limits import ANOMALIES_MAX, CROSSING_S, ENDED_MAX, YOUNG_S
from muster.composer.core.nodes import Grants, HostResources, Machines
from muster.composer.core.records import CALLING, STANDING, Attachment, Fabric, Kind, Request
from muster.composer.core.worklist import Worklist
from muster.core import NEVER, Fact, Instant, after
from muster.schemas.devices import AttachmentPhase, RequestPhase
from muster.schemas.facts.device import DetachWish
from muster.schemas.facts.fabric import DeviceAway


def asks_more(wish: DetachWish, known: DetachWish) -> bool:
    """Whether a wish goes further than another: by force, for good, or a person's beside the scaler's."""
    return (wish.force and not known.force) or (wish.keep and not known.keep) or (bool(known.scale) and not wish.scale)


def young_s(state: "State") -> float:
    """How long after a node joined first what stands on its machine may have stood there before: some looks."""
    return 2 * state.bounds.survey_s + YOUNG_S


class State:
    """attachments: those that are not over, and those that still owe the scheduler a word. requests: ended ones too.

    by_uuid, by_device: attachments that have a device, by its uuid, and by fabric and id. on_machine: by machine.
    withholding: by the id under which the scheduler was asked to withhold. calling: calls under way or of unknown
    outcome, by fabric. kinds_on: what stands or comes on each machine, as counted since it changed. reserved: devices
    of pools that attachments without one will take. anomalies: facts that fit no state.
    """

    def __init__(self, fabrics: Fabrics, config: ComposerConfig) -> None:
        self.config = config
        self.bounds = config.bounds
        self.calls = fabrics
        self.nodes = Nodes()
        self.grants = Grants(self.nodes)
        self.machines = Machines(machine for group in config.groups for machine in group.machines)
        self.holds = Holds()
        self.host_resources = HostResources()
        self.attachments: dict[str, Attachment] = {}
        self.requests: dict[str, Request] = {}
        self.fabrics = {fabric.name: Fabric(name=fabric.name) for fabric in config.fabrics}
        self.withholding: dict[str, str] = {}
        self.by_uuid: dict[str, str] = {}
        self.by_device: dict[tuple[str, str], str] = {}
        self.on_machine: dict[str, dict[str, None]] = {}
        self.calling: dict[str, dict[str, None]] = {name: {} for name in self.fabrics}
        self.kinds_on: dict[str, Counter[Kind]] = {}
        self.reserved: Counter[tuple[str, Kind]] = Counter()
        self.worklist = Worklist()
        self.anomalies: Counter[str] = Counter()
        self._ended: dict[str, None] = {}

    # --- attachments -------------------------------------------------------------------------------------------

    def add(self, attachment: Attachment) -> None:
        """A new attachment, or one from a checkpoint."""
        self.attachments[attachment.id] = attachment
        if attachment.requested.node:  # it may have left before the checkpoint that this comes from
            self.machines.node_on.setdefault(attachment.machine, attachment.requested.node)
        self.on_machine.setdefault(attachment.machine, {})[attachment.id] = None
        if attachment.requested.request and not attachment.phase.is_over:
            self.request(attachment.requested.request).attachments[attachment.id] = None
        for request_id in filter(None, (attachment.request_id, attachment.withdrawn_id)):
            self.withholding[request_id] = attachment.id
        if attachment.is_calling or (attachment.is_unsure and attachment.phase in CALLING):
            self.fabric(attachment.fabric)
            self.calling[attachment.fabric][attachment.id] = None
        self.reserve(attachment)
        self.own(attachment)
        self.touch(attachment)

    def reserve(self, attachment: Attachment) -> None:
        """Count the device that is reserved for it, if it has none yet."""
        if attachment.is_coming:
            self.reserved[attachment.fabric, attachment.kind] += 1

    def unreserve(self, attachment: Attachment) -> None:
        """The opposite; before it gets its device or is over."""
        if attachment.is_coming:
            self.reserved[attachment.fabric, attachment.kind] -= 1

    def own(self, attachment: Attachment) -> None:
        """Index the device that it has."""
        if not attachment.has_device:
            return
        key = attachment.fabric, attachment.device_id
        if self.by_device.setdefault(key, attachment.id) != attachment.id:
            self.anomaly("one device for two attachments")
        self.by_uuid[attachment.device_uuid] = attachment.id

    def disown(self, attachment: Attachment, at: Instant) -> None:
        """Its device went back to the pool."""
        key = attachment.fabric, attachment.device_id
        if self.by_device.get(key) == attachment.id:
            del self.by_device[key]
        if self.by_uuid.get(attachment.device_uuid) == attachment.id:
            del self.by_uuid[attachment.device_uuid]
        away = DeviceAway(device_id=attachment.device_id, device_uuid=attachment.device_uuid, at=at)
        if self.fabric(attachment.fabric).take_away(away):
            self.kinds_on.clear()  # of whichever machine that was, its node may show it
        self.kinds_on.pop(attachment.machine, None)

    def drop(self, attachment: Attachment) -> None:
        """It is over and owes nothing."""
        del self.attachments[attachment.id]
        for request_id in (attachment.request_id, attachment.withdrawn_id):
            self.withholding.pop(request_id, None)
        self.kinds_on.pop(attachment.machine, None)
        here = self.on_machine.get(attachment.machine, {})
        here.pop(attachment.id, None)
        if not here:
            self.on_machine.pop(attachment.machine, None)
        self.worklist.forget(attachment.id, attachment.fabric)

    def touch(self, attachment: Attachment) -> None:
        """Something about it changed: look at it, and at its request."""
        self.worklist.look(attachment.id)
        self.kinds_on.pop(attachment.machine, None)
        if attachment.requested.request:
            self.worklist.look_request(attachment.requested.request)
        self.worklist.look_waiting(attachment.device_uuid)

    def node_of(self, attachment: Attachment) -> str:
        """The node that stands on its machine; "" if none ever did."""
        return self.machines.node_on.get(attachment.machine, attachment.requested.node)

    def finish(self, attachment: Attachment, phase: AttachmentPhase, at: Instant) -> None:
        """Nothing more will happen to it, on the fabric."""
        self.calling[attachment.fabric].pop(attachment.id, None)
        request = self.requests.get(attachment.requested.request)
        if request is not None:
            request.attachments.pop(attachment.id, None)
        attachment.phase, attachment.since = phase, at
        self.touch(attachment)

    def here(self, node: str) -> Iterator[Attachment]:
        """Attachments of a node's machine that are not over."""
        description = self.nodes.description(node)
        machine = description.machine if description is not None else ""
        for name in self.on_machine.get(machine, ()):
            attachment = self.attachments[name]
            if not attachment.phase.is_over:
                yield attachment

    def want_away(self, attachment: Attachment, wish: DetachWish) -> None:
        """It is to go: at once, also while it rests from the last time. What was asked before and more is kept."""
        known = attachment.wish
        if known is None or asks_more(wish, known):
            if known is not None:
                kept = {"force": wish.force or known.force, "keep": wish.keep or known.keep}
                wish = wish.model_copy(update=kept)
            attachment.wish = wish
        if attachment.phase in STANDING:
            attachment.retry_at = after(attachment.since, CROSSING_S) if attachment.withdrawn_id else NEVER
        self.touch(attachment)

    def holders(self, attachment: Attachment) -> tuple[str, ...]:
        """Jobs that stand in the way of its detachment.

        Where the kubelet picks: also those of which nobody knows which devices they have.
        """
        if not attachment.is_gpu:
            return self.holds.jobs_on(self.node_of(attachment))
        name = self.nodes.node_of.get(attachment.device_uuid)
        if name is None:
            return ()
        return self.holds.device_holders(name, attachment.device_uuid, self.nodes[name].shown).all

    def is_shown(self, attachment: Attachment) -> bool:
        """Whether its node shows the device."""
        if attachment.is_gpu:
            return attachment.device_uuid in self.nodes.node_of
        description = self.nodes.description(self.node_of(attachment))
        return description is not None and attachment.device_uuid in description.memory_uuids

    def is_usable(self, attachment: Attachment) -> bool:
        """Whether jobs may use it."""
        return self.grants.is_device_usable(attachment.device_uuid) if attachment.is_gpu else self.is_shown(attachment)

    # --- fabrics -----------------------------------------------------------------------------------------------

    def fabric(self, name: str) -> Fabric:
        """The fabric, also one that is configured no more."""
        known = self.fabrics.get(name)
        if known is None:
            known = Fabric(name=name)
            self.put_fabric(known)
        return known

    def put_fabric(self, fabric: Fabric) -> None:
        """A new one, or one from a checkpoint."""
        self.fabrics[fabric.name] = fabric
        self.calling.setdefault(fabric.name, {})

    def in_flight(self, fabric: str, now: Instant) -> int:
        """Calls that may still have an effect."""
        return sum(
            1
            for name in self.calling[fabric]
            if (a := self.attachments[name]).is_calling or (a.is_unsure and a.deadline_at > now)
        )

    def free(self, fabric: str, kind: Kind) -> int:
        """Devices in the pool that are reserved for nobody."""
        return self.fabrics[fabric].free(kind) - self.reserved[fabric, kind]

    # --- requests ----------------------------------------------------------------------------------------------

    def request(self, name: str) -> Request:
        """The request, a new one if there is none."""
        known = self.requests.get(name)
        if known is None:
            known = self.requests[name] = Request(name=name)
        return known

    def end_request(self, request: Request, phase: RequestPhase, at: Instant) -> None:
        """It is over; so many of these are kept for those who ask."""
        request.phase, request.since = phase, at
        self._ended.pop(request.name, None)
        self._ended[request.name] = None
        for name in list(self._ended)[: max(0, len(self._ended) - ENDED_MAX)]:
            del self._ended[name]
            old = self.requests.get(name)
            if old is not None and not old.is_live and not old.wishes:
                del self.requests[name]

    def renew_request(self, name: str) -> Request:
        """A request that begins anew, with the wishes that it has."""
        known = self.requests.get(name)
        self._ended.pop(name, None)
        fresh = Request(name=name)
        if known is not None:
            fresh.wishes = known.wishes
        self.requests[name] = fresh
        return fresh

    # --- beside ------------------------------------------------------------------------------------------------

    def anomaly(self, what: str) -> None:
        """Count a fact that fits no state."""
        if what not in self.anomalies and len(self.anomalies) >= ANOMALIES_MAX:
            what = "others"
        self.anomalies[what] += 1


Handler = Callable[[State, Fact], None]
"""What folds one sort of fact."""
