"""Cost of an upgrade, counted from the facts: stopped jobs, repeated work, idle GPUs."""

from dataclasses import dataclass, field

from muster.core import Fact
from muster.schemas.facts.job import JobPlaced, JobStopRequested, PodsExited, PodsOutcome
from muster.schemas.job import Slot

_HOUR_NS = 3600 * 10**9


@dataclass(slots=True)
class _Run:
    gpus: int
    began_at: int = 0
    saved_at: int = 0


@dataclass(slots=True)
class Account:
    """Counts the cost from the facts given to `watch`."""

    worked_s: dict[str, float] = field(default_factory=dict)
    """Earlier work of jobs, which is lost with their first run unless that saves it."""
    killed: dict[str, int] = field(default_factory=dict)
    """Jobs that were stopped before they finished."""
    moved: dict[str, int] = field(default_factory=dict)
    redone_gpu_h: float = 0.0
    """Work lost by that."""
    finished: int = 0
    """Jobs that ended by themselves."""
    busy_gpu_h: float = 0.0
    """GPU-hours that jobs held until `at`."""
    at: int = 0
    _held: int = 0
    _runs: dict[str, _Run] = field(default_factory=dict)
    _stopping: set[str] = field(default_factory=set)

    def watch(self, fact: Fact) -> None:
        """Fold one fact."""
        if fact.kind != "job":
            return
        self.count(fact.time)
        run = self._runs.get(fact.subject_id)
        match fact.payload:
            case JobPlaced(slots=slots):
                self._runs[fact.subject_id] = _Run(gpus_of(slots))
                self._held += gpus_of(slots)
            case JobStopRequested():
                self._stopping.add(fact.subject_id)
            case PodsExited(outcome=outcome) if run is not None:
                self._exited(fact, run, outcome)
            case _:
                self._other(fact, run)

    def _other(self, fact: Fact, run: _Run | None) -> None:
        if run is None:
            return
        if fact.name == "running":
            run.began_at = run.saved_at = fact.time
        elif fact.name == "checkpointed" and run.began_at:
            run.saved_at = fact.time
            self.worked_s.pop(fact.subject_id, None)
        elif fact.name in ("queued", "succeeded", "failed", "cancelled", "timed-out"):
            self._held -= run.gpus
            del self._runs[fact.subject_id]
            self._stopping.discard(fact.subject_id)
            self.finished += fact.name == "succeeded"

    def _exited(self, fact: Fact, run: _Run, outcome: PodsOutcome) -> None:
        if outcome is PodsOutcome.SUCCEEDED:
            return
        lost_ns = fact.time - run.saved_at if run.began_at else 0
        lost_ns += round(self.worked_s.pop(fact.subject_id, 0.0) * 1e9)
        kept = run.saved_at > run.began_at or not run.began_at
        where = self.moved if kept and fact.subject_id in self._stopping else self.killed
        where[fact.subject_id] = where.get(fact.subject_id, 0) + 1
        self.redone_gpu_h += run.gpus * lost_ns / _HOUR_NS

    def count(self, at: int) -> None:
        """Count the time up to `at`."""
        if self.at:
            self.busy_gpu_h += self._held * (at - self.at) / _HOUR_NS
        self.at = at


def gpus_of(slots: tuple[Slot, ...]) -> int:
    """Return the whole GPUs of a placement."""
    return sum(slot.gpu_count for slot in slots)
