"""Who may hold a node or device: what is known of each, and who asked that nobody does.

A node takes new jobs when it is present, answers, was `released`, and nobody asked to withhold it. The placement
engine is told which nodes and devices are usable; it does not know why.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from muster.books.gangs import slot_of
from muster.books.withholds import is_closed, is_doubted, known_in, with_request
from muster.placement import Fleet, Hold
from muster.placement import Slot as Place
from muster.schemas.facts.cordons import Cordon
from muster.schemas.facts.node import GrantState, NodeJoined, WithholdRequested, WithholdWish
from muster.schemas.job import Slot

NODE, DEVICE = "node", "device"


@dataclass(slots=True)
class NodeRecord:
    """One node. description: None while it is not part of the cluster.

    barred: its devices that somebody asked to withhold, where the kubelet picks and might pick them, and whether they
    are ill. cordon: by a person. jobs: who holds what here. cut: by job and hold what the fleet took of it instead,
    None: nothing; only of holds that it could not take as they are (their devices are gone). whole: the job that has
    the node as one piece.
    """

    description: NodeJoined | None = None
    lost: bool = False
    released: bool = False
    wishes: tuple[WithholdWish, ...] = ()
    cordon: Cordon | None = None
    barred: dict[str, bool] = field(default_factory=dict)
    jobs: dict[str, list[Hold]] = field(default_factory=dict)
    cut: dict[tuple[str, Hold], Hold | None] = field(default_factory=dict)
    whole: str = ""
    last_fact: str = ""

    @property
    def usable(self) -> bool:
        """Whether it takes new jobs."""
        is_free = self.description is not None and self.released and not self.lost and self.cordon is None
        return is_free and not is_closed(self.wishes) and not self.barred and not self.is_overdrawn

    @property
    def is_overdrawn(self) -> bool:
        """Whether more is held than the node has, where the kubelet picks: then what looks idle is not."""
        return bool(self.cut) and self.is_by_count

    @property
    def is_by_count(self) -> bool:
        """Whether the kubelet picks its devices, so that what is held there is a number of them."""
        return self.description is not None and self.description.kubelet_picks

    @property
    def is_ill(self) -> bool:
        """Whether something is wrong with it, if it is not usable: else it waits for `released`, or is about to go."""
        return self.lost or self.cordon is not None or is_doubted(self.wishes) or any(self.barred.values())

    def entered(self, job_id: str) -> Sequence[Hold]:
        """What the fleet has of the job's holds here; nothing while the node is not part of the cluster."""
        if self.description is None:
            return ()
        holds = self.jobs.get(job_id, ())
        if not self.cut:
            return holds
        kept = (self.cut.get((job_id, hold), hold) for hold in holds)
        return [hold for hold in kept if hold is not None]


@dataclass(slots=True)
class DeviceRecord:
    """A device that is not as its node: new and not yet released, or withheld. Other devices have no record."""

    released: bool = True
    wishes: tuple[WithholdWish, ...] = ()
    last_fact: str = ""

    @property
    def usable(self) -> bool:
        """Whether it takes new jobs."""
        return self.released and not is_closed(self.wishes)

    @property
    def is_ill(self) -> bool:
        """As of a node."""
        return is_doubted(self.wishes)


class NodeRecords:
    """Nodes, devices and their grants.

    picked: devices that the kubelet picked for a job, as far as they were observed. pending: (kind, name) whose grant
    waits for an answer, or may need one. changes: grows whenever a node came, went, or may be used or not. freed_fact:
    by which something came free.
    """

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.nodes: dict[str, NodeRecord] = {}
        self.devices: dict[str, DeviceRecord] = {}
        self.picked: dict[str, frozenset[str]] = {}
        self.pending: dict[tuple[str, str], None] = {}
        self.changes = 0
        self.freed_fact = ""
        self.freed_seq = 0
        self._places: dict[str, tuple[str, int]] = {}

    def ask(self, kind: str, name: str, wish: WithholdRequested, *, fact: str, by: str = "", at: int = 0) -> bool:
        """The service `by` wants, at `at` (ns), nothing new on the node or device. False if that is known already.

        The same request once more changes how it is asked, unless it was answered before.
        """
        record = self._grant(kind, name)
        wishes = with_request(record.wishes, wish, fact=fact, by=by, at=at)
        if wishes is None:
            return False
        record.wishes = wishes
        self._apply_grant(kind, name)
        return True

    def cordon(self, name: str, cordon: Cordon | None, *, fact: str, seq: int) -> bool:
        """A person closes the node, or (None) wants it used again. False if that changes nothing."""
        record = self._node(name) if cordon is not None else self.nodes.get(name)
        if record is None or (record.cordon is None and cordon is None):
            return False
        record.cordon, record.last_fact = cordon, fact
        self._apply_grant(NODE, name)
        self._forget(name)
        if cordon is None:
            self._came_free(fact, seq)
        return True

    def answered(self, kind: str, name: str, request_id: str, *, fact: str = "") -> bool:
        """`withheld` was said; False if it had been before.

        A request that is not known was withdrawn while the answer was on its way: the answer stands, for who asked may
        already act on it.
        """
        if kind == NODE and name not in self.nodes:
            return False
        record = self._grant(kind, name)
        known = known_in(record.wishes, request_id)
        if known is not None and known.answered:
            return False
        wish = known or WithholdWish(request_id=request_id, fact=fact)
        others = tuple(other for other in record.wishes if other is not known)
        record.wishes = (*others, wish.model_copy(update={"answered": True}))
        if known is None or known.from_at:
            self._apply_grant(kind, name)
        else:
            self._asked(kind, name)
        if isinstance(record, NodeRecord):
            self._forget(name)
        return True

    def withdraw_wish(
        self, kind: str, name: str, request_id: str, *, after_withheld: bool, fact: str, seq: int
    ) -> bool | None:
        """Who asked to withhold asks no longer; None if there is no such request.

        False: it was answered, and who asked did not know that: the answer stands. An answer that is given back leaves
        the node or device to be released anew, once nobody else asks.
        """
        record = self._known_grant(kind, name)
        wish = known_in(record.wishes, request_id) if record is not None else None
        if record is None or wish is None:
            return None
        if wish.answered and not after_withheld:
            return False
        record.wishes = tuple(other for other in record.wishes if other is not wish)
        record.released = record.released and not wish.answered
        record.last_fact = fact
        self._apply_grant(kind, name)
        if isinstance(record, NodeRecord):
            self._forget(name)
        self._came_free(fact, seq)
        return True

    def take_away(self, uuid: str) -> None:
        """The fabric took a device away. One that no node shows is not heard of again by a node's description."""
        if uuid not in self._places:
            self._drop_device(uuid)

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
        if isinstance(record, NodeRecord):
            record.cordon = state.cordon
        self._apply_grant(kind, name)

    def wants_release(self, kind: str, name: str) -> bool:
        """Whether nothing but `released` is missing for its use."""
        if kind == NODE:
            node = self.nodes.get(name)
            is_there = node is not None and node.description is not None
            return is_there and node is not None and not (node.released or node.lost or is_closed(node.wishes))
        device = self.devices.get(name)
        if device is None or device.released or is_closed(device.wishes):
            return False
        return self.place_of(name) is not None

    def pick(self, job_id: str, slots: Iterable[Slot], uuids: Iterable[str]) -> tuple[str, ...]:
        """The job was seen with these devices; those that are kept of it: none where the scheduler picked them."""
        picked = tuple(uuids) if any(slot.gpus for slot in slots) else ()
        if picked:
            self.picked[job_id] = frozenset(picked)
        return picked

    def holders(self, kind: str, name: str) -> tuple[str, ...]:
        """Jobs that hold something there, also what they grow into.

        Where the kubelet picks, a device is held by whom it was seen with, and by all whose devices nobody saw.
        """
        place = self.place_of(name) if kind == DEVICE else (name, -1)
        record = self.nodes.get(place[0]) if place is not None else None
        if place is None or record is None:
            return ()
        if kind == NODE:
            return tuple(sorted(record.jobs))
        jobs = record.jobs.items()
        if record.is_by_count:
            return tuple(sorted(job_id for job_id, holds in jobs if self._may_have(job_id, holds, name)))
        return tuple(sorted(job_id for job_id, holds in jobs if any(place[1] in hold.slot.devices for hold in holds)))

    def devices_held(self, record: NodeRecord) -> frozenset[int]:
        """Indexes of devices of a node that are held, or may be: where the kubelet picked some that nobody saw, all."""
        if not record.is_by_count or record.description is None:
            jobs = record.jobs.values()
            return frozenset(
                index for holds in jobs for hold in holds if hold.slot.gpu_milli for index in hold.slot.devices
            )
        present = record.description.present.items()
        return frozenset(
            index
            for index, uuid in present
            if any(self._may_have(job_id, holds, uuid) for job_id, holds in record.jobs.items())
        )

    def _may_have(self, job_id: str, holds: Iterable[Hold], uuid: str) -> bool:
        held = sum(len(hold.slot.devices) for hold in holds)
        picked = self.picked.get(job_id, frozenset())
        is_known = len(picked) >= held and all(one in self._places for one in picked)
        return bool(held) and (not is_known or uuid in picked)

    def place_of(self, uuid: str) -> tuple[str, int] | None:
        """Node and index of a device that a node shows."""
        return self._places.get(uuid)

    def slot_of(self, place: Place) -> Slot:
        """A hold's place as facts have it."""
        record = self.nodes.get(place.node)
        return slot_of(place, by_count=record is not None and record.is_by_count)

    def is_there(self, kind: str, name: str) -> bool:
        """Whether the node is part of the cluster, or a node shows the device."""
        if kind == DEVICE:
            return name in self._places
        record = self.nodes.get(name)
        return record is not None and record.description is not None

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
        self._asked(kind, name)
        if kind == NODE:
            record = self.nodes[name]
            if record.description is not None:
                self.fleet.set_usable(name, record.usable, ill=record.is_ill)
            return
        device = self.devices[name]
        place = self.place_of(name)
        if place is not None:
            self.fleet.set_device_usable(*place, device.usable, ill=device.is_ill)
            self._bar(self.nodes[place[0]], place[0])
        if device.usable and not device.wishes:
            del self.devices[name]

    def _asked(self, kind: str, name: str) -> None:
        """What is asked of the node or device may be another thing now; for who keeps more in the same fleet."""

    def _bar(self, record: NodeRecord, name: str) -> None:
        """Nothing new on a node whose kubelet might pick a device that somebody asked to withhold."""
        if record.is_by_count and record.description is not None:
            shown = [uuid for uuid in record.description.present.values() if uuid in self.devices]
            record.barred = {uuid: self.devices[uuid].is_ill for uuid in shown if is_closed(self.devices[uuid].wishes)}
            self.fleet.set_usable(name, record.usable, ill=record.is_ill)
        elif record.barred:
            record.barred = {}
            self.fleet.set_usable(name, record.usable, ill=record.is_ill)

    def _touch(self, name: str, record: NodeRecord, fact: str) -> None:
        record.last_fact = fact
        self.fleet.set_usable(name, record.usable, ill=record.is_ill)
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
        self._asked(DEVICE, uuid)

    def _show(self, name: str, before: NodeJoined | None, now: NodeJoined | None) -> None:
        """The node shows other devices from now on; None: it is not there."""
        shown = now.present if now is not None else {}
        if before is not None:
            for uuid in set(before.present.values()).difference(shown.values()):
                if self._places[uuid][0] == name:  # else another node shows it already
                    del self._places[uuid]
                    self._drop_device(uuid)
        for index, uuid in shown.items():
            self._places[uuid] = (name, index)
            if uuid in self.devices:
                self.pending[DEVICE, uuid] = None

    def _expect_release(self, name: str, before: NodeJoined, now: NodeJoined, *, fact: str) -> None:
        """Devices that a released node shows for the first time have to be released by themselves."""
        known = set(before.present.values())
        for uuid in now.present.values():
            if uuid in known:
                continue
            record = self.devices.setdefault(uuid, DeviceRecord())
            record.released, record.last_fact = False, fact
            if self._places.get(uuid, (name, 0))[0] != name:  # what another node was asked to give back, it gave
                record.wishes = tuple(wish for wish in record.wishes if not wish.answered)

    def _came_free(self, fact: str, seq: int) -> None:
        if seq >= self.freed_seq:
            self.freed_fact, self.freed_seq = fact, seq

    def _forget(self, name: str) -> None:
        record = self.nodes[name]
        if record.description is None and not record.wishes and not record.jobs and record.cordon is None:
            del self.nodes[name]
