"""One decision: which jobs are placed, stopped, ended and reported as unschedulable, and which nodes are granted.

Every part is bounded by a count, because a core has no clock; the next decision does the rest, and `Requeue.more` asks
for it. The order of the drafts is the order in the log: `queued` of a job comes before its `placed`.
"""

from dataclasses import dataclass

from muster.core import Draft, Instant
from muster.scheduler.core.admit.arrivals import queue_changes, queued_arrivals, refused_arrivals
from muster.scheduler.core.explain.summary import HEARTBEAT_S, summary
from muster.scheduler.core.explain.why import Explanations
from muster.scheduler.core.fold.updates import lift_exclusions
from muster.scheduler.core.lifecycle.follow_ups import follow_ups, pages_are_read
from muster.scheduler.core.lifecycle.preflight import PlanOf
from muster.scheduler.core.place.backfill import Backfill
from muster.scheduler.core.place.growth import Growth
from muster.scheduler.core.place.placements import Placements
from muster.scheduler.core.place.reserved import ReservedPlaces
from muster.scheduler.core.preempt.clearing import Clearing
from muster.scheduler.core.preempt.defragmentation import Defragmentation
from muster.scheduler.core.preempt.drain import Vacating, grant_answers
from muster.scheduler.core.preempt.preemption import TRIAL_MS_PER_S, Preemptions
from muster.scheduler.core.requeue import Requeue
from muster.scheduler.core.reserve.plans import SURVEY_S, Plans
from muster.scheduler.core.reserve.requests import ReservationChanges
from muster.scheduler.core.state import State
from muster.schemas.facts.control import CheckpointRequested


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the scheduler, from the settings.

    Costly searches are limited by time, which passes quickly in a simulation.
    """

    unschedulable_interval_s: float = 5.0
    """Minimum time between two `unschedulable` reports of one job."""
    checkpoint_every_facts: int = 100_000
    """Folded facts between two checkpoints."""
    may_grow: bool = False
    """Whether scaling may add nodes and devices, so that a job that fits no present node may wait for them."""
    trial_ms_per_s: float = TRIAL_MS_PER_S
    """Time for trials of preemption, in milliseconds per second."""
    survey_every_s: float = SURVEY_S
    """Minimum time between two searches for reservations or defragmentation, and between two resizes of a job."""
    heartbeat_s: float = HEARTBEAT_S
    """Interval of heartbeats to a federation that may give jobs to other clusters."""
    blame_s: float = 0.0
    """How long an error of a job is not judged; see `follow_ups`."""
    blame_unread: bool = True
    """Whether `blame_s` also applies while GPU pages were not read lately."""
    plan_of: PlanOf | None = None
    """Returns the checks of a job before its first step; None: no job has checks."""


class Cycle:
    """Makes decisions: runs the policies in order. `requeue` says when the next decision is needed."""

    def __init__(self, state: State, limits: Limits) -> None:
        self.requeue = Requeue()
        self._state = state
        self._checkpoint_every_facts = limits.checkpoint_every_facts
        self._blame_s, self._blame_unread = limits.blame_s, limits.blame_unread
        self._heartbeat_s = limits.heartbeat_s
        self._placements = Placements(state, self.requeue, plan_of=limits.plan_of)
        self._reservations = ReservationChanges(state, self.requeue)
        self._vacating = Vacating(state, self.requeue)
        self._clearing = Clearing(state, self.requeue)
        self._reserved = ReservedPlaces(state, self.requeue, plan_of=limits.plan_of)
        self._backfill = Backfill(state, self.requeue, self._placements)
        self._preemptions = Preemptions(state, self.requeue, trial_ms_per_s=limits.trial_ms_per_s)
        self._plans = Plans(state, self.requeue, every_s=limits.survey_every_s)
        self._growth = Growth(state, self.requeue, every_s=limits.survey_every_s)
        self._defragmentation = Defragmentation(state, self.requeue, every_s=limits.survey_every_s)
        self._explanations = Explanations(
            state, self.requeue, interval_s=limits.unschedulable_interval_s, advice=self._defragmentation.advice
        )

    def decide(self, now: Instant) -> list[Draft]:
        """Return all drafts, a bounded number of each sort."""
        state, requeue = self._state, self.requeue
        requeue.more, requeue.due = False, None
        state.proposals.settle()
        lift_at = lift_exclusions(state, now)
        if lift_at is not None:
            requeue.wait_until(lift_at)
        blame_s = self._blame_s if self._blame_unread or pages_are_read(state.status.pages_read_at, now) else 0.0
        changes = queue_changes(state)
        drafts = [
            *changes,
            *grant_answers(state.grants, state.later_requests, state.holders, now, requeue),
            *follow_ups(state, now, requeue, blame_s=blame_s),
            *summary(state, now, requeue, heartbeat_s=self._heartbeat_s),
            *self._reservations.make(now),
        ]
        if changes:
            requeue.more = True  # jobs are admitted when the new limits are in the log
        else:
            drafts += refused_arrivals(state, requeue)
            self._vacating.make(now, drafts)
            self._clearing.make(now, drafts)
            placed = self._reserved.place_reserved(now, drafts)
            self._reserved.place_owners(now, drafts, placed)
            placed |= self._placements.make(drafts, placed, now=now)
            self._backfill.make(now, drafts, placed)
            self._preemptions.make(now, drafts)
            self._plans.make(now, drafts)
            self._defragmentation.make(now, drafts)
            self._growth.make(now, drafts)
            drafts += queued_arrivals(state, placed, requeue)
            self._explanations.make(now, placed, drafts)
            state.queues.withdraw_proposals()
        drafts += self._checkpoint()
        return drafts

    def _checkpoint(self) -> list[Draft]:
        state = self._state
        if state.progress.facts < self._checkpoint_every_facts:
            return []
        reason = CheckpointRequested(reason=f"{state.progress.facts} facts since the last one")
        return [Draft("log", state.cluster, "checkpoint-requested", reason, (state.progress.checkpoint_cause,))]
