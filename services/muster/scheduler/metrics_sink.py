"""Metrics of a leading scheduler, fact by fact: how long placing took, how jobs ended, what runs were for nothing.

The gauges beside them (`standing`) are set every `SHOW_S`, because a surge changes them thousands of times a second.
"""

import asyncio
import logging
import os
from collections.abc import Sequence

from nats.aio.client import Client
from prometheus_client import Counter, Histogram

from muster.bus.clock import SystemTime, TimeSource
from muster.bus.gauges import BoundedLabels
from muster.bus.logs import LineLimiter
from muster.bus.service import LeaderHandle
from muster.bus.tracing import Exemplars, about, sampled_one_in
from muster.core import Fact, Instant
from muster.core.fact import Core
from muster.core.instant import seconds_between
from muster.scheduler.core import SchedulerCore
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.standing import TEAMS_MAX, Standing
from muster.scheduler.tally import Tally, changed_by
from muster.schemas.facts.job import JobFinished, JobPlaced, JobQueued, QueuedReason

SHOW_S = 2.0
"""Between two looks at the gauges; less than any scrape interval."""

FAILURES_TOLD_PER_S = 10
PLACE_SLOW_S = 1.0
"""Placing that takes longer is always led to from the metrics."""

_WAITS_S = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0)
_TERMINAL = frozenset({"succeeded", "failed", "cancelled", "timed-out"})

_PLACE_S = Histogram(
    "muster_submit_to_placed_seconds",
    "From submitted to first placed. waited: whether it was said in between that there is no place.",
    ("waited",),
    buckets=_WAITS_S,
)
_PLACE_AT_ONCE_S, _PLACE_TOLD_S = _PLACE_S.labels("no"), _PLACE_S.labels("yes")
_PLACED = Counter("muster_jobs_placed", "Placements, first and later ones.", ("team",))
_WAITED_S = Counter("muster_jobs_waited_seconds", "Sum of the times from queued to placed.", ("team",))
_ENDED = Counter("muster_jobs_ended", "Jobs that ended, by outcome.", ("team", "outcome"))
_REQUEUED = Counter("muster_jobs_requeued", "Jobs that wait again after a run, by reason.", ("reason",))

for _reason in QueuedReason:
    if _reason is not QueuedReason.SUBMITTED:
        _REQUEUED.labels(_reason.value)  # shown as 0 before the first, or a rate would not see it

_logger = logging.getLogger(__name__)


class SchedulerSink:
    """Implements `Sink`. One instance serves one term after the other.

    time: paces the log lines. one_in: traces that a collector is sent whole, None: as the variables say.
    """

    def __init__(self, *, time: TimeSource | None = None, one_in: int | None = None) -> None:
        self._time = time or SystemTime()
        self._teams = BoundedLabels(TEAMS_MAX)
        self._placed: dict[str, tuple[Counter, Counter]] = {}
        self._ends: dict[tuple[str, str], Counter] = {}
        self._exemplars = Exemplars(sampled_one_in(os.environ) if one_in is None else one_in)
        self._standing = Standing(self._teams)
        self._telling = LineLimiter(FAILURES_TOLD_PER_S)
        self._tally = Tally()
        self._core: SchedulerCore | None = None
        self._showing: asyncio.Task[None] | None = None
        self._now = Instant(0)

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:  # noqa: ARG002 - the port
        """See Sink.open."""
        assert isinstance(core, SchedulerCore), "these are metrics of the scheduler"
        self._core = core
        self._tally = Tally()
        self._tally.see_all(core.state.jobs.records.values())
        self._now = self._time.wall()
        self._showing = asyncio.create_task(self._keep_showing(core.state), name="scheduler metrics")

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """See Sink.after_fold."""
        assert self._core is not None, "a sink is opened first"
        assert self._showing is not None, "showing begins with the term"
        if self._showing.done():
            self._showing.result()  # raises what ended it: the service recovers
        self._now = now
        state = self._core.state
        records = state.jobs.records
        for fact in facts:
            if fact.kind == "job" and fact.writer == "scheduler":
                self._count(fact, records.get(fact.subject_id))
        for job_id in changed_by(facts, state):
            self._tally.see(job_id, records.get(job_id))

    async def close(self) -> None:
        """See Sink.close."""
        showing, self._showing, self._core = self._showing, None, None
        if showing is not None:
            showing.cancel()
            await asyncio.wait((showing,))
        self._standing.hide()

    def _count(self, fact: Fact, record: JobRecord | None) -> None:
        if record is None:
            return
        match fact.payload:
            case JobPlaced(attempt=attempt):
                placed, waited_s = self._of_team(record.job.spec.team)
                placed.inc()
                waited_s.inc(max(0.0, seconds_between(record.queued_at, fact.time)))
                if attempt == 1 and record.job.submitted_at:
                    took_s = max(0.0, seconds_between(record.job.submitted_at, fact.time))
                    exemplar = self._exemplars.of(fact.trace, slow=took_s > PLACE_SLOW_S)
                    (_PLACE_TOLD_S if record.explained_at else _PLACE_AT_ONCE_S).observe(took_s, exemplar)
            case JobQueued(reason=reason) if reason is not QueuedReason.SUBMITTED:
                _REQUEUED.labels(reason.value).inc()
            case JobFinished() as finished if fact.name in _TERMINAL:
                self._ended(record.job.spec.team, fact.name).inc()
                if fact.name == "failed" and self._telling.allows(self._time.monotonic_s()):
                    self._tell(fact, finished, record)

    def _of_team(self, name: str) -> tuple[Counter, Counter]:
        """Counters with their labels bound: looking labels up costs as much as counting."""
        team = self._teams.of(name)
        known = self._placed.get(team)
        if known is None:
            known = self._placed[team] = _PLACED.labels(team), _WAITED_S.labels(team)
        return known

    def _ended(self, name: str, outcome: str) -> Counter:
        key = self._teams.of(name), outcome
        known = self._ends.get(key)
        if known is None:
            known = self._ends[key] = _ENDED.labels(*key)
        return known

    def _tell(self, fact: Fact, finished: JobFinished, record: JobRecord) -> None:
        unsaid = self._telling.left_out()
        _logger.info(
            "job %s of team %s failed with exit code %d: %s%s",
            record.id, record.job.spec.team, finished.exit_code, finished.reason or "no reason was given",
            f"; {unsaid} more failed since the last line" if unsaid else "",
            extra=about(fact.trace),
        )  # fmt: skip

    async def _keep_showing(self, state: State) -> None:
        while True:
            self._standing.show(state, self._tally, now=self._now)
            await asyncio.sleep(SHOW_S)
