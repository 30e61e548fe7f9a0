"""Nodes and devices as the scheduler knows them: what is held, who may hold, who asked that nobody does.

The placement engine keeps the sums; this adds what it does not know: facts, grants, and holds on nodes that are not
there. A node takes new jobs when it is present, answers, was `released`, and nobody asked to withhold it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from muster.placement import Fleet, GangRequest, Hold, HoldError, NodeShape
from muster.placement import Slot as Place
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


class Books:
    """The fleet, its grants, and the proposals of the decision that is being made.

    A proposal is held in the fleet until it is confirmed by its own `placed` or withdrawn by `settle`, which must come
    before anything else looks at what is free. pending: (kind, name) whose grant waits for an answer, or may need one.
    withdrawn: proposals that were ever taken back.
    """

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.nodes: dict[str, NodeRecord] = {}
        self.devices: dict[str, DeviceRecord] = {}
        self.pending: dict[tuple[str, str], None] = {}
        self.freed_fact = ""
        self.freed_seq = 0
        self.misfits = 0
        self.withdrawn = 0
        self._proposals: dict[str, tuple[Hold, ...]] = {}

    # --- proposals and holds -------------------------------------------------------------------------------

    def propose(self, job_id: str, gang: GangRequest) -> tuple[Hold, ...] | None:
        """Find a place for a whole gang and keep it for the time being; None if there is none."""
        holds = self.fleet.find(gang)
        if holds is None:
            return None
        for hold in holds:
            self.fleet.hold(hold)
        self._proposals[job_id] = holds
        return holds

    def withdraw(self, job_id: str) -> None:
        """Take one proposal back."""
        self.withdrawn += 1
        for hold in self._proposals.pop(job_id):
            self.fleet.release(hold)

    def retract(self, job_id: str) -> None:
        """Take the newest proposal back, before anybody was refused because of it."""
        for hold in self._proposals.pop(job_id):
            self.fleet.withdraw(hold)

    def settle(self) -> None:
        """Take back every proposal that was not confirmed."""
        for job_id in tuple(self._proposals):
            self.withdraw(job_id)

    def confirm(self, job_id: str, slots: Sequence[Slot], gang: GangRequest) -> None:
        """The job has these slots from now on, also on nodes that are not there."""
        holds = self._proposals.pop(job_id, None)
        entered = holds is not None and _same(holds, slots)
        if holds is None or not entered:
            for hold in holds or ():
                self.fleet.release(hold)
            self.withdrawn += holds is not None
            self.settle()
            holds = tuple(_hold_of(slot, gang) for slot in slots)
        for hold in holds:
            record = self._node(hold.slot.node)
            record.jobs.setdefault(job_id, []).append(hold)
            if gang.groups[hold.slot.group].shape.full_node:
                record.whole = job_id
        if not entered:
            for name in dict.fromkeys(slot.node for slot in slots):
                self._enter(self.nodes[name], job_id)

    def free(self, job_id: str, slots: Iterable[Slot], *, fact: str, seq: int) -> None:
        """The job holds nothing any more."""
        for name in {slot.node: None for slot in slots}:
            record = self.nodes[name]
            holds = record.jobs.pop(job_id)
            if record.whole == job_id:
                record.whole = ""
            if record.description is not None and job_id not in record.outside:
                for hold in holds:
                    self.fleet.release(hold)
            record.outside.discard(job_id)
            self._forget(name)
        self._came_free(fact, seq)

    # --- what is there ---------------------------------------------------------------------------------------

    def join(self, name: str, description: NodeJoined, *, fact: str) -> None:
        """The node is part of the cluster, or its description changed."""
        record = self._node(name)
        known = record.description
        if known == description and not record.lost:
            return
        if known is None:
            record.released = False
        elif record.lost:
            record.lost = record.released = False
        if known != description:
            if known is not None:
                self._uninstall(name, record)
                self._note_new_devices(record, known, description, fact)
            record.description = description
            self._install(name, record)
        self._touch(name, record, fact)

    def set_lost(self, name: str, lost: bool, *, fact: str) -> bool:
        """The node does not answer, or answers again: then it must be released anew. False if it is not there."""
        record = self.nodes.get(name)
        if record is None or record.description is None:
            return False
        record.lost, record.released = lost, False
        self._touch(name, record, fact)
        return True

    def leave(self, name: str, *, fact: str) -> bool:
        """The node is no longer part of the cluster; what is held there stays on the jobs. False if it is not there."""
        record = self.nodes.get(name)
        if record is None or record.description is None:
            return False
        self._uninstall(name, record)
        for uuid in record.description.gpu_uuids:
            self._drop_device(uuid)
        record.description, record.lost, record.released = None, False, False
        record.wishes = tuple(wish for wish in record.wishes if not wish.answered)
        record.last_fact = fact
        self.pending[NODE, name] = None
        self._forget(name)
        return True

    def load_node(self, name: str, description: NodeJoined, *, lost: bool, fact: str) -> None:
        """A node as a checkpoint says."""
        record = self._node(name)
        if record.description is not None:
            self._uninstall(name, record)
        record.description, record.lost = description, lost
        record.last_fact = record.last_fact or fact
        self._install(name, record)
        self._touch(name, record, record.last_fact)

    # --- grants ----------------------------------------------------------------------------------------------

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

    # --- inside ----------------------------------------------------------------------------------------------

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

    def _came_free(self, fact: str, seq: int) -> None:
        if seq >= self.freed_seq:
            self.freed_fact, self.freed_seq = fact, seq

    def _forget(self, name: str) -> None:
        record = self.nodes[name]
        if record.description is None and not record.wishes and not record.jobs:
            del self.nodes[name]

    def _install(self, name: str, record: NodeRecord) -> None:
        shape = record.description
        assert shape is not None
        self.fleet.add_node(
            NodeShape(name, shape.cpu_milli, shape.memory_mib, len(shape.gpu_uuids), shape.gpu_model, shape.domains)
        )
        self.fleet.set_usable(name, record.usable)
        if self.devices:
            for index, uuid in enumerate(shape.gpu_uuids):
                device = self.devices.get(uuid)
                if device is not None:
                    self.fleet.set_device_usable(name, index, device.released and not device.wishes)
        for job_id in record.jobs:
            self._enter(record, job_id)

    def _uninstall(self, name: str, record: NodeRecord) -> None:
        self.settle()
        for job_id, holds in record.jobs.items():
            if job_id not in record.outside:
                for hold in holds:
                    self.fleet.release(hold)
        record.outside.clear()
        self.fleet.remove_node(name)

    def _note_new_devices(self, record: NodeRecord, before: NodeJoined, now: NodeJoined, fact: str) -> None:
        for uuid in before.gpu_uuids:
            if uuid not in now.gpu_uuids:
                self._drop_device(uuid)
        if record.released:
            for uuid in now.gpu_uuids:
                if uuid not in before.gpu_uuids:
                    self.devices[uuid] = DeviceRecord(released=False, last_fact=fact)
                    self.pending[DEVICE, uuid] = None

    def _enter(self, record: NodeRecord, job_id: str) -> None:
        """Hold in the fleet what the job has on this node, all of it or nothing; nothing while the node is away."""
        if record.description is None:
            return
        holds = record.jobs[job_id]
        if record.whole == job_id:
            amounts = record.description.cpu_milli, record.description.memory_mib
            holds[:] = [Hold(*amounts, hold.slot) for hold in holds]
        for done, hold in enumerate(holds):
            try:
                self.fleet.hold(hold)
            except HoldError:
                for earlier in holds[:done]:
                    self.fleet.release(earlier)
                record.outside.add(job_id)
                self.misfits += 1
                return


def _hold_of(slot: Slot, gang: GangRequest) -> Hold:
    """What a slot holds; of a job that takes the whole node the amounts follow from the node."""
    shape = gang.groups[slot.group].shape
    place = Place(slot.group, slot.replica, slot.node, slot.devices, slot.gpu_milli)
    return Hold(0, 0, place) if shape.full_node else Hold(shape.cpu_milli, shape.memory_mib, place)


def _same(holds: Sequence[Hold], slots: Sequence[Slot]) -> bool:
    if len(holds) != len(slots):
        return False
    for hold, slot in zip(holds, slots, strict=True):
        place = hold.slot
        if place.node != slot.node or place.devices != slot.devices or place.gpu_milli != slot.gpu_milli:
            return False
    return True
