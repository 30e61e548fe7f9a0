"""A cluster's log folded into rows of jobs, nodes, queues and reservations.

Facts of nodes and their devices folded into the rows of nodes.
"""

from collections.abc import Callable
from dataclasses import replace

from muster.core.fact import Fact
from muster.core.folding import Folds
from muster.projector.core.changes import RING_BYTES_MAX, Changes, ViewChanges
from muster.projector.core.fleet import FleetRows
from muster.projector.core.job_facts import JobFacts
from muster.projector.core.job_table import ENDED_KEPT, JobTable
from muster.projector.core.projection import Anomalies, Projection
from muster.projector.core.queues import Queues, Reservations
from muster.schemas.base import Payload
from muster.schemas.facts import node as nodes
from muster.schemas.facts import queue as queues
from muster.schemas.facts import reservation as reservations
from muster.schemas.facts.device import DeviceDetached
from muster.schemas.facts.health import HealthMoved, HealthPhase, UnitState
from muster.schemas.registry import STATE_NAME
from muster.schemas.subjects import cluster_log

LOST = "lost"
"""ViewChanges as the reason where a loss gives none."""


class NodeFacts:
    """The folds of a cluster's facts of nodes. recount: what is done where a node turns out to be of another model."""

    FOLDS = Folds["NodeFacts", None]()

    def __init__(self, cluster: str, *, fleet: FleetRows, recount: Callable[[str], None], anomalies: Anomalies) -> None:
        self._cluster = cluster
        self._fleet = fleet
        self._recount = recount
        self._anomalies = anomalies

    @FOLDS.on("node", "joined", nodes.NodeJoined)
    def _joined(self, fact: Fact, joined: nodes.NodeJoined) -> None:
        self._join(fact.subject_id, joined)

    def _join(self, node: str, described: nodes.NodeJoined) -> None:
        model = self._fleet.model(node)
        self._fleet.join(node, described, cluster=self._cluster)
        if model != described.gpu_model:
            self._recount(node)

    @FOLDS.on("node", "left", nodes.NodeLeft)
    def _left(self, fact: Fact, _: nodes.NodeLeft) -> None:
        self._fleet.close(fact)
        self._fleet.leave(fact.subject_id)

    @FOLDS.on("node", "lost", nodes.NodeLost)
    def _lost(self, fact: Fact, lost: nodes.NodeLost) -> None:
        self._answers(fact.subject_id, lost=True, reason=lost.reason or LOST)

    @FOLDS.on("node", "returned", nodes.NodeReturned)
    def _returned(self, fact: Fact, _: nodes.NodeReturned) -> None:
        self._answers(fact.subject_id, lost=False, reason="")

    def _answers(self, node: str, *, lost: bool, reason: str) -> None:
        if node in self._fleet:
            self._fleet.answers(node, lost=lost, reason=reason)
        else:
            self._anomalies.count += 1

    @FOLDS.on("node", ("withhold-requested", "cordon-forwarded", "drain-forwarded", "resume-forwarded"), Payload)
    def _drain(self, fact: Fact, _: Payload) -> None:
        """Record that a node is drained, will be, or is schedulable again."""
        self._fleet.close(fact)

    @FOLDS.on("device", ("withhold-requested", "withhold-withdrawn", "withheld", "released"), Payload)
    def _drain_device(self, fact: Fact, _: Payload) -> None:
        self._fleet.close_device(fact)

    @FOLDS.on("device", STATE_NAME, nodes.GrantState)
    def _device_state(self, fact: Fact, _: nodes.GrantState) -> None:
        self._fleet.close_device(fact)

    @FOLDS.on("attachment", "detached", DeviceDetached)
    def _detached(self, _fact: Fact, detached: DeviceDetached) -> None:
        self._fleet.take_away(detached.device_uuid)

    @FOLDS.on("node", "released", nodes.Released)
    def _released(self, fact: Fact, _: nodes.Released) -> None:
        self._fleet.close(fact)
        self._fleet.release(fact.subject_id)

    @FOLDS.on("node", tuple(HealthPhase), HealthMoved)
    def _judged(self, fact: Fact, _: HealthMoved) -> None:
        """Record health's verdict; the scheduler reports what it means for jobs."""
        self._fleet.judge(fact.subject_id, "" if fact.name == HealthPhase.HEALTHY else fact.name)

    @FOLDS.on("node", "withheld", nodes.Withheld)
    def _withheld(self, fact: Fact, withheld: nodes.Withheld) -> None:
        self._fleet.close(fact)
        self._fleet.withhold(fact.subject_id, (withheld.request_id,))

    @FOLDS.on("node", "withhold-withdrawn", nodes.WithholdWithdrawn)
    def _withdrawn(self, fact: Fact, withdrawn: nodes.WithholdWithdrawn) -> None:
        self._fleet.close(fact)
        if withdrawn.after_withheld:  # else grants in the meantime stay
            self._fleet.withdraw(fact.subject_id, withdrawn.request_id)

    @FOLDS.on("node", STATE_NAME, nodes.NodeState)
    def _node_state(self, fact: Fact, state: nodes.NodeState) -> None:
        self._join(fact.subject_id, state.description)
        self._fleet.answers(fact.subject_id, lost=state.lost, reason=_lost_reason(state))

    @FOLDS.on("node", STATE_NAME, nodes.GrantState)
    def _grant_state(self, fact: Fact, grant: nodes.GrantState) -> None:
        self._fleet.close(fact)
        if answered := _withheld_for(grant):
            self._fleet.withhold(fact.subject_id, answered)
        elif grant.released:
            self._fleet.release(fact.subject_id)
        else:
            self._fleet.refuse(fact.subject_id)

    @FOLDS.on("node", STATE_NAME, UnitState)
    def _unit_state(self, fact: Fact, unit: UnitState) -> None:
        self._fleet.judge(fact.subject_id, "" if unit.phase is HealthPhase.HEALTHY else unit.phase.value)


def _lost_reason(state: nodes.NodeState) -> str:
    return (state.lost_reason or LOST) if state.lost else ""


def _withheld_for(grant: nodes.GrantState) -> tuple[str, ...]:
    """Return the answered requests; all of them for a grant of an older scheduler, which lists none."""
    answered = tuple(request.request_id for request in grant.wishes if request.answered)
    return answered or (grant.withhold_requests if grant.withheld else ())


class ProjectorCore(Projection):
    """Every fact of one cluster's log. Work per fact grows with the slots it names, never with the fleet."""

    def __init__(self, cluster: str, *, ended_kept: int = ENDED_KEPT, ring_bytes: int = RING_BYTES_MAX) -> None:
        jobs, fleet, held = JobTable(ended_kept=ended_kept), FleetRows(), Queues()
        super().__init__(stream=cluster_log(cluster).stream, jobs=jobs, ring_bytes=ring_bytes)
        self.cluster = cluster
        self._fleet = fleet
        self._queues = held
        self._reservations = Reservations()
        of_jobs = self._of_jobs = JobFacts(cluster, jobs=jobs, fleet=fleet, queues=held, anomalies=self._anomalies)
        self._of_nodes = NodeFacts(cluster, fleet=fleet, recount=of_jobs.recount, anomalies=self._anomalies)

    _FOLDS = Folds["ProjectorCore", None]()
    _FOLDS.include(JobFacts.FOLDS, lambda self: self._of_jobs)
    _FOLDS.include(NodeFacts.FOLDS, lambda self: self._of_nodes)

    def fold(self, fact: Fact) -> None:
        """Change the rows that the fact is about; facts that change none are passed by."""
        self._FOLDS.apply(self, fact)

    def take(self, *, facts_after: int) -> Changes:
        """Return the changes, with nodes, queues and reservations."""
        changes = super().take(facts_after=facts_after)
        changes.shapes = self._fleet.take(changes.nodes)
        self._queues.take(changes.queues)
        self._reservations.take(changes.reservations)
        return changes

    def take_all(self, *, rows_after: int) -> Changes:
        """Return every row; nodes, queues and reservations always whole, since they are few."""
        self._fleet.touch_all()
        self._queues.touch_all()
        self._reservations.touch_all()
        return super().take_all(rows_after=rows_after)

    def watch(self, *, on: bool) -> None:
        """Start the view, also of nodes, queues and reservations."""
        super().watch(on=on)
        for marks in (self._fleet.marks, self._queues.marks, self._reservations.marks):
            marks.watch(on=on)

    def take_shown(self, *, after: int) -> ViewChanges:
        """Return the shown changes, with nodes, queues and reservations."""
        return replace(
            super().take_shown(after=after),
            nodes=self._fleet.marks.take_shown(),
            queues=self._queues.marks.take_shown(),
            reservations=self._reservations.marks.take_shown(),
        )

    def has_node(self, name: str) -> bool:
        """Return whether the node exists."""
        return name in self._fleet

    @_FOLDS.on("queue", "changed", queues.QueueChanged)
    def _queue_changed(self, _fact: Fact, changed: queues.QueueChanged) -> None:
        self._queues.declare(changed.spec, cluster=self.cluster)

    @_FOLDS.on("queue", STATE_NAME, queues.QueueState)
    def _queue_state(self, _fact: Fact, stored: queues.QueueState) -> None:
        self._queues.declare(stored.spec, cluster=self.cluster)

    @_FOLDS.on("reservation", "booked", reservations.Booked)
    def _booked(self, _fact: Fact, booked: reservations.Booked) -> None:
        self._reservations.book(booked.spec, starts_at=booked.starts_at, cluster=self.cluster)

    @_FOLDS.on("reservation", "ended", reservations.BookingEnded)
    def _reservation_ended(self, fact: Fact, _: reservations.BookingEnded) -> None:
        self._anomalies.count += not self._reservations.end(fact.subject_id)

    @_FOLDS.on("reservation", STATE_NAME, reservations.ReservationState)
    def _reservation_state(self, _fact: Fact, stored: reservations.ReservationState) -> None:
        if stored.spec is not None:
            self._reservations.book(stored.spec, starts_at=stored.starts_at, cluster=self.cluster)
