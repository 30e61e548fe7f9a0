"""How full the cluster is, said to federation now and then."""

from muster.core import NS_PER_S, Draft, Instant
from muster.scheduler.core.jobs import HOLDING
from muster.scheduler.core.remains import Remains
from muster.scheduler.core.state import State
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.job import Phase

SUMMARY_INTERVAL_S = 10.0
"""At least so long between two summaries."""


def summary(state: State, now: Instant, remains: Remains) -> list[Draft]:
    """`summarised`, if the numbers changed and the last ones are old enough."""
    if not state.summary_stale:
        return []
    due = Instant(state.summarised_at + round(SUMMARY_INTERVAL_S * NS_PER_S))
    if state.summary is not None and now < due:
        remains.wait_until(due)
        return []
    numbers = summarise(state)
    if numbers == state.summary:
        state.summary_stale = False
        return []
    return [Draft("cluster", state.cluster, "summarised", numbers)]


def summarise(state: State) -> ClusterSummary:
    """How full the cluster is."""
    totals = state.books.fleet.totals.values()
    return ClusterSummary(
        cluster=state.cluster,
        nodes=sum(record.description is not None for record in state.books.nodes.values()),
        gpu_milli_total=sum(total.total_milli for total in totals),
        gpu_milli_free=sum(total.free_milli for total in totals),
        jobs_queued=state.jobs.counts[Phase.SUBMITTED] + state.jobs.counts[Phase.QUEUED],
        jobs_running=sum(state.jobs.counts[phase] for phase in HOLDING),
    )
