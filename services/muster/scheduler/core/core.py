"""The scheduler's core: folds the cluster's log, decides who runs where."""

from collections.abc import Iterator

from muster.cluster.node_records import NodeRecord
from muster.core import Draft, Fact, Instant
from muster.scheduler.core.cycle import Cycle, Limits
from muster.scheduler.core.explain.expected import Expectations
from muster.scheduler.core.fold.fold import fold
from muster.scheduler.core.state import State
from muster.schemas.facts.control import ClusterState
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import GrantState
from muster.schemas.registry import STATE_NAME


class SchedulerCore:
    """The only writer of job phases, terminal facts and grants of one cluster.

    `decide` leaves its proposals held in the fleet until they are confirmed by being folded; whatever else looks at
    what is free (the next decision, an answer) takes back first those that were not. may_grow: see `Limits`.
    """

    def __init__(self, *, cluster: str, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.state = State(cluster)
        self.may_grow = limits.may_grow
        self._cycle = Cycle(self.state, limits)
        self.expectations = Expectations(self.state)
        self._now = Instant(0)

    def apply(self, fact: Fact) -> None:
        """Fold one fact; one that fits no state is counted in `state.anomalies`."""
        fold(self.state, fact)

    def decide(self, now: Instant) -> list[Draft]:
        """What should be true and is not yet; the same again until something is folded."""
        self._now = now
        return self._cycle.decide(now)

    def next_wakeup(self) -> Instant | None:
        """The next deadline or postponed word; the last decision's own moment if it left something over."""
        if self._cycle.requeue.more:
            return self._now
        moments = self.state.due.next_deadline(self.state.jobs), self._cycle.requeue.due
        return min((moment for moment in moments if moment is not None), default=None)

    def snapshot(self) -> Iterator[Draft]:
        """State of queues, grants, jobs, reservations and the cluster, as the scheduler alone records them."""
        state = self.state
        for name, queue in state.queues.queues.items():
            yield Draft("queue", name, STATE_NAME, state.queues.state_of(queue))
        for kind, grants in (("node", state.nodes), ("device", state.grants.devices)):
            for name, grant in grants.items():
                yield Draft(
                    kind,
                    name,
                    STATE_NAME,
                    GrantState(
                        released=grant.released,
                        withhold_requests=tuple(wish.request_id for wish in grant.wishes),
                        withheld=bool(grant.wishes) and all(wish.answered for wish in grant.wishes),
                        wishes=grant.wishes,
                        last_fact=grant.last_fact,
                        cordon=grant.cordon if isinstance(grant, NodeRecord) else None,
                    ),
                )
        for record in state.jobs.stored():
            yield Draft("job", record.id, STATE_NAME, record.as_body(JobState), trace=record.job.trace)
        for name, reservation in state.reservations.states().items():
            yield Draft("reservation", name, STATE_NAME, reservation)
        wishes = tuple(state.queues.wishes.values())
        contact = state.status.contact.stored()
        cluster = ClusterState(
            summary=state.summary.numbers,
            summarised_at=state.summary.at,
            wishes=wishes,
            contact=contact,
            pages_read_at=state.status.pages_read_at,
            contact_lost_at=state.status.contact_lost_at,
        )
        yield Draft("cluster", state.cluster, STATE_NAME, cluster)
