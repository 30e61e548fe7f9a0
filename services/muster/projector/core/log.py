"""A cluster's log folded into rows of jobs, nodes, queues and reservations.

Facts of nodes and their devices folded into the rows of nodes.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from muster.core.fact import Fact
from muster.projector.core.changes import RING_BYTES_MAX, Changes, ViewChanges
from muster.projector.core.fleet import FleetRows
from muster.projector.core.job_facts import JobFacts
from muster.projector.core.job_table import ENDED_KEPT, JobTable
from muster.projector.core.projection import Anomalies, Projection
from muster.projector.core.queues import Queues, Reservations
from muster.schemas.facts import node as nodes
from muster.schemas.facts import queue as queues
from muster.schemas.facts import reservation as reservations
from muster.schemas.facts.device import DeviceDetached
from muster.schemas.facts.health import HealthPhase, UnitState
from muster.schemas.registry import STATE_NAME
from muster.schemas.subjects import cluster_log

_CLOSING = ("withhold-requested", "cordon-forwarded", "drain-forwarded", "resume-forwarded")
_CLOSING_DEVICES = ("withhold-requested", "withhold-withdrawn", "withheld", "released")

LOST = "lost"
"""ViewChanges as the reason where a loss gives none."""


class NodeFacts:
    """The folds of a cluster's facts of nodes. recount: what is done where a node turns out to be of another model."""

    def __init__(self, cluster: str, *, fleet: FleetRows, recount: Callable[[str], None], anomalies: Anomalies) -> None:
        self._cluster = cluster
        self._fleet = fleet
        self._recount = recount
        self._anomalies = anomalies
        self.folds: dict[tuple[str, str], Callable[[Fact], None]] = {
            ("node", "joined"): self._joined,
            ("node", "left"): self._left,
            ("node", "lost"): self._lost,
            ("node", "returned"): self._returned,
            ("node", "released"): self._released,
            **{("node", phase.value): self._judged for phase in HealthPhase},
            ("node", "withheld"): self._withheld,
            ("node", "withhold-withdrawn"): self._withdrawn,
            ("attachment", "detached"): self._detached,
            ("node", STATE_NAME): self._node_state,
            **{("node", name): self._drain for name in _CLOSING},
            **{("device", name): self._drain_device for name in (*_CLOSING_DEVICES, STATE_NAME)},
        }

    def _joined(self, fact: Fact) -> None:
        self._join(fact.subject_id, cast("nodes.NodeJoined", fact.payload))

    def _join(self, node: str, described: nodes.NodeJoined) -> None:
        model = self._fleet.model(node)
        self._fleet.join(node, described, cluster=self._cluster)
        if model != described.gpu_model:
            self._recount(node)

    def _left(self, fact: Fact) -> None:
        self._fleet.close(fact)
        self._fleet.leave(fact.subject_id)

    def _lost(self, fact: Fact) -> None:
        reason = cast("nodes.NodeLost", fact.payload).reason or LOST
        self._answers(fact.subject_id, lost=True, reason=reason)

    def _returned(self, fact: Fact) -> None:
        self._answers(fact.subject_id, lost=False, reason="")

    def _answers(self, node: str, *, lost: bool, reason: str) -> None:
        if node in self._fleet:
            self._fleet.answers(node, lost=lost, reason=reason)
        else:
            self._anomalies.count += 1

    def _drain(self, fact: Fact) -> None:
        """Somebody closes the node, or will, or opens it again."""
        self._fleet.close(fact)

    def _drain_device(self, fact: Fact) -> None:
        self._fleet.close_device(fact)

    def _detached(self, fact: Fact) -> None:
        self._fleet.take_away(cast("DeviceDetached", fact.payload).device_uuid)

    def _released(self, fact: Fact) -> None:
        self._fleet.close(fact)
        self._fleet.release(fact.subject_id)

    def _judged(self, fact: Fact) -> None:
        """Health's own word; what it means for jobs, the scheduler says."""
        self._fleet.judge(fact.subject_id, "" if fact.name == HealthPhase.HEALTHY else fact.name)

    def _withheld(self, fact: Fact) -> None:
        self._fleet.close(fact)
        self._fleet.withhold(fact.subject_id, (cast("nodes.Withheld", fact.payload).request_id,))

    def _withdrawn(self, fact: Fact) -> None:
        withdrawn = cast("nodes.WithholdWithdrawn", fact.payload)
        self._fleet.close(fact)
        if withdrawn.after_withheld:  # else what was withheld in the meantime stands
            self._fleet.withdraw(fact.subject_id, withdrawn.request_id)

    def _node_state(self, fact: Fact) -> None:
        match fact.payload:
            case nodes.NodeState() as state:
                self._join(fact.subject_id, state.description)
                self._fleet.answers(fact.subject_id, lost=state.lost, reason=_lost_reason(state))
            case nodes.GrantState() as grant:
                self._fleet.close(fact)
                if answered := _withheld_for(grant):
                    self._fleet.withhold(fact.subject_id, answered)
                elif grant.released:
                    self._fleet.release(fact.subject_id)
                else:
                    self._fleet.refuse(fact.subject_id)
            case UnitState(phase=phase):
                self._fleet.judge(fact.subject_id, "" if phase is HealthPhase.HEALTHY else phase.value)
            case _:
                self._anomalies.count += 1


def _lost_reason(state: nodes.NodeState) -> str:
    return (state.lost_reason or LOST) if state.lost else ""


def _withheld_for(grant: nodes.GrantState) -> tuple[str, ...]:
    """The requests that were answered; of an older scheduler, which says only that all of them were, all."""
    answered = tuple(wish.request_id for wish in grant.wishes if wish.answered)
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
        of_jobs = JobFacts(cluster, jobs=jobs, fleet=fleet, queues=held, anomalies=self._anomalies)
        of_nodes = NodeFacts(cluster, fleet=fleet, recount=of_jobs.recount, anomalies=self._anomalies)
        self._folds = {
            **of_jobs.folds,
            **of_nodes.folds,
            ("queue", "changed"): self._queue_changed,
            ("queue", STATE_NAME): self._queue_state,
            ("reservation", "booked"): self._booked,
            ("reservation", "ended"): self._reservation_ended,
            ("reservation", STATE_NAME): self._reservation_state,
        }

    def fold(self, fact: Fact) -> None:
        """Change the rows that the fact is about; facts that change none are passed by."""
        fold = self._folds.get((fact.kind, fact.name))
        if fold is not None:
            fold(fact)

    def take(self, *, facts_after: int) -> Changes:
        """What changed, with nodes, queues and reservations."""
        changes = super().take(facts_after=facts_after)
        changes.shapes = self._fleet.take(changes.nodes)
        self._queues.take(changes.queues)
        self._reservations.take(changes.reservations)
        return changes

    def take_all(self, *, rows_after: int) -> Changes:
        """Every row; nodes, queues and reservations always whole, since they are few."""
        self._fleet.touch_all()
        self._queues.touch_all()
        self._reservations.touch_all()
        return super().take_all(rows_after=rows_after)

    def watch(self, *, on: bool) -> None:
        """Also nodes, queues and reservations."""
        super().watch(on=on)
        for marks in (self._fleet.marks, self._queues.marks, self._reservations.marks):
            marks.watch(on=on)

    def take_shown(self, *, after: int) -> ViewChanges:
        """What changed, with nodes, queues and reservations."""
        return replace(
            super().take_shown(after=after),
            nodes=self._fleet.marks.take_shown(),
            queues=self._queues.marks.take_shown(),
            reservations=self._reservations.marks.take_shown(),
        )

    def has_node(self, name: str) -> bool:
        """Whether there is such a node."""
        return name in self._fleet

    def _queue_changed(self, fact: Fact) -> None:
        self._queues.declare(cast("queues.QueueChanged", fact.payload).spec, cluster=self.cluster)

    def _queue_state(self, fact: Fact) -> None:
        self._queues.declare(cast("queues.QueueState", fact.payload).spec, cluster=self.cluster)

    def _booked(self, fact: Fact) -> None:
        payload = cast("reservations.Booked", fact.payload)
        self._reservations.book(payload.spec, starts_at=payload.starts_at, cluster=self.cluster)

    def _reservation_ended(self, fact: Fact) -> None:
        self._anomalies.count += not self._reservations.end(fact.subject_id)

    def _reservation_state(self, fact: Fact) -> None:
        state = cast("reservations.ReservationState", fact.payload)
        if state.spec is not None:
            self._reservations.book(state.spec, starts_at=state.starts_at, cluster=self.cluster)
