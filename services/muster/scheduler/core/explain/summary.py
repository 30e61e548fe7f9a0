"""The cluster's utilization, reported to the federation at intervals."""

from muster.core import NS_PER_S, Draft, Instant
from muster.scheduler.core.requeue import Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import HOLDING
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.job import Phase

SUMMARY_INTERVAL_S = 10.0
"""Minimum time between two summaries."""

HEARTBEAT_S = 5.0
"""Interval of heartbeats, where the federation may give jobs to other clusters."""


def summary(state: State, now: Instant, requeue: Requeue, *, heartbeat_s: float = HEARTBEAT_S) -> list[Draft]:
    """Return `summarised` if the numbers changed and the last report is old enough, or if a heartbeat is due."""
    if state.status.contact.is_wanted:
        return _sign_of_life(state, now, requeue, heartbeat_s)
    if not state.summary.is_stale:
        return []
    due = Instant(state.summary.at + round(SUMMARY_INTERVAL_S * NS_PER_S))
    if state.summary.numbers is not None and now < due:
        requeue.wait_until(due)
        return []
    numbers = summarise(state)
    if numbers == state.summary.numbers:
        state.summary.is_stale = False
        return []
    return [Draft("cluster", state.cluster, "summarised", numbers)]


def _sign_of_life(state: State, now: Instant, requeue: Requeue, heartbeat_s: float) -> list[Draft]:
    """Return a numbered heartbeat, so that it can be answered. Numbers start from the clock's seconds: a cluster that
    is created again with the same name never repeats a number.
    """
    contact = state.status.contact
    due = Instant(state.summary.at + round(heartbeat_s * NS_PER_S))
    if contact.last and now < due:
        requeue.wait_until(due)
        return []
    number = max(contact.last + 1, now // NS_PER_S)
    reported = summarise(state).model_copy(update={"number": number, "contact": contact.number})
    return [Draft("cluster", state.cluster, "summarised", reported)]


def summarise(state: State) -> ClusterSummary:
    """Return the cluster's utilization. Capacity that is drained later counts as free: shorter jobs run there."""
    totals = state.fleet.totals.values()
    kept_milli = sum(booking.kept_milli for booking in state.bookings.withholds.values())
    return ClusterSummary(
        cluster=state.cluster,
        nodes=sum(record.description is not None for record in state.nodes.values()),
        gpu_milli_total=sum(total.total_milli for total in totals),
        gpu_milli_free=sum(total.free_milli for total in totals) + kept_milli,
        jobs_queued=state.jobs.counts[Phase.SUBMITTED] + state.jobs.counts[Phase.QUEUED],
        jobs_running=sum(state.jobs.counts[phase] for phase in HOLDING),
    )
