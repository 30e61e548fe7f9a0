"""Who may hold a node or device: what is known of each, and who asked that nobody does.

A node takes new jobs when it is present, answers, was `released`, and nobody asked to withhold it. The placement
engine is told which nodes and devices are usable; it does not know why.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.placement import Fleet, Hold
from muster.schemas.facts.node import GrantState, NodeJoined, WithholdRequested, WithholdWish
from muster.schemas.job import Slot

NODE, DEVICE = "node", "device"


@dataclass(slots=True)
class NodeRecord:
    """One node. description: None while it is not part of the cluster.

    jobs: who holds what here. outside: those of them whose holds the fleet could not take (a node that shrank).
    whole: the job that has the node as one piece.
    """

    description: NodeJoined | None = None
    lost: bool = False
    released: bool = False
    wishes: tuple[WithholdWish, ...] = ()
    jobs: dict[str, list[Hold]] = field(default_factory=dict)
    outside: set[str] = field(default_factory=set)
    whole: str = ""
    last_fact: str = ""

    @property
    def usable(self) -> bool:
        """Whether it takes new jobs."""
        return self.description is not None and self.released and not self.lost and not self.wishes


@dataclass(slots=True)
class DeviceRecord:
    """A device that is not as its node: new and not yet released, or withheld. Other devices have no record."""

    released: bool = True
    wishes: tuple[WithholdWish, ...] = ()
    last_fact: str = ""


class NodeRecords:
    """Nodes, devices and their grants.

    pending: (kind, name) whose grant waits for an answer, or may need one. changes: grows whenever a
    node came, went, or may be used or not. freed_fact: by which something came free.
    """

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.nodes: dict[str, NodeRecord] = {}
        self.devices: dict[str, DeviceRecord] = {}
        self.pending: dict[tuple[str, str], None] = {}
        self.changes = 0
        self.freed_fact = ""
        self.freed_seq = 0

    def ask(self, kind: str, name: str, wish: WithholdRequested, *, fact: str) -> bool:
        """A service wants nothing new on the node or device. False if the request is known already."""
        record = self._grant(kind, name)
        if any(known.request_id == wish.request_id for known in record.wishes):
            return False
        asked = WithholdWish(request_id=wish.request_id, fact=fact, force=wish.force)
        record.wishes = (*record.wishes, asked)
        self._apply_grant(kind, name)
        return True

    def answered(self, kind: str, name: str, request_id: str) -> bool:
        """`withheld` was said. False if there is no such request."""
        record = self._known_grant(kind, name)
        if record is None or all(wish.request_id != request_id or wish.answered for wish in record.wishes):
            return False
        record.wishes = tuple(
            wish.model_copy(update={"answered": True}) if wish.request_id == request_id else wish
            for wish in record.wishes
        )
        if isinstance(record, NodeRecord):
            self._forget(name)
        return True

    def release(self, kind: str, name: str, *, fact: str, seq: int) -> bool:
        """`released` was said: usable, unless a request still waits. False if there is nothing of that name."""
        record = self._known_grant(kind, name)
        if record is None:
            return False
        record.released = True
        record.wishes = tuple(wish for wish in record.wishes if not wish.answered)
        record.last_fact = fact
        self._apply_grant(kind, name)
        if isinstance(record, NodeRecord):
            self._forget(name)
        self._came_free(fact, seq)
        return True

    def load_grant(self, kind: str, name: str, state: GrantState) -> None:
        """A grant as a checkpoint says."""
        record = self._grant(kind, name)
        record.released, record.wishes, record.last_fact = state.released, state.wishes, state.last_fact
        self._apply_grant(kind, name)

    def wants_release(self, kind: str, name: str) -> bool:
        """Whether nothing but `released` is missing for its use."""
        if kind == NODE:
            node = self.nodes.get(name)
            return node is not None and node.description is not None and not (node.released or node.lost or node.wishes)
        device = self.devices.get(name)
        return device is not None and not device.released and not device.wishes and self.place_of(name) is not None

    def holders(self, kind: str, name: str, held: Iterable[tuple[str, Iterable[Slot]]] = ()) -> tuple[str, ...]:
        """Jobs that hold something there. held: of a device's node, each job with its slots."""
        if kind == NODE:
            record = self.nodes.get(name)
            return tuple(sorted(record.jobs)) if record else ()
        place = self.place_of(name)
        if place is None:
            return ()
        node, index = place
        found = {job_id for job_id, slots in held for slot in slots if slot.node == node and index in slot.devices}
        return tuple(sorted(found))

    def place_of(self, uuid: str) -> tuple[str, int] | None:
        """Node and index of a device. Looks through all nodes: devices are asked about one by one, and seldom."""
        for name, record in self.nodes.items():
            if record.description is not None and uuid in record.description.gpu_uuids:
                return name, record.description.gpu_uuids.index(uuid)
        return None

    # --- for who keeps the holds -----------------------------------------------------------------------------

    def _node(self, name: str) -> NodeRecord:
        record = self.nodes.get(name)
        if record is None:
            record = self.nodes[name] = NodeRecord()
        return record

    def _grant(self, kind: str, name: str) -> NodeRecord | DeviceRecord:
        if kind == NODE:
            return self._node(name)
        return self.devices.setdefault(name, DeviceRecord())

    def _known_grant(self, kind: str, name: str) -> NodeRecord | DeviceRecord | None:
        return self.nodes.get(name) if kind == NODE else self.devices.get(name)

    def _apply_grant(self, kind: str, name: str) -> None:
        self.pending[kind, name] = None
        self.changes += 1
        if kind == NODE:
            record = self.nodes[name]
            if record.description is not None:
                self.fleet.set_usable(name, record.usable)
            return
        device = self.devices[name]
        place = self.place_of(name)
        usable = device.released and not device.wishes
        if place is not None:
            self.fleet.set_device_usable(*place, usable)
        if usable:
            del self.devices[name]

    def _touch(self, name: str, record: NodeRecord, fact: str) -> None:
        record.last_fact = fact
        self.fleet.set_usable(name, record.usable)
        self.pending[NODE, name] = None
        self.changes += 1

    def _drop_device(self, uuid: str) -> None:
        """The device is not there any more; who asked to withhold it still gets an answer."""
        record = self.devices.get(uuid)
        if record is None:
            return
        record.wishes = tuple(wish for wish in record.wishes if not wish.answered)
        if record.wishes:
            self.pending[DEVICE, uuid] = None
        else:
            del self.devices[uuid]

    def _note_new_devices(self, record: NodeRecord, before: NodeJoined, now: NodeJoined, fact: str) -> None:
        for uuid in before.gpu_uuids:
            if uuid not in now.gpu_uuids:
                self._drop_device(uuid)
        if record.released:
            for uuid in now.gpu_uuids:
                if uuid not in before.gpu_uuids:
                    self.devices[uuid] = DeviceRecord(released=False, last_fact=fact)
                    self.pending[DEVICE, uuid] = None

    def _came_free(self, fact: str, seq: int) -> None:
        if seq >= self.freed_seq:
            self.freed_fact, self.freed_seq = fact, seq

    def _forget(self, name: str) -> None:
        record = self.nodes[name]
        if record.description is None and not record.wishes and not record.jobs:
            del self.nodes[name]
