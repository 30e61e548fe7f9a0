"""Grants of nodes and devices: requests to drain (withhold) them, cordons, and the scheduler's answers.

A node takes new jobs when it is present, answers, was `released`, and no request to withhold it is in force. The
placement engine knows which nodes and devices are usable, but not why.
"""

from collections.abc import Callable

from muster.cluster.node_records import DEVICE, NODE, DeviceRecord, NodeRecord, NodeTable
from muster.cluster.withholds import is_closed, known_in, with_request
from muster.placement import Fleet
from muster.schemas.facts.node import Cordon, DrainRequest, GrantState, NodeJoined, WithholdRequested

OnChange = Callable[[str, str, NodeRecord | DeviceRecord], None]
"""Called with kind, name and record when the requests for a node or device may have changed."""


class Grants:
    """Folds which nodes and devices may be used, and updates the fleet."""

    def __init__(self, nodes: NodeTable, fleet: Fleet, *, on_change: OnChange | None = None) -> None:
        self.devices: dict[str, DeviceRecord] = {}
        """Devices whose grant differs from that of their node, by UUID. Read-only."""
        self.pending: dict[tuple[str, str], None] = {}
        """Kind and name of nodes and devices that wait for an answer, or may need one."""
        self.changes = 0
        """Grows whenever a node joined, left, or became usable or unusable."""
        self.freed_fact = ""
        """The newest fact by which something was freed or became usable."""
        self.freed_seq = 0
        """The sequence of that fact in the log."""
        self._nodes = nodes
        self._fleet = fleet
        self._on_change = on_change

    # --- requests and answers ------------------------------------------------------------------------------------

    def ask(self, kind: str, name: str, request: WithholdRequested, *, fact: str, by: str = "", at: int = 0) -> bool:
        """Add a request of the service `by`, made at `at` (ns). Return False if it is known already.

        A repeated request replaces the terms of the first, unless it was answered before.
        """
        record = self._record(kind, name)
        requests = with_request(record.wishes, request, fact=fact, by=by, at=at)
        if requests is None:
            return False
        record.wishes = requests
        self._apply(kind, name)
        return True

    def cordon(self, name: str, cordon: Cordon | None, *, fact: str, seq: int) -> bool:
        """Cordon a node for a user, or (None) uncordon it. Return False if that changes nothing."""
        record = self._nodes.record(name) if cordon is not None else self._nodes.get(name)
        if record is None or (record.cordon is None and cordon is None):
            return False
        record.cordon, record.last_fact = cordon, fact
        self._apply(NODE, name)
        self._nodes.forget(name)
        if cordon is None:
            self.note_freed(fact, seq)
        return True

    def answered(self, kind: str, name: str, request_id: str, *, fact: str = "") -> bool:
        """Fold the answer `withheld`; return False if it was given before.

        An unknown request was withdrawn while the answer was on its way: the answer stays valid, because the requester
        may already act on it.
        """
        if kind == NODE and name not in self._nodes:
            return False
        record = self._record(kind, name)
        known = known_in(record.wishes, request_id)
        if known is not None and known.answered:
            return False
        request = known or DrainRequest(request_id=request_id, fact=fact)
        others = tuple(other for other in record.wishes if other is not known)
        record.wishes = (*others, request.model_copy(update={"answered": True}))
        if known is None or known.from_at:
            self._apply(kind, name)
        else:
            self._changed(kind, name, record)
        self._forget(kind, name)
        return True

    def withdraw(
        self, kind: str, name: str, request_id: str, *, after_withheld: bool, fact: str, seq: int
    ) -> bool | None:
        """Withdraw a request; return None if there is no such request.

        False: it was answered before the requester knew it, and the answer stays valid. If an answered request is
        withdrawn, the node or device is released again once no other request remains.
        """
        record = self.record_of(kind, name)
        request = known_in(record.wishes, request_id) if record is not None else None
        if record is None or request is None:
            return None
        if request.answered and not after_withheld:
            return False
        record.wishes = tuple(other for other in record.wishes if other is not request)
        record.released = record.released and not request.answered
        record.last_fact = fact
        self._apply(kind, name)
        self._forget(kind, name)
        self.note_freed(fact, seq)
        return True

    def release(self, kind: str, name: str, *, fact: str, seq: int) -> bool:
        """Fold the answer `released`: usable, unless a request still waits. Return False if the name is not known."""
        record = self.record_of(kind, name)
        if record is None:
            return False
        record.released = True
        record.wishes = tuple(request for request in record.wishes if not request.answered)
        record.last_fact = fact
        self._apply(kind, name)
        self._forget(kind, name)
        self.note_freed(fact, seq)
        return True

    def detached(self, uuid: str) -> None:
        """Forget a detached device that no node shows, because no description will report that it is gone."""
        if not self._nodes.is_there(DEVICE, uuid):
            self._drop_device(uuid)

    def load(self, kind: str, name: str, state: GrantState) -> None:
        """Restore a grant from a checkpoint."""
        record = self._record(kind, name)
        record.released, record.wishes, record.last_fact = state.released, state.wishes, state.last_fact
        if isinstance(record, NodeRecord):
            record.cordon = state.cordon
        self._apply(kind, name)

    def wants_release(self, kind: str, name: str) -> bool:
        """Return whether only `released` is missing for its use."""
        record = self.record_of(kind, name)
        if record is None or record.released or is_closed(record.wishes):
            return False
        is_lost = isinstance(record, NodeRecord) and record.lost
        return not is_lost and self._nodes.is_there(kind, name)

    def record_of(self, kind: str, name: str) -> NodeRecord | DeviceRecord | None:
        """Return the record of a node or device; None if there is none."""
        return self._nodes.get(name) if kind == NODE else self.devices.get(name)

    def note_freed(self, fact: str, seq: int) -> None:
        """Note the fact by which something was freed; facts of a checkpoint come in any order."""
        if seq >= self.freed_seq:
            self.freed_fact, self.freed_seq = fact, seq

    # --- for the ledger, which folds that nodes come and go ---------------------------------------------------------

    def describe(self, name: str, now: NodeJoined | None) -> None:
        """Set a node's description, with the devices that it shows; None if it left."""
        for uuid in self._nodes.describe(name, now):
            self._drop_device(uuid)
        for uuid in now.present.values() if now is not None else ():
            if uuid in self.devices:
                self.pending[DEVICE, uuid] = None

    def expect_release(self, name: str, before: NodeJoined, now: NodeJoined, *, fact: str) -> None:
        """Let devices that a released node shows for the first time be released without a request."""
        known = set(before.present.values())
        for uuid in now.present.values():
            if uuid in known:
                continue
            record = self.devices.setdefault(uuid, DeviceRecord())
            record.released, record.last_fact = False, fact
            if self._nodes.node_of(DEVICE, uuid) not in ("", name):  # requests answered for the other node are done
                record.wishes = tuple(request for request in record.wishes if not request.answered)

    def node_entered(self, name: str, record: NodeRecord, description: NodeJoined) -> None:
        """Set in the fleet which devices of a new node may be used."""
        self.show_usable(name, record)
        if self.devices:
            for index, uuid in description.present.items():
                device = self.devices.get(uuid)
                if device is not None:
                    self._fleet.set_device_usable(name, index, device.usable, ill=device.is_ill)
                    self._changed(DEVICE, uuid, device)
        self._bar(name, record)

    def node_changed(self, name: str, record: NodeRecord, fact: str) -> None:
        """Check again the grant of a node that joined, is lost or rejoined."""
        record.last_fact = fact
        self.pending[NODE, name] = None
        self.changes += 1
        if record.description is not None:
            self.show_usable(name, record)

    def show_usable(self, name: str, record: NodeRecord) -> None:
        """Set in the fleet whether a node may be used."""
        self._fleet.set_usable(name, record.usable, ill=record.is_ill)

    # --- inside --------------------------------------------------------------------------------------------------

    def _record(self, kind: str, name: str) -> NodeRecord | DeviceRecord:
        return self._nodes.record(name) if kind == NODE else self.devices.setdefault(name, DeviceRecord())

    def _forget(self, kind: str, name: str) -> None:
        if kind == NODE:
            self._nodes.forget(name)

    def _changed(self, kind: str, name: str, record: NodeRecord | DeviceRecord) -> None:
        if self._on_change is not None:
            self._on_change(kind, name, record)

    def _apply(self, kind: str, name: str) -> None:
        """Let the requests for a node or device be answered, and take effect in the fleet."""
        record = self._record(kind, name)
        self.pending[kind, name] = None
        self.changes += 1
        self._changed(kind, name, record)
        if isinstance(record, NodeRecord):
            if record.description is not None:
                self.show_usable(name, record)
            return
        place = self._nodes.place_of(name)
        if place is not None:
            self._fleet.set_device_usable(*place, record.usable, ill=record.is_ill)
            self._bar(place[0], self._nodes[place[0]])
        if record.usable and not record.wishes:
            del self.devices[name]

    def _bar(self, name: str, record: NodeRecord) -> None:
        """Bar a node from new jobs while its kubelet might pick a drained device."""
        if record.is_by_count and record.description is not None:
            shown = [uuid for uuid in record.description.present.values() if uuid in self.devices]
            record.barred = {uuid: self.devices[uuid].is_ill for uuid in shown if is_closed(self.devices[uuid].wishes)}
            self.show_usable(name, record)
        elif record.barred:
            record.barred = {}
            self.show_usable(name, record)

    def _drop_device(self, uuid: str) -> None:
        """Forget a device that no node shows any more; an open request for it still gets an answer."""
        record = self.devices.get(uuid)
        if record is None:
            return
        record.wishes = tuple(request for request in record.wishes if not request.answered)
        if record.wishes:
            self.pending[DEVICE, uuid] = None
        else:
            del self.devices[uuid]
        self._changed(DEVICE, uuid, record)
