"""The telemetry service's core: folds who holds what, decides what is said of the use that jobs made of it."""

from collections.abc import Iterator

from muster.core import Draft, Fact, Instant
from muster.schemas.facts.telemetry import JobUseReported
from muster.schemas.job import TERMINAL_PHASES
from muster.telemetry.core.accounts import USAGE
from muster.telemetry.core.config import TelemetryConfig
from muster.telemetry.core.fleet import FleetLook
from muster.telemetry.core.holdings import Holdings
from muster.telemetry.core.meters import JobMeters, Reading
from muster.telemetry.core.state import JOB, REPORTED, State

DRAFTS_MAX = 500
"""Of one decision; what is left comes with the next."""
_NODE, _WRITER = "node", "telemetry"
_OVER = frozenset({*(phase.value for phase in TERMINAL_PHASES), "returned"})
"""After these a job is no longer this cluster's."""


class TelemetryCore:
    """Implements `ObservingCore[Reading]`: the only writer of jobs' use. holdings, state: as folded, for reading.

    meters, fleet: what was measured in this term, which is no part of the state.
    """

    def __init__(self, config: TelemetryConfig) -> None:
        self.config = config
        self.holdings = Holdings()
        self.state = State()
        self.meters = JobMeters(
            config, told=self._told, known=self.holdings.jobs.get, placed_at=self.holdings.placed_at
        )
        self.fleet = FleetLook()

    def apply(self, fact: Fact) -> None:
        """See `Core`; what fits no state is counted in the anomalies of its parts."""
        if fact.kind == JOB:
            self._of_job(fact)
        elif fact.kind == USAGE:
            self.state.fold(fact)
        elif fact.kind == _NODE:
            self.holdings.apply(fact)
            if fact.name == "left":
                self.fleet.forget(fact.subject_id)

    def decide(self, now: Instant) -> list[Draft]:
        """See `Core`: reports that are due, and the last word of jobs that ended while nobody measured them."""
        drafts: list[Draft] = []
        for job_id, report in self.meters.due(now):
            drafts.append(self._draft(job_id, report))
            if len(drafts) >= DRAFTS_MAX:
                return drafts
        told = {draft.subject_id for draft in drafts}
        for job_id in self.state.unfinished:
            if job_id not in told:
                last = self.state.told[job_id].reported.model_copy(update={"is_last": True})
                drafts.append(self._draft(job_id, last))
                if len(drafts) >= DRAFTS_MAX:
                    break
        return drafts

    def next_wakeup(self) -> Instant | None:
        """See `Core`."""
        return self.meters.next_due()

    def snapshot(self) -> Iterator[Draft]:
        """See `Core`."""
        return self.state.snapshot()

    def observe(self, observation: Reading, now: Instant) -> bool:  # noqa: ARG002 - a reading says when it was
        """See `ObservingCore`: a node was read, or could not be. Reports have their own times, so nothing is due by it.

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

    def _of_job(self, fact: Fact) -> None:
        if fact.writer == _WRITER:
            self.state.fold(fact)
            told = self.state.told.get(fact.subject_id)
            if told is not None:
                self.meters.acknowledge(fact.subject_id, told.reported, told.reported_at)
            return
        self.holdings.apply(fact)
        if fact.name == "routed":
            self.state.begin(fact.subject_id)
            self.meters.begin(fact.subject_id)
        elif fact.name in _OVER:
            self.state.end(fact.subject_id, fact.time)
            self.meters.ended(fact.subject_id)

    def _told(self, job_id: str) -> JobUseReported | None:
        told = self.state.told.get(job_id)
        return None if told is None else told.reported

    def _draft(self, job_id: str, report: JobUseReported) -> Draft:
        told, meter = self.state.told.get(job_id), self.meters.jobs.get(job_id)
        trace = told.trace if told is not None else meter.trace if meter is not None else ""
        return Draft(JOB, job_id, REPORTED, report, causes=(told.fact,) if told is not None else (), trace=trace)
