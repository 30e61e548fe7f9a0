"""The fleet's books: which job holds what, also on nodes that are not there, and what is proposed or kept.

The placement engine keeps the sums; this adds what it does not know: facts, grants, bookings, and holds on nodes that
are not part of the cluster.
"""

from collections.abc import Iterable, Mapping, Sequence

from muster.placement import GangRequest, Hold, HoldError, NodeShape, ShapeError
from muster.placement import Slot as Place
from muster.scheduler.core.bookings import Bookings
from muster.scheduler.core.node_records import DEVICE, NODE, DeviceRecord, NodeRecord, NodeRecords
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Slot

__all__ = ["DEVICE", "NODE", "Books", "DeviceRecord", "NodeRecord", "hold_of", "same_place"]


class Books(NodeRecords):
    """The fleet, its grants, and the proposals of the decision that is being made.

    A proposal is held in the fleet until it is confirmed by its own `placed` or withdrawn by `settle`, which must come
    before anything else looks at what is free. withdrawn: proposals that were ever taken back. misfits: descriptions
    and holds that the fleet could not take as they were.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bookings = Bookings(self.fleet)
        self.misfits = 0
        self.withdrawn = 0
        self._proposals: dict[str, tuple[Hold, ...]] = {}

    @property
    def proposals(self) -> Mapping[str, tuple[Hold, ...]]:
        """What is proposed, by job."""
        return self._proposals

    # --- proposals -------------------------------------------------------------------------------------------

    def propose(self, job_id: str, gang: GangRequest) -> tuple[Hold, ...] | None:
        """Find a place for a whole gang and keep it for the time being; None if there is none."""
        holds = self.fleet.find(gang)
        if holds is None:
            return None
        for hold in holds:
            self.fleet.hold(hold)
        self._proposals[job_id] = holds
        return holds

    def propose_at(self, job_id: str, holds: Sequence[Hold]) -> bool:
        """Keep exactly these places for a job for the time being; False if not all of them are idle and usable."""
        if not all(self._is_usable(hold.slot) for hold in holds):
            return False
        for done, hold in enumerate(holds):
            try:
                self.fleet.hold(hold)
            except HoldError:
                for earlier in holds[:done]:
                    self.fleet.withdraw(earlier)
                return False
        self._proposals[job_id] = tuple(holds)
        return True

    def withdraw(self, job_id: str) -> None:
        """Take one proposal back."""
        self.withdrawn += 1
        for hold in self._proposals.pop(job_id):
            self.fleet.release(hold)
            self.bookings.touch(hold.slot.node)

    def retract(self, job_id: str) -> None:
        """Take the newest proposal back, before anybody was refused because of it."""
        for hold in self._proposals.pop(job_id):
            self.fleet.withdraw(hold)
            self.bookings.touch(hold.slot.node)

    def settle(self) -> None:
        """Take back every proposal that was not confirmed, and keep all that is booked and idle."""
        for job_id in tuple(self._proposals):
            self.withdraw(job_id)
        self.bookings.recall()
        self.bookings.settle()

    # --- holds -----------------------------------------------------------------------------------------------

    def confirm(self, job_id: str, slots: Sequence[Slot], gang: GangRequest) -> None:
        """The job has these slots from now on, beside those that it had, also on nodes that are not there."""
        holds = self._proposals.pop(job_id, None)
        entered = holds is not None and _same(holds, slots)
        if holds is None or not entered:
            for hold in holds or ():
                self.fleet.release(hold)
                self.bookings.touch(hold.slot.node)
            self.withdrawn += holds is not None
            for other in tuple(self._proposals):
                self.withdraw(other)
            holds = tuple(hold_of(slot, gang) for slot in slots)
        for hold in holds:
            record = self._node(hold.slot.node)
            record.jobs.setdefault(job_id, []).append(hold)
            if gang.groups[hold.slot.group].shape.full_node:
                record.whole = job_id
        if not entered:
            new = dict[str, list[Hold]]()
            for hold in holds:
                new.setdefault(hold.slot.node, []).append(hold)
            for name, added in new.items():
                self._enter(name, job_id, added)

    def free(self, job_id: str, slots: Iterable[Slot], *, fact: str, seq: int) -> None:
        """The job holds nothing any more."""
        for name in {slot.node: None for slot in slots}:
            record = self.nodes[name]
            holds = record.jobs.pop(job_id)
            if record.whole == job_id:
                record.whole = ""
            if record.description is not None and job_id not in record.outside:
                self._give(holds)
            record.outside.discard(job_id)
            self._forget(name)
        self._came_free(fact, seq)

    def free_some(self, job_id: str, slots: Iterable[Slot], *, fact: str, seq: int) -> None:
        """The job gives up these of its slots. One that it does not hold is not missed."""
        for slot in slots:
            record = self.nodes.get(slot.node)
            holds = record.jobs.get(job_id, []) if record is not None else []
            hold = next((hold for hold in holds if same_place(hold.slot, slot)), None)
            if record is None or hold is None:
                continue
            if record.description is not None and job_id not in record.outside:
                self._give([hold])
            holds.remove(hold)
            if not holds:
                del record.jobs[job_id]
                record.outside.discard(job_id)
                record.whole = "" if record.whole == job_id else record.whole
                self._forget(slot.node)
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
        self.changes += 1
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

    # --- inside ----------------------------------------------------------------------------------------------

    def _is_usable(self, place: Place) -> bool:
        """Whether the node and the devices of this slot take new jobs."""
        record, node = self.nodes.get(place.node), self.fleet.ledger.nodes.get(place.node)
        return record is not None and record.usable and node is not None and node.broken.isdisjoint(place.devices)

    def _give(self, holds: Iterable[Hold]) -> None:
        for hold in holds:
            self.fleet.release(hold)
            self.bookings.touch(hold.slot.node)

    def _install(self, name: str, record: NodeRecord) -> None:
        shape = record.description
        assert shape is not None
        self.fleet.add_node(self._shape(name, shape))
        self.fleet.set_usable(name, record.usable)
        if self.devices:
            for index, uuid in enumerate(shape.gpu_uuids):
                device = self.devices.get(uuid)
                if device is not None:
                    self.fleet.set_device_usable(name, index, device.released and not device.wishes)
        for job_id, holds in record.jobs.items():
            self._enter(name, job_id, holds)
        self.bookings.touch(name)

    def _shape(self, name: str, node: NodeJoined) -> NodeShape:
        """The node as the engine knows it; without its topology if that contradicts itself."""
        amounts = node.cpu_milli, node.memory_mib, len(node.gpu_uuids), node.gpu_model
        try:
            return NodeShape(name, *amounts, node.domains, node.device_domains)
        except ShapeError:
            self.misfits += 1
            return NodeShape(name, *amounts)

    def _uninstall(self, name: str, record: NodeRecord) -> None:
        self.settle()
        self.bookings.give_way(name)
        for job_id, holds in record.jobs.items():
            if job_id not in record.outside:
                for hold in holds:
                    self.fleet.release(hold)
        record.outside.clear()
        self.fleet.remove_node(name)

    def _enter(self, name: str, job_id: str, added: list[Hold]) -> None:
        """Hold in the fleet what the job has on this node, all of it or nothing; nothing while the node is away.

        added: what of it the fleet does not hold yet.
        """
        record = self.nodes[name]
        if record.description is None or job_id in record.outside:
            return
        self.bookings.give_way(name)
        holds = record.jobs[job_id]
        if record.whole == job_id:
            amounts = record.description.cpu_milli, record.description.memory_mib
            holds[:] = added = [Hold(*amounts, hold.slot) for hold in holds]
        for done, hold in enumerate(added):
            try:
                self.fleet.hold(hold)
            except HoldError:
                for earlier in holds[: len(holds) - len(added) + done]:
                    self.fleet.release(earlier)
                record.outside.add(job_id)
                self.misfits += 1
                return


def hold_of(slot: Slot, gang: GangRequest) -> Hold:
    """What a slot holds; of a job that takes the whole node the amounts follow from the node."""
    shape = gang.groups[slot.group].shape
    place = Place(slot.group, slot.replica, slot.node, slot.devices, slot.gpu_milli)
    return Hold(0, 0, place) if shape.full_node else Hold(shape.cpu_milli, shape.memory_mib, place)


def same_place(place: Place, slot: Slot) -> bool:
    """Whether it is the same node, with the same part of the same devices."""
    return place.node == slot.node and place.devices == slot.devices and place.gpu_milli == slot.gpu_milli


def _same(holds: Sequence[Hold], slots: Sequence[Slot]) -> bool:
    return len(holds) == len(slots) and all(
        same_place(hold.slot, slot) for hold, slot in zip(holds, slots, strict=True)
    )
