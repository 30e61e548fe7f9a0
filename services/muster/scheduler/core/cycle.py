"""One decision: who is placed, released, stopped, ended and told, given what is believed now.

Every part is bounded by a count, because a core has no clock; what is left over is done by the next decision, and
`Remains.more` says so. The order of the drafts is the order in the log: `queued` of a job stands before its `placed`.
"""

from dataclasses import dataclass

from muster.core import Draft, Instant
from muster.scheduler.core import arrivals
from muster.scheduler.core.backfill import Backfill
from muster.scheduler.core.blame import pages_are_read
from muster.scheduler.core.changes import queue_changes
from muster.scheduler.core.clearing import Clearing
from muster.scheduler.core.defragment import Defragmentation
from muster.scheduler.core.elastic import Growth
from muster.scheduler.core.explanations import Explanations
from muster.scheduler.core.follow import follow_ups
from muster.scheduler.core.grants import grants
from muster.scheduler.core.owned import Owned
from muster.scheduler.core.placements import Placements
from muster.scheduler.core.plans import SURVEY_S, Plans
from muster.scheduler.core.preemption import TRIAL_MS_PER_S, Preemptions
from muster.scheduler.core.remains import Remains
from muster.scheduler.core.reservation_changes import ReservationChanges
from muster.scheduler.core.reserved import place_reserved
from muster.scheduler.core.state import PlanOf, State
from muster.scheduler.core.summary import HEARTBEAT_S, summary
from muster.scheduler.core.vacating import Vacating
from muster.schemas.facts.control import CheckpointRequested


@dataclass(frozen=True, slots=True)
class Limits:
    """What the settings say. unschedulable_interval_s: per job; checkpoint_every_facts: folded facts.

    may_grow: scaling may add nodes and devices, so that a job which they cannot hold now may wait for them.
    heartbeat_s: between two signs of life to a federation that may give jobs to others. blame_s: see `blame`;
    blame_unread: also while no page was read lately. plan_of: which checks a job gets before its first step, None: none
    does.

    What is costly is bounded by time, which in a simulation flies. trial_ms_per_s: for trials of preemption, of each
    second. survey_every_s: between two searches for whom to reserve, or what to move, and two sizes of a job.
    """

    unschedulable_interval_s: float = 5.0
    checkpoint_every_facts: int = 100_000
    may_grow: bool = False
    trial_ms_per_s: float = TRIAL_MS_PER_S
    survey_every_s: float = SURVEY_S
    heartbeat_s: float = HEARTBEAT_S
    blame_s: float = 0.0
    blame_unread: bool = True
    plan_of: PlanOf | None = None


class Cycle:
    """Makes decisions, and puts their parts in order. remains: when to ask again, as the last decision found."""

    def __init__(self, state: State, limits: Limits) -> None:
        self.remains = Remains()
        self._state = state
        self._checkpoint_every_facts = limits.checkpoint_every_facts
        self._blame_s, self._blame_unread = limits.blame_s, limits.blame_unread
        state.plan_of = limits.plan_of
        self._heartbeat_s = limits.heartbeat_s
        self._placements = Placements(state, self.remains)
        self._reservations = ReservationChanges(state, self.remains)
        self._vacating = Vacating(state, self.remains)
        self._clearing = Clearing(state, self.remains)
        self._owned = Owned(state, self.remains)
        self._backfill = Backfill(state, self.remains, self._placements)
        self._preemptions = Preemptions(state, self.remains, trial_ms_per_s=limits.trial_ms_per_s)
        self._plans = Plans(state, self.remains, every_s=limits.survey_every_s)
        self._growth = Growth(state, self.remains, every_s=limits.survey_every_s)
        self._defragmentation = Defragmentation(state, self.remains, every_s=limits.survey_every_s)
        self._explanations = Explanations(
            state, self.remains, interval_s=limits.unschedulable_interval_s, advice=self._defragmentation.advice
        )

    def decide(self, now: Instant) -> list[Draft]:
        """All drafts, at most a bounded number of each sort."""
        state, remains = self._state, self.remains
        remains.more, remains.due = False, None
        state.proposals.settle()
        if state.exclusions and (until := state.lift_exclusions(now)) is not None:
            remains.wait_until(until)
        blame_s = self._blame_s if self._blame_unread or pages_are_read(state.pages_read_at, now) else 0.0
        changes = queue_changes(state)
        drafts = [
            *changes,
            *grants(state, now, remains),
            *follow_ups(state, now, remains, blame_s=blame_s),
            *summary(state, now, remains, heartbeat_s=self._heartbeat_s),
            *self._reservations.make(now),
        ]
        if changes:
            remains.more = True  # who may run is judged when the new limits stand in the log
        else:
            drafts += arrivals.refused(state, remains)
            self._vacating.make(now, drafts)
            self._clearing.make(now, drafts)
            placed = place_reserved(state, now, drafts)
            self._owned.make(now, drafts, placed)
            placed |= self._placements.make(drafts, placed, now=now)
            self._backfill.make(now, drafts, placed)
            self._preemptions.make(now, drafts)
            self._plans.make(now, drafts)
            self._defragmentation.make(now, drafts)
            self._growth.make(now, drafts)
            drafts += arrivals.queued(state, placed, remains)
            self._explanations.make(now, placed, drafts)
            state.queues.withdraw_proposals()
        drafts += self._checkpoint()
        return drafts

    def _checkpoint(self) -> list[Draft]:
        state = self._state
        if state.facts < self._checkpoint_every_facts:
            return []
        reason = CheckpointRequested(reason=f"{state.facts} facts since the last one")
        return [Draft("log", state.cluster, "checkpoint-requested", reason, (state.checkpoint_cause,))]
