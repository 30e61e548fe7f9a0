"""Account of the job's time, to the nanosecond: every moment is in one of the buckets."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from muster.core import NS_PER_S, Fact, Instant
from muster.schemas.facts.job import JobPlaced
from muster.schemas.job import TERMINAL_PHASES


class Bucket(StrEnum):
    """kept: work that a checkpoint kept, or that is not lost at the end. saving: stopped for checkpoints.

    lost: work that was done again. detect: from a fault until pods ended or got the signal. requeue: until the job
    waits again. placing: until it runs. restart: until its first new step.
    """

    KEPT = "kept"
    SAVING = "saving"
    LOST = "lost"
    DETECT = "detect"
    REQUEUE = "requeue"
    PLACING = "placing"
    RESTART = "restart"


@dataclass(slots=True)
class Account:
    """restart_s, saving_s: of the job. interruptions: by cause, each incident once. runs: that began to run.

    again: runs that ended by something that had ended one before: a crash loop.
    """

    restart_s: float
    saving_s: float
    at: Instant
    spent_ns: Counter[Bucket] = field(default_factory=Counter)
    interruptions: Counter[str] = field(default_factory=Counter)
    again: int = 0
    runs: int = 0
    is_up: bool = False
    is_broken: bool = False
    _is_ending: bool = False
    _begins: int = 0
    _saved: int = 0
    _blamed: set[int] = field(default_factory=set)

    def running(self, at: Instant) -> None:
        """Record that all pods run."""
        self._spend(Bucket.PLACING, at)
        self.runs += 1
        self.is_up, self.is_broken, self._is_ending = True, False, False
        self._begins = self._saved = at + round(self.restart_s * NS_PER_S)

    def checkpointed(self, at: Instant) -> None:
        """Record a checkpoint of the work so far; a broken job saves nothing."""
        if self.is_up and at > self._saved:
            self._keep(at)

    def struck(self, at: Instant, cause: str, incident: int) -> None:
        """Record that the job does no more work from now on."""
        if self.is_up:
            self._blame(cause, incident)
            self._leave(at)
            self.is_broken = True

    def told_to_end(self, at: Instant, cause: str, incident: int) -> None:
        """Record the request to end. For a working job the interruption begins here: it still writes a checkpoint."""
        if self.is_broken and not self._is_ending:
            self._spend(Bucket.DETECT, at)
        elif self.is_up:
            self._blame(cause, incident)
        self._is_ending = True

    def exited(self, at: Instant) -> None:
        """Record that no pod runs any more."""
        if self.is_up:
            self._leave(at)
        elif self.is_broken and not self._is_ending:
            self._spend(Bucket.DETECT, at)
        self._is_ending = True

    def queued(self, at: Instant) -> None:
        """Record that the job waits, again or for the first time; or that it was given up."""
        if self.is_up:
            self._leave(at)
        self._spend(Bucket.REQUEUE if self._is_ending else Bucket.PLACING, at)
        self.is_broken = self._is_ending = False

    def close(self, at: Instant) -> None:
        """Close the account: unsaved work is not lost by the end."""
        if self.is_up:
            if at > self._saved:
                self._keep(at)
            self._leave(at)
        rest = Bucket.REQUEUE if self._is_ending else Bucket.DETECT if self.is_broken else Bucket.PLACING
        self._spend(rest, at)

    def seconds(self, bucket: Bucket) -> float:
        """Return the seconds spent in a bucket."""
        return self.spent_ns[bucket] / NS_PER_S

    def _blame(self, cause: str, incident: int) -> None:
        if incident in self._blamed:
            self.again += 1
        else:
            self._blamed.add(incident)
            self.interruptions[cause] += 1

    def _keep(self, at: Instant) -> None:
        self._come_back(at)
        saving = min(round(self.saving_s * NS_PER_S), at - self._saved)
        self.spent_ns[Bucket.SAVING] += saving
        self.spent_ns[Bucket.KEPT] += at - self._saved - saving
        self._saved, self.at = at, at

    def _come_back(self, at: Instant) -> None:
        """Count the part of the run before its first new step."""
        began = min(self._begins, at)
        if began > self.at and self._saved == self._begins:
            self.spent_ns[Bucket.RESTART] += began - self.at
            self.at = Instant(began)

    def _leave(self, at: Instant) -> None:
        self._come_back(at)
        self._spend(Bucket.LOST, at)
        self.is_up = False

    def _spend(self, bucket: Bucket, at: Instant) -> None:
        self.spent_ns[bucket] += at - self.at
        self.at = at


_NEVER = Instant(0)
_ENDS = frozenset(phase.value for phase in TERMINAL_PHASES)


@dataclass(slots=True)
class RunWatch:
    """One run. job, attempt, nodes: its own. since: its start. is_ending: pods ended or must end. given_up: the job."""

    account: Account
    job: str = ""
    attempt: int = 0
    nodes: frozenset[str] = frozenset()
    since: Instant = _NEVER
    is_running: bool = False
    is_ending: bool = False
    given_up: list[str] = field(default_factory=list)

    def watch(self, fact: Fact) -> None:
        """Fold one fact of the job."""
        if fact.kind != "job":
            return
        if isinstance(fact.payload, JobPlaced):
            self.job, self.attempt = fact.subject_id, fact.payload.attempt
            self.nodes = frozenset(slot.node for slot in fact.payload.slots)
            self.is_running = self.is_ending = False
        match fact.name:
            case "running":
                self.is_running, self.since = True, fact.time
                self.account.running(fact.time)
            case "checkpointed":
                self.account.checkpointed(fact.time)
            case "stop-requested":
                self.is_ending = True
            case "pods-exited":
                self.is_ending = True
                self.account.exited(fact.time)
            case "queued":
                self._ends(fact)
            case name if name in _ENDS:
                self.given_up.append(f"{name}: {getattr(fact.payload, 'reason', '')}")
                self._ends(fact)

    def _ends(self, fact: Fact) -> None:
        self.account.queued(fact.time)
        self.nodes, self.is_running, self.is_ending = frozenset(), False, False
