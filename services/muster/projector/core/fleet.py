"""Node rows: description, schedulability, and allocated resources."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pydantic_core import to_json

from muster.cluster.node_reasons import node_reasons
from muster.cluster.withholds import OpenDrains, known_in, with_request
from muster.core.fact import Fact
from muster.projector.core.changes import Marks
from muster.schemas.facts import node as nodes
from muster.schemas.facts.node import Cordon, CordonRequested, NodeJoined
from muster.schemas.job import Slot
from muster.schemas.views import NodeReason, NodeView


@dataclass(slots=True)
class _OfSubject:
    """Requests and cordon of one node or device. Devices without requests have no entry."""

    wishes: OpenDrains = ()
    cordon: Cordon | None = None


@dataclass(slots=True)
class DrainRequests:
    """Drain requests of nodes and of devices (by uuid); only of those with any."""

    nodes: dict[str, _OfSubject] = field(default_factory=dict)
    devices: dict[str, _OfSubject] = field(default_factory=dict)

    def fold(self, fact: Fact) -> None:
        """Fold one fact about a node or device."""
        every = self.nodes if fact.kind == "node" else self.devices
        known = every.get(fact.subject_id) or _OfSubject()
        payload = fact.payload
        match payload:
            case nodes.WithholdRequested():
                asked = with_request(known.wishes, payload, fact=fact.id, by=fact.writer, at=fact.time)
                known.wishes = known.wishes if asked is None else asked
            case nodes.Withheld(request_id=request_id):
                request = known_in(known.wishes, request_id) or nodes.DrainRequest(request_id=request_id)
                others = tuple(one for one in known.wishes if one.request_id != request_id)
                known.wishes = (*others, request.model_copy(update={"answered": True}))
            case nodes.WithholdWithdrawn():
                request_now = known_in(known.wishes, payload.request_id)
                if request_now is not None and (payload.after_withheld or not request_now.answered):
                    known.wishes = tuple(one for one in known.wishes if one is not request_now)
            case nodes.Released() | nodes.NodeLeft():
                known.wishes = tuple(one for one in known.wishes if not one.answered)
            case nodes.GrantState():
                known.wishes, known.cordon = payload.wishes, payload.cordon
            case CordonRequested():
                known.cordon = _cordon(fact, payload)
        if known.wishes or known.cordon is not None:
            every[fact.subject_id] = known
        else:
            every.pop(fact.subject_id, None)

    def gone(self, uuid: str) -> None:
        """Remove the answered requests of a device that no node shows any more; others still get an answer."""
        known = self.devices.get(uuid)
        if known is not None:
            known.wishes = tuple(request for request in known.wishes if not request.answered)
            if not known.wishes:
                del self.devices[uuid]

    def cordon_of(self, node: str) -> Cordon | None:
        """Return the cordon by an operator; None without one."""
        known = self.nodes.get(node)
        return known.cordon if known is not None else None

    def reasons(
        self, node: str, uuids: tuple[str, ...], *, lost: bool, released: bool, is_held: bool
    ) -> tuple[NodeReason, ...]:
        """Return the reasons against using the node and its devices (uuids), now or later."""
        of_node = self.nodes.get(node) or _OfSubject()
        of_devices = {uuid: self.devices[uuid].wishes for uuid in uuids if uuid in self.devices} if self.devices else {}
        return node_reasons(
            cordon=of_node.cordon,
            wishes=of_node.wishes,
            devices=of_devices,
            lost=lost,
            released=released,
            is_held=is_held,
        )


def _cordon(fact: Fact, asked: CordonRequested) -> Cordon | None:
    if fact.name == "resume-forwarded":
        return None
    is_draining = fact.name == "drain-forwarded"
    return Cordon(principal=asked.principal, reason=asked.reason, draining=is_draining, since=fact.time, fact=fact.id)


Shape = tuple[str, int, int, int, tuple[str, ...]]
"""gpu_model, gpus, cpu_milli, memory_mib, topology levels (widest first, levels within the node last)."""


@dataclass(slots=True)
class _Held:
    """Allocated resources of one node. jobs: number of slots of each."""

    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    jobs: dict[str, int] = field(default_factory=dict)


class FleetRows:
    """Nodes of one cluster. Allocations are separate: a checkpoint may have a job before its node."""

    def __init__(self) -> None:
        self._rows: dict[str, NodeView] = {}
        self._held: dict[str, _Held] = {}
        self._granted: set[str] = set()
        self._conditions: dict[str, str] = {}  # of nodes that are not healthy
        self._withheld: dict[str, dict[str, None]] = {}  # by node, the requests it was drained for
        self._drains = DrainRequests()
        self._uuids: dict[str, tuple[str, ...]] = {}  # by node, its devices
        self._node_of: dict[str, str] = {}  # by device, its node
        self.marks = Marks(self._body)
        self._shapes: Counter[Shape] = Counter()
        self._shapes_dirty = False

    def __contains__(self, node: str) -> bool:
        return node in self._rows

    def model(self, node: str) -> str:
        """Return the model of the node's GPUs; "" for an unknown node."""
        row = self._rows.get(node)
        return "" if row is None else row.gpu_model

    def holders(self, node: str) -> tuple[str, ...]:
        """Return the jobs with resources on the node."""
        held = self._held.get(node)
        return () if held is None else tuple(held.jobs)

    def join(self, node: str, described: NodeJoined, *, cluster: str) -> None:
        """Add or update the node's description; only a grant makes it schedulable."""
        row = self._rows.get(node)
        if row is None:
            row = self._rows[node] = NodeView(name=node, cluster=cluster)
        else:
            self._count(row, -1)
        row.gpu_model = described.gpu_model
        row.gpus = len(described.present)
        row.cpu_milli = described.cpu_milli
        row.memory_mib = described.memory_mib
        row.domains = described.domains
        row.device_domains = described.device_domains
        row.group = described.group
        self._show(node, tuple(described.present.values()))
        self._count(row, +1)
        self.marks.touch(node)

    def leave(self, node: str) -> None:
        """Remove the node from the cluster."""
        row = self._rows.pop(node, None)
        if row is not None:
            self._count(row, -1)
        self._granted.discard(node)
        self._withheld.pop(node, None)
        self._conditions.pop(node, None)
        self._show(node, ())
        self.marks.touch(node)

    def close(self, fact: Fact) -> None:
        """Fold a fact that drains or cordons the node, now or later, or ends that."""
        self._drains.fold(fact)
        self._tell(fact.subject_id)

    def close_device(self, fact: Fact) -> None:
        """Fold the same kind of fact about a device."""
        self._drains.fold(fact)
        node = self._node_of.get(fact.subject_id)
        if node is not None:
            self.marks.touch(node)

    def judge(self, node: str, condition: str) -> None:
        """Set the node's phase in health, "" for healthy; also of a node that is not known yet."""
        if condition:
            self._conditions[node] = condition
        else:
            self._conditions.pop(node, None)
        self.marks.touch(node)

    def take_away(self, uuid: str) -> None:
        """Handle a detached device; a node that still shows it reports the detachment in its description."""
        if uuid not in self._node_of:
            self._drains.gone(uuid)

    def answers(self, node: str, *, lost: bool, reason: str) -> None:
        """Record that the node was lost or rejoined; the loss ended its grant, so it waits for the next one."""
        if lost:
            self._granted.discard(node)
        row = self._rows[node]
        row.lost = lost
        row.reason = reason or self._withheld_for(node)
        self.marks.touch(node)

    def release(self, node: str) -> None:
        """Record that the node is schedulable; also of a node that is not known yet."""
        self._granted.add(node)
        self._withheld.pop(node, None)
        self._tell(node)

    def withhold(self, node: str, requests: Iterable[str]) -> None:
        """Record that the node is drained for these requests; also of a node that is not known yet."""
        self._granted.discard(node)
        self._withheld.setdefault(node, {}).update(dict.fromkeys(requests))
        self._tell(node)

    def withdraw(self, node: str, request: str) -> None:
        """Remove a service's request; the node stays drained for others, and until it is released."""
        requests = self._withheld.get(node)
        if requests is not None and request in requests:
            del requests[request]
            self._tell(node)

    def refuse(self, node: str) -> None:
        """Record that the node is not schedulable without a request: it was not released (yet)."""
        self._granted.discard(node)
        self._tell(node)

    def _tell(self, node: str) -> None:
        row = self._rows.get(node)
        if row is not None and not row.lost:
            row.reason = self._withheld_for(node)
        self.marks.touch(node)

    def _show(self, node: str, uuids: tuple[str, ...]) -> None:
        for uuid in self._uuids.pop(node, ()):
            if self._node_of.get(uuid) == node:
                del self._node_of[uuid]
                if uuid not in uuids:
                    self._drains.gone(uuid)
        for uuid in uuids:
            if self._node_of.get(uuid, node) != node:
                self._drains.gone(uuid)  # what another node was asked to give back, it gave
            self._node_of[uuid] = node
        if uuids:
            self._uuids[node] = uuids

    def _withheld_for(self, node: str) -> str:
        requests, cordon = self._withheld.get(node), self._drains.cordon_of(node)
        if cordon is not None:
            what = "drained" if cordon.draining else "cordoned"
            return f"{what} by {cordon.principal}{f': {cordon.reason}' if cordon.reason else ''}"
        return f"withheld for {', '.join(requests)}" if requests else ""

    def hold(self, job_id: str, slots: Iterable[Slot], *, needs: tuple[tuple[int, int], ...], sign: int) -> None:
        """Allocate (sign 1) or free (-1) slots of a job. needs: (cpu_milli, memory_mib) by task group."""
        for slot in slots:
            held = self._held.get(slot.node)
            if held is None:
                held = self._held[slot.node] = _Held()
            cpu_milli, memory_mib = needs[slot.group] if slot.group < len(needs) else (0, 0)
            held.gpu_milli += sign * slot.gpu_milli_held
            held.cpu_milli += sign * cpu_milli
            held.memory_mib += sign * memory_mib
            count = held.jobs.get(job_id, 0) + sign
            if count > 0:
                held.jobs[job_id] = count
            else:
                held.jobs.pop(job_id, None)
                if not held.jobs:
                    del self._held[slot.node]
            self.marks.touch(slot.node)

    def take(self, changes: dict[str, bytes | None]) -> bytes | None:
        """Add the changed rows, encoded; return the shapes if they changed."""
        changes.update(self.marks.take_stored())
        if not self._shapes_dirty:
            return None
        self._shapes_dirty = False
        return to_json(sorted(self._shapes))

    def touch_all(self) -> None:
        """Mark all rows and the shapes to be written again."""
        self.marks.touch_stored(self._rows)
        self._shapes_dirty = True

    def _body(self, node: str) -> bytes | None:
        row = self._rows.get(node)
        return None if row is None else self._shown(row).encoded()

    def _shown(self, row: NodeView) -> NodeView:
        held = self._held.get(row.name)
        condition = self._conditions.get(row.name, "")
        released = row.name in self._granted
        usable = released and not row.lost and self._drains.cordon_of(row.name) is None
        reasons = self._drains.reasons(
            row.name, self._uuids.get(row.name, ()), lost=row.lost, released=released, is_held=held is not None
        )
        if held is None:
            return replace(row, usable=usable, reasons=reasons, condition=condition)
        return replace(
            row,
            usable=usable,
            reasons=reasons,
            condition=condition,
            gpu_milli_held=held.gpu_milli,
            cpu_milli_held=held.cpu_milli,
            memory_mib_held=held.memory_mib,
            jobs=tuple(held.jobs),
        )

    def _count(self, row: NodeView, step: int) -> None:
        levels = tuple(level for level, _ in (*row.domains, *row.device_domains))
        shape = (row.gpu_model, row.gpus, row.cpu_milli, row.memory_mib, levels)
        before = self._shapes[shape]
        self._shapes[shape] = before + step
        if before + step == 0:
            del self._shapes[shape]
        if before == 0 or before + step == 0:
            self._shapes_dirty = True
