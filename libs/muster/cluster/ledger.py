"""The allocation ledger over the placement engine: the fleet's nodes and devices, and what jobs hold there.

The fleet keeps the sums; the ledger adds what the fleet does not know: holds on nodes that are not part of the cluster,
and holds that the fleet could not take as they are.

If the kubelet of a node picks the devices, the ledger keeps places too, but only their number matters. A hold keeps the
places that its fact names. If a new description of the node has fewer or other places, the hold moves to idle ones: the
same number of devices is held.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from muster.cluster.gangs import hold_of, slot_of
from muster.cluster.grants import Grants
from muster.cluster.node_records import NodeRecord, NodeTable
from muster.placement import DEVICE_MILLI, NO_SHARES, Fleet, GangRequest, Hold, HoldError, NodeShape, ShapeError
from muster.placement import Slot as Place
from muster.placement.node import Node
from muster.schemas.facts.node import NodeJoined
from muster.schemas.job import Slot


def elsewhere(node: Node, hold: Hold) -> Hold | None:
    """Return the hold at idle places of the node, usable ones and the tightest first; None if there are too few."""
    slot = hold.slot
    able = [
        (index in node.broken, node.idle[index] if slot.gpu_milli < DEVICE_MILLI else 0, index)
        for index in node.shape.devices
        if node.idle[index] >= slot.gpu_milli
    ]
    if not slot.devices or len(able) < len(slot.devices):
        return None
    places = sorted(index for *_, index in sorted(able)[: len(slot.devices)])
    return replace(hold, slot=replace(slot, devices=tuple(places)))


@dataclass(frozen=True, slots=True)
class LedgerListener:
    """Callbacks of a service that keeps more in the fleet than the holds of jobs. Each gets the name of the node."""

    before_hold: Callable[[str], None]
    """Called before a job's hold is entered on the node: free what is kept there."""
    idle_changed: Callable[[str], None]
    """Called after the idle amounts of the node changed."""
    before_reshape: Callable[[str], None]
    """Called before the node leaves the fleet or changes its shape: remove all holds except those of jobs."""


class Ledger:
    """Folds which nodes the fleet has, and what jobs hold there."""

    def __init__(self, nodes: NodeTable, fleet: Fleet, grants: Grants, listener: LedgerListener) -> None:
        self.misfits = 0
        """Descriptions and holds that the fleet could not take as they were."""
        self.moved: dict[str, None] = {}
        """Jobs whose holds have other places than their facts; the owner of the ledger clears it."""
        self._nodes = nodes
        self._fleet = fleet
        self._grants = grants
        self._listener = listener

    # --- holds -----------------------------------------------------------------------------------------------

    def take(self, job_id: str, slots: Sequence[Slot], gang: GangRequest) -> None:
        """Hold these slots for a job in addition to its present ones, also on nodes that have left the cluster."""
        holds = tuple(hold_of(slot, gang) for slot in slots)
        self.note(job_id, holds, gang)
        new = dict[str, list[Hold]]()
        for hold in holds:
            new.setdefault(hold.slot.node, []).append(hold)
        for name, added in new.items():
            self._enter(name, job_id, added)

    def note(self, job_id: str, holds: Sequence[Hold], gang: GangRequest) -> None:
        """Record that a job holds what the fleet holds already."""
        for hold in holds:
            record = self._nodes.record(hold.slot.node)
            record.jobs.setdefault(job_id, []).append(hold)
            if gang.groups[hold.slot.group].shape.full_node:
                record.whole = job_id

    def free(self, job_id: str, slots: Iterable[Slot], *, fact: str, seq: int) -> None:
        """Free all that a job holds; `slots` are on the nodes concerned."""
        self.moved.pop(job_id, None)
        for name in {slot.node: None for slot in slots}:
            record = self._nodes[name]
            holds = record.jobs.pop(job_id)
            if record.whole == job_id:
                record.whole = ""
            self._give(record, job_id, holds)
            self._mend(name, record)
            self._nodes.forget(name)
        self._grants.note_freed(fact, seq)

    # --- questions -------------------------------------------------------------------------------------------

    def placed(self, job_id: str, slots: Sequence[Slot]) -> tuple[Slot, ...]:
        """Return the slots of a job with their present places, where devices are held by count."""
        return tuple(self._slot_now(job_id, slot) if slot.gpus else slot for slot in slots)

    def slot_of(self, place: Place) -> Slot:
        """Return a hold's place as a slot of facts."""
        record = self._nodes.get(place.node)
        return slot_of(place, by_count=record is not None and record.is_by_count)

    # --- nodes -----------------------------------------------------------------------------------------------

    def join(self, name: str, description: NodeJoined, *, fact: str) -> None:
        """Add a node to the cluster, or update its description."""
        record = self._nodes.record(name)
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
                    self._grants.expect_release(name, known, description, fact=fact)
            self._grants.describe(name, description)
            self._install(name, record, description)
        self._grants.node_changed(name, record, fact)

    def set_lost(self, name: str, lost: bool, *, fact: str) -> bool:
        """Mark a node as lost, or as rejoined and to be released again. Return False if it is not in the cluster."""
        record = self._nodes.get(name)
        if record is None or record.description is None:
            return False
        record.lost, record.released = lost, False
        self._grants.node_changed(name, record, fact)
        return True

    def leave(self, name: str, *, fact: str) -> bool:
        """Remove a node from the cluster; jobs keep what they hold there. Return False if it is not part of it."""
        record = self._nodes.get(name)
        if record is None or record.description is None:
            return False
        self._uninstall(name, record)
        self._grants.describe(name, None)
        record.lost, record.released = False, False
        record.wishes = tuple(request for request in record.wishes if not request.answered)
        self._grants.node_changed(name, record, fact)
        self._nodes.forget(name)
        return True

    def load_node(self, name: str, description: NodeJoined, *, lost: bool, fact: str) -> None:
        """Restore a node from a checkpoint."""
        record = self._nodes.record(name)
        if record.description is not None:
            self._uninstall(name, record)
        self._grants.describe(name, description)
        record.lost = lost
        record.last_fact = record.last_fact or fact
        self._install(name, record, description)
        self._grants.node_changed(name, record, record.last_fact)

    # --- inside ----------------------------------------------------------------------------------------------

    def _slot_now(self, job_id: str, slot: Slot) -> Slot:
        record = self._nodes.get(slot.node)
        for hold in record.jobs.get(job_id, ()) if record is not None else ():
            if (hold.slot.group, hold.slot.replica) == (slot.group, slot.replica):
                return slot.model_copy(update={"places": hold.slot.devices})
        return slot

    def _give(self, record: NodeRecord, job_id: str, holds: Iterable[Hold]) -> None:
        if record.description is None:
            return
        for hold in holds:
            kept = record.cut.pop((job_id, hold), hold) if record.cut else hold
            if kept is not None:
                self._fleet.release(kept)
            self._listener.idle_changed(hold.slot.node)

    def _install(self, name: str, record: NodeRecord, description: NodeJoined) -> None:
        self._fleet.add_node(self._shape(name, description))
        self._grants.node_entered(name, record, description)
        self._enter_all(name, record)
        self._listener.idle_changed(name)

    def _shape(self, name: str, node: NodeJoined) -> NodeShape:
        """Return the node's shape for the engine; without its topology if that is inconsistent."""
        amounts = node.cpu_milli, node.memory_mib, len(node.gpu_uuids), node.gpu_model
        absent = frozenset(node.absent).intersection(range(len(node.gpu_uuids)))
        inside = () if node.kubelet_picks else node.device_domains  # the kubelet may pick devices of different domains
        sizes = node.share_milli
        try:
            shares = () if sizes is None else sizes or NO_SHARES
            return NodeShape(name, *amounts, node.domains, inside, absent, shares, node.parts_only)
        except ShapeError:
            self.misfits += 1
            return NodeShape(name, *amounts, absent=absent, parts_only=node.parts_only)

    def _uninstall(self, name: str, record: NodeRecord) -> None:
        self._listener.before_reshape(name)
        for job_id in record.jobs:
            for hold in record.entered(job_id):
                self._fleet.release(hold)
        record.cut.clear()
        self._fleet.remove_node(name)

    def _enter(self, name: str, job_id: str, added: list[Hold]) -> None:
        """Hold in the fleet what the job has on this node, as far as it exists; nothing while the node is away.

        `added`: the part of it that the fleet does not hold yet.
        """
        record = self._nodes[name]
        if record.description is None:
            return
        self._listener.before_hold(name)
        for hold in self._refused(record, record.description, job_id, added):
            self._enter_otherwise(record, record.description, job_id, hold)

    def _enter_all(self, name: str, record: NodeRecord) -> None:
        """Enter all holds of a node. If only counts matter, holds that keep their places come first."""
        node = record.description
        if node is None or not node.kubelet_picks:
            for job_id, holds in record.jobs.items():
                self._enter(name, job_id, holds)
            return
        self._listener.before_hold(name)
        for job_id, refused in [
            (job_id, self._refused(record, node, job_id, record.jobs[job_id])) for job_id in sorted(record.jobs)
        ]:
            for hold in refused:
                self._enter_otherwise(record, node, job_id, hold)

    def _refused(self, record: NodeRecord, node: NodeJoined, job_id: str, added: list[Hold]) -> list[Hold]:
        """Hold these as they are; return the holds that the fleet could not take."""
        if record.whole == job_id:
            holds = record.jobs[job_id]
            holds[:] = added = [Hold(node.cpu_milli, node.memory_mib, hold.slot) for hold in holds]
        refused = []
        for hold in added:
            try:
                self._fleet.hold(hold)
            except HoldError:
                refused.append(hold)
        return refused

    def _enter_otherwise(self, record: NodeRecord, node: NodeJoined, job_id: str, hold: Hold) -> None:
        """Hold the same number of devices at other places, if the kubelet picks them; else hold what exists."""
        moved = elsewhere(self._fleet.ledger.node(hold.slot.node), hold) if node.kubelet_picks else None
        if moved is not None and moved != hold:
            try:
                self._fleet.hold(moved)
            except HoldError:
                pass  # the hold lacks something other than its places
            else:
                holds = record.jobs[job_id]
                holds[holds.index(hold)] = moved
                self.moved[job_id] = None
                return
        self.misfits += 1
        record.cut[job_id, hold] = self._enter_part(node, hold)
        if record.is_overdrawn:
            self._grants.show_usable(hold.slot.node, record)

    def _mend(self, name: str, record: NodeRecord) -> None:
        """Enter holds again that were incomplete, after something was freed on a node whose kubelet picks.

        The freed hold may have been the last incomplete one; then the node takes jobs again.
        """
        node = record.description
        if node is None or not node.kubelet_picks:
            return
        for (job_id, hold), part in sorted(record.cut.items(), key=_by_place):
            if part is not None:
                self._fleet.release(part)
            del record.cut[job_id, hold]
            for refused in self._refused(record, node, job_id, [hold]):
                self._enter_otherwise(record, node, job_id, refused)
        if self._fleet.ledger.node(name).usable != record.usable:
            self._grants.show_usable(name, record)

    def _enter_part(self, node: NodeJoined, hold: Hold) -> Hold | None:
        """Hold the existing part, if devices or memory are gone; return None if another obstacle remains."""
        slot, left = hold.slot, self._fleet.ledger.node(hold.slot.node)
        devices = tuple(index for index in slot.devices if index in node.present)
        part = Hold(
            min(hold.cpu_milli, left.cpu_milli),
            min(hold.memory_mib, left.memory_mib),
            replace(slot, devices=devices, gpu_milli=slot.gpu_milli if devices else 0),
        )
        try:
            self._fleet.hold(part)
        except HoldError:
            return None
        return part


def _by_place(cut: tuple[tuple[str, Hold], Hold | None]) -> tuple[str, int, int]:
    (job_id, hold), _ = cut
    return job_id, hold.slot.group, hold.slot.replica
