"""The fleet's books: which job holds what, also on nodes that are not there.

The placement engine keeps the sums; this adds what it does not know: facts, grants, and holds on nodes that are not
part of the cluster.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from muster.books.counted import elsewhere
from muster.books.gangs import hold_of, same_place
from muster.books.node_records import DEVICE, NODE, NodeRecord, NodeRecords
from muster.placement import NO_SHARES, GangRequest, Hold, HoldError, NodeShape, ShapeError
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Slot


class FleetBooks(NodeRecords):
    """Nodes with their grants, and what jobs hold there.

    misfits: descriptions and holds that the fleet could not take as they were. moved: jobs whose holds stand at other
    places than their facts say, until somebody follows. Who keeps more in the same fleet than jobs' holds overrides
    `_make_way`, `_touched` and `_before_reshape`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.misfits = 0
        self.moved: dict[str, None] = {}

    # --- holds -----------------------------------------------------------------------------------------------

    def take(self, job_id: str, slots: Sequence[Slot], gang: GangRequest) -> None:
        """The job has these slots from now on, beside those that it had, also on nodes that are not there."""
        holds = tuple(hold_of(slot, gang) for slot in slots)
        self._note_holds(job_id, holds, gang)
        new = dict[str, list[Hold]]()
        for hold in holds:
            new.setdefault(hold.slot.node, []).append(hold)
        for name, added in new.items():
            self._enter(name, job_id, added)

    def free(self, job_id: str, slots: Iterable[Slot], *, fact: str, seq: int) -> None:
        """The job holds nothing any more."""
        self.picked.pop(job_id, None)
        self.moved.pop(job_id, None)
        for name in {slot.node: None for slot in slots}:
            record = self.nodes[name]
            holds = record.jobs.pop(job_id)
            if record.whole == job_id:
                record.whole = ""
            self._give(record, job_id, holds)
            self._mend(name, record)
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
            self._give(record, job_id, [hold])
            holds.remove(hold)
            self._mend(slot.node, record)
            if not holds:
                del record.jobs[job_id]
                record.whole = "" if record.whole == job_id else record.whole
                self._forget(slot.node)
        self._came_free(fact, seq)

    def placed(self, job_id: str, slots: Sequence[Slot]) -> tuple[Slot, ...]:
        """The slots of a job, with the places at which the books keep those that are held by count."""
        return tuple(self._slot_now(job_id, slot) if slot.gpus else slot for slot in slots)

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
                if record.released:
                    self._expect_release(name, known, description, fact=fact)
            self._show(name, known, description)
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
        self._show(name, record.description, None)
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
        self._show(name, record.description, description)
        record.description, record.lost = description, lost
        record.last_fact = record.last_fact or fact
        self._install(name, record)
        self._touch(name, record, record.last_fact)

    # --- for who keeps more in the same fleet ------------------------------------------------------------------

    def _make_way(self, name: str) -> None:
        """A job's hold is to be entered on this node: whatever else is kept there goes."""

    def _touched(self, name: str) -> None:
        """What is idle on this node is another amount now."""

    def _before_reshape(self, name: str) -> None:
        """The node is about to leave the fleet, or to be another shape: only jobs may hold something there."""

    # --- inside ----------------------------------------------------------------------------------------------

    def _slot_now(self, job_id: str, slot: Slot) -> Slot:
        record = self.nodes.get(slot.node)
        for hold in record.jobs.get(job_id, ()) if record is not None else ():
            if (hold.slot.group, hold.slot.replica) == (slot.group, slot.replica):
                return slot.model_copy(update={"places": hold.slot.devices})
        return slot

    def _note_holds(self, job_id: str, holds: Sequence[Hold], gang: GangRequest) -> None:
        for hold in holds:
            record = self._node(hold.slot.node)
            record.jobs.setdefault(job_id, []).append(hold)
            if gang.groups[hold.slot.group].shape.full_node:
                record.whole = job_id

    def _give(self, record: NodeRecord, job_id: str, holds: Iterable[Hold]) -> None:
        if record.description is None:
            return
        for hold in holds:
            kept = record.cut.pop((job_id, hold), hold) if record.cut else hold
            if kept is not None:
                self.fleet.release(kept)
            self._touched(hold.slot.node)

    def _install(self, name: str, record: NodeRecord) -> None:
        shape = record.description
        assert shape is not None
        self.fleet.add_node(self._shape(name, shape))
        self.fleet.set_usable(name, record.usable, ill=record.is_ill)
        if self.devices:
            for index, uuid in shape.present.items():
                device = self.devices.get(uuid)
                if device is not None:
                    self.fleet.set_device_usable(name, index, device.usable, ill=device.is_ill)
                    self._asked(DEVICE, uuid)
        self._bar(record, name)
        self._enter_all(name, record)
        self._touched(name)

    def _shape(self, name: str, node: NodeJoined) -> NodeShape:
        """The node as the engine knows it; without its topology if that contradicts itself."""
        amounts = node.cpu_milli, node.memory_mib, len(node.gpu_uuids), node.gpu_model
        absent = frozenset(node.absent).intersection(range(len(node.gpu_uuids)))
        inside = () if node.kubelet_picks else node.device_domains  # it may pick devices that stand apart
        sizes = node.share_milli
        try:
            shares = () if sizes is None else sizes or NO_SHARES
            return NodeShape(name, *amounts, node.domains, inside, absent, shares, node.parts_only)
        except ShapeError:
            self.misfits += 1
            return NodeShape(name, *amounts, absent=absent, parts_only=node.parts_only)

    def _uninstall(self, name: str, record: NodeRecord) -> None:
        self._before_reshape(name)
        for job_id in record.jobs:
            for hold in record.entered(job_id):
                self.fleet.release(hold)
        record.cut.clear()
        self.fleet.remove_node(name)

    def _enter(self, name: str, job_id: str, added: list[Hold]) -> None:
        """Hold in the fleet what the job has on this node, as far as that is there; nothing while the node is away.

        added: what of it the fleet does not hold yet.
        """
        record = self.nodes[name]
        if record.description is None:
            return
        self._make_way(name)
        for hold in self._refused(record, record.description, job_id, added):
            self._enter_otherwise(record, record.description, job_id, hold)

    def _enter_all(self, name: str, record: NodeRecord) -> None:
        """As `_enter`, of all that is held there. Where only counts matter, who keeps its places comes first."""
        node = record.description
        if node is None or not node.kubelet_picks:
            for job_id, holds in record.jobs.items():
                self._enter(name, job_id, holds)
            return
        self._make_way(name)
        for job_id, refused in [
            (job_id, self._refused(record, node, job_id, record.jobs[job_id])) for job_id in sorted(record.jobs)
        ]:
            for hold in refused:
                self._enter_otherwise(record, node, job_id, hold)

    def _refused(self, record: NodeRecord, node: NodeJoined, job_id: str, added: list[Hold]) -> list[Hold]:
        """Hold these as they are; returns those that the fleet could not take."""
        if record.whole == job_id:
            holds = record.jobs[job_id]
            holds[:] = added = [Hold(node.cpu_milli, node.memory_mib, hold.slot) for hold in holds]
        refused = []
        for hold in added:
            try:
                self.fleet.hold(hold)
            except HoldError:
                refused.append(hold)
        return refused

    def _enter_otherwise(self, record: NodeRecord, node: NodeJoined, job_id: str, hold: Hold) -> None:
        """Hold as many devices at other places, where the kubelet picks them; else what is there of it."""
        moved = elsewhere(self.fleet.ledger.node(hold.slot.node), hold) if node.kubelet_picks else None
        if moved is not None and moved != hold:
            try:
                self.fleet.hold(moved)
            except HoldError:
                pass  # it is not its places that it lacks
            else:
                holds = record.jobs[job_id]
                holds[holds.index(hold)] = moved
                self.moved[job_id] = None
                return
        self.misfits += 1
        record.cut[job_id, hold] = self._enter_part(node, hold)
        if record.is_overdrawn:
            self.fleet.set_usable(hold.slot.node, record.usable, ill=record.is_ill)

    def _mend(self, name: str, record: NodeRecord) -> None:
        """Something came free where the kubelet picks: what could not be held whole before perhaps can be now.

        What came free may itself have been the last that was not held whole; then the node takes jobs again, too.
        """
        node = record.description
        if node is None or not node.kubelet_picks:
            return
        for (job_id, hold), part in sorted(record.cut.items(), key=_by_place):
            if part is not None:
                self.fleet.release(part)
            del record.cut[job_id, hold]
            for refused in self._refused(record, node, job_id, [hold]):
                self._enter_otherwise(record, node, job_id, refused)
        if self.fleet.ledger.node(name).usable != record.usable:
            self.fleet.set_usable(name, record.usable, ill=record.is_ill)

    def _enter_part(self, node: NodeJoined, hold: Hold) -> Hold | None:
        """Hold what is there of it, where devices or memory are gone; None if that is not what was wrong with it."""
        slot, left = hold.slot, self.fleet.ledger.node(hold.slot.node)
        devices = tuple(index for index in slot.devices if index in node.present)
        part = Hold(
            min(hold.cpu_milli, left.cpu_milli),
            min(hold.memory_mib, left.memory_mib),
            replace(slot, devices=devices, gpu_milli=slot.gpu_milli if devices else 0),
        )
        try:
            self.fleet.hold(part)
        except HoldError:
            return None
        return part


def _by_place(cut: tuple[tuple[str, Hold], Hold | None]) -> tuple[str, int, int]:
    (job_id, hold), _ = cut
    return job_id, hold.slot.group, hold.slot.replica
