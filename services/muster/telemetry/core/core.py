"""The telemetry service's core: folds holders and reports, and decides which reports are due."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.core import NEVER, Draft, Fact, Instant
from muster.core.folding import Folds
from muster.core.instant import NS_PER_S
from muster.schemas.facts.federation import JobReturned
from muster.schemas.facts.job import JobFinished, JobRouted
from muster.schemas.facts.node import NodeLeft
from muster.schemas.facts.telemetry import ACCOUNTS_A_DAY_MAX, DayUseState, JobUseReported, JobUseState, TeamUse, Use
from muster.schemas.registry import STATE_NAME
from muster.telemetry.core.config import TelemetryConfig
from muster.telemetry.core.exporters import ExporterStates
from muster.telemetry.core.holdings import OVER, Holdings
from muster.telemetry.core.meters import JobMeters, Reading

USAGE = "usage"
"""Kind of the states that days have in checkpoints; the subject is the day's number."""
DAYS_KEPT = 35
S_PER_DAY = 86_400
OTHERS = ("other", "other")
"""Account for further accounts of a day that has the maximum number of accounts."""
Whose = tuple[str, str]
"""(team, queue)."""


@dataclass(slots=True)
class Account:
    """Use of one team's jobs in one queue. Fields: see `Use`."""

    energy_j: float = 0.0
    measured_s: float = 0.0
    idle_s: float = 0.0

    def add(self, more: "Account") -> None:
        """Add the amounts of another account."""
        self.energy_j += more.energy_j
        self.measured_s += more.measured_s
        self.idle_s += more.idle_s


Day = dict[Whose, Account]


def day_of(at: Instant) -> int:
    """Days since the Unix epoch, in UTC."""
    return at // (S_PER_DAY * NS_PER_S)


def added(now: Use, before: Use | None) -> Account:
    """Return the difference of two reports of one job."""
    known = before or Use()
    return Account(
        max(0.0, now.energy_j - known.energy_j),
        max(0.0, now.measured_s - known.measured_s),
        max(0.0, now.idle_s - known.idle_s),
    )


class Accounts:
    """Accounts of the last `DAYS_KEPT` days. The amounts of a report count on the day on which it was reported."""

    def __init__(self) -> None:
        self._days: dict[int, Day] = {}

    def report(self, at: Instant, reported: JobUseReported, before: Use | None) -> None:
        """Add a job's report. before: the last report of it."""
        day = self._days.setdefault(day_of(at), {})
        whose = (reported.team, reported.queue)
        if whose not in day and len(day) >= ACCOUNTS_A_DAY_MAX - 1:
            whose = OTHERS
        day.setdefault(whose, Account()).add(added(reported.use, before))
        while len(self._days) > DAYS_KEPT:
            del self._days[min(self._days)]

    def restore(self, state: DayUseState) -> None:
        """Restore a day from a checkpoint."""
        self._days[state.day] = {
            (one.team, one.queue): Account(one.energy_j, one.measured_s, one.idle_s) for one in state.teams
        }

    def since(self, day: int) -> Mapping[Whose, Account]:
        """Return the use since the start of that day."""
        found: defaultdict[Whose, Account] = defaultdict(Account)
        for number, accounts in self._days.items():
            if number >= day:
                for whose, account in accounts.items():
                    found[whose].add(account)
        return found

    def snapshot(self) -> Iterator[Draft]:
        """State facts, one for each day."""
        for day, accounts in self._days.items():
            teams = tuple(
                TeamUse(team=team, queue=queue, energy_j=one.energy_j, measured_s=one.measured_s, idle_s=one.idle_s)
                for (team, queue), one in accounts.items()
            )
            yield Draft(USAGE, str(day), STATE_NAME, DayUseState(day=day, teams=teams))


JOB = "job"
REPORTED = "use-reported"
OVER_MAX = 2_000
"""Jobs that are over and are still answered for; the one that ended first is forgotten first."""


@dataclass(slots=True, kw_only=True)
class LastReport(JobUseState):
    """The last report of one job's use."""

    reported: JobUseReported

    @property
    def unfinished(self) -> bool:
        """True while the final report is due."""
        return bool(self.ended_at) and not self.reported.is_last


class State:
    """Folded from the reports of jobs and from the ends of jobs."""

    def __init__(self) -> None:
        self.reports: dict[str, LastReport] = {}
        """Last report of each job."""
        self.over: dict[str, None] = {}
        """Jobs that ended, in the order of their ends."""
        self.unfinished: dict[str, None] = {}
        """Jobs that ended and whose final report is due."""
        self.accounts = Accounts()
        """What teams used, by day."""
        self.anomalies: Counter[str] = Counter()

    def end(self, job_id: str, at: Instant) -> None:
        """Record the end of the job."""
        last = self.reports.get(job_id)
        if last is not None:
            last.ended_at = at
            self._settle(job_id, last)

    def begin(self, job_id: str) -> None:
        """Record a job, which may return after it was handed back; its earlier use here counts on."""
        last = self.reports.get(job_id)
        if last is not None and last.ended_at:
            last.ended_at = NEVER
            self.over.pop(job_id, None)
            self.unfinished.pop(job_id, None)

    def report(self, fact: Fact, reported: JobUseReported) -> None:
        """Take a report of a job's use."""
        last = self.reports.get(fact.subject_id)
        self.accounts.report(fact.time, reported, None if last is None else last.reported.use)
        if last is None:
            last = self.reports[fact.subject_id] = LastReport(reported=reported, trace=fact.trace)
        elif last.reported.is_last and not reported.is_last:  # the job came again before its final report
            self.begin(fact.subject_id)
        last.reported, last.reported_at, last.fact = reported, fact.time, fact.id
        if reported.is_last and not last.ended_at:
            last.ended_at = fact.time
        self._settle(fact.subject_id, last)

    def restore(self, fact: Fact, state: JobUseState) -> None:
        """Take the last report of a job from a checkpoint."""
        if state.reported is None:
            self.anomalies[fact.name] += 1
            return
        job_id = fact.subject_id
        last = self.reports[job_id] = LastReport.restored(state)
        self._settle(job_id, last)

    def _settle(self, job_id: str, last: LastReport) -> None:
        if last.unfinished:
            self.unfinished[job_id] = None
        else:
            self.unfinished.pop(job_id, None)
        if last.ended_at and job_id not in self.over:
            self.over[job_id] = None
            while len(self.over) > OVER_MAX:
                oldest = next(iter(self.over))
                del self.over[oldest], self.reports[oldest]
                self.unfinished.pop(oldest, None)

    def snapshot(self) -> Iterator[Draft]:
        """State facts, which folded into a new state give this one: those that are over come in their order."""
        live = (job_id for job_id in self.reports if job_id not in self.over)
        for job_id in (*live, *self.over):
            yield Draft(JOB, job_id, STATE_NAME, self.reports[job_id].as_body(JobUseState))
        yield from self.accounts.snapshot()


_HOLDING_KINDS = frozenset({JOB, "node"})
DRAFTS_MAX = 500
"""Maximum number of drafts of one decision; the rest follows with the next."""


class TelemetryCore:
    """Implements `ObservingCore[Reading]`: the only writer of jobs' use. holdings, state: as folded, for reading.

    meters, fleet: what was measured in this term, which is no part of the state.
    """

    _FOLDS = Folds["TelemetryCore", None]()

    def __init__(self, config: TelemetryConfig) -> None:
        self.config = config
        self.holdings = Holdings()
        self.state = State()
        self.meters = JobMeters(
            config, last_report=self._last_report, known=self.holdings.jobs.get, placed_at=self.holdings.placed_at
        )
        self.fleet = ExporterStates()

    def apply(self, fact: Fact) -> None:
        """Fold a fact. A fact that does not fit the state is counted in the anomalies of its parts."""
        if fact.kind in _HOLDING_KINDS:
            self.holdings.apply(fact)
        self._FOLDS.apply(self, fact)

    def decide(self, now: Instant) -> list[Draft]:
        """Return reports that are due, and the final reports of jobs that ended while nothing was measured."""
        drafts: list[Draft] = []
        for job_id, report in self.meters.due(now):
            drafts.append(self._draft(job_id, report))
            if len(drafts) >= DRAFTS_MAX:
                return drafts
        reported = {draft.subject_id for draft in drafts}
        for job_id in self.state.unfinished:
            if job_id not in reported:
                final = self.state.reports[job_id].reported.model_copy(update={"is_last": True})
                drafts.append(self._draft(job_id, final))
                if len(drafts) >= DRAFTS_MAX:
                    break
        return drafts

    def next_wakeup(self) -> Instant | None:
        """Return when the next report is due."""
        return self.meters.next_due()

    def snapshot(self) -> Iterator[Draft]:
        """Yield the state facts of a checkpoint."""
        return self.state.snapshot()

    def observe(self, observation: Reading, now: Instant) -> bool:  # noqa: ARG002 - a reading says when it was
        """Measure a reading of a node, or record that it failed. Return False: reports have their own times.

        Readings of nodes that are not part of the cluster are left out.
        """
        if observation.sample.node in self.holdings.nodes:
            self.fleet.see(observation.sample)
            self.meters.measure(observation)
        return False

    def forget(self) -> None:
        """Begin a term, or end one: what was measured and not reported is lost."""
        self.meters.reset()
        self.fleet.reset()

    @_FOLDS.on(JOB, REPORTED, JobUseReported)
    def _reported(self, fact: Fact, reported: JobUseReported) -> None:
        self.state.report(fact, reported)
        self.meters.acknowledge(fact.subject_id, reported, fact.time)

    @_FOLDS.on(JOB, STATE_NAME, JobUseState)
    def _restored(self, fact: Fact, stored: JobUseState) -> None:
        self.state.restore(fact, stored)
        if stored.reported is not None:
            self.meters.acknowledge(fact.subject_id, stored.reported, Instant(stored.reported_at))

    @_FOLDS.on(USAGE, STATE_NAME, DayUseState)
    def _day_restored(self, _fact: Fact, stored: DayUseState) -> None:
        self.state.accounts.restore(stored)

    @_FOLDS.on(JOB, "routed", JobRouted)
    def _routed(self, fact: Fact, _: JobRouted) -> None:
        self.state.begin(fact.subject_id)
        self.meters.begin(fact.subject_id)

    @_FOLDS.on(JOB, OVER, (JobFinished, JobReturned))
    def _ended(self, fact: Fact, _: JobFinished | JobReturned) -> None:
        self.state.end(fact.subject_id, fact.time)
        self.meters.ended(fact.subject_id)

    @_FOLDS.on("node", "left", NodeLeft)
    def _left(self, fact: Fact, _: NodeLeft) -> None:
        self.fleet.forget(fact.subject_id)

    def _last_report(self, job_id: str) -> JobUseReported | None:
        last = self.state.reports.get(job_id)
        return None if last is None else last.reported

    def _draft(self, job_id: str, report: JobUseReported) -> Draft:
        last, meter = self.state.reports.get(job_id), self.meters.jobs.get(job_id)
        trace = last.trace if last is not None else meter.trace if meter is not None else ""
        return Draft(JOB, job_id, REPORTED, report, causes=(last.fact,) if last is not None else (), trace=trace)
