"""A cluster's log folded into rows of jobs, nodes, queues and reservations."""

from dataclasses import replace
from typing import cast

from muster.core.fact import Fact
from muster.projector.core.changes import RING_BYTES_MAX, Changes, ViewChanges
from muster.projector.core.fleet import FleetRows
from muster.projector.core.job_facts import JobFacts
from muster.projector.core.job_table import ENDED_KEPT, JobTable
from muster.projector.core.node_facts import NodeFacts
from muster.projector.core.projection import Projection
from muster.projector.core.queues import Queues, Reservations
from muster.schemas.facts import queue as queues
from muster.schemas.facts import reservation as reservations
from muster.schemas.registry import STATE_NAME
from muster.schemas.subjects import cluster_log


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
