"""The rows of one log's jobs: live ones in full, ended ones encoded and bounded, and which of them changed."""

from dataclasses import dataclass, field, replace

from muster.core.fact import Fact
from muster.projector.core.changes import Changes, JobChange, Marks, job_change
from muster.schemas.facts.telemetry import Use
from muster.schemas.job import Phase, Slot
from muster.schemas.registry import STATE_NAME
from muster.schemas.views import JobView

REMOVED_KEPT = 20_000  # rows to remove, not taken yet by a follower; a new leader compares all rows anyway
ENDED_KEPT = 8_000  # rows of ended jobs held to refill a lost read model; about 6 MB

SERVING_FACTS_MAX = 1_024  # facts of other kinds shown with one job: 200 devices attached for it
TRACE_ID = slice(3, 35)  # of a traceparent: every fact has a span of its own


@dataclass(slots=True)
class LiveJob:
    """A job that has not ended. was: phase of its row when it was last taken, None if it never was.

    listed: whether it is found by its phase. needs: per task group, (cpu_milli, memory_mib) of one replica.
    coming: slots that it holds beside those of its row, since it is growing. held: all that it holds, by resource.
    own_times_s: total run time and time slice, as the job itself says. exited_s: how long the run took whose
    pods ended, until that is answered. serving: facts of other kinds that carried its trace.
    """

    row: JobView
    was: Phase | None = None
    listed: bool = True
    needs: tuple[tuple[int, int], ...] = ()
    coming: tuple[Slot, ...] = ()
    held: dict[str, int] = field(default_factory=dict)
    own_times_s: tuple[float, float] = (0.0, 0.0)
    exited_s: float | None = None
    serving: int = 0


class JobTable:
    """Rows by job id. A live job changes in place; what changed is taken by the store and by the live view apart."""

    def __init__(self, *, ended_kept: int = ENDED_KEPT, stores_clusters: bool = False) -> None:
        """Begin with none. ended_kept: rows of ended jobs held. stores_clusters: as in `JobChange.cluster`."""
        self.marks = Marks(self._body)
        self._ended_kept = ended_kept
        self._stores_clusters = stores_clusters
        self._live: dict[str, LiveJob] = {}
        self._traced: dict[str, LiveJob] = {}  # live jobs by trace id; of several with one trace, the newest
        self._ended: dict[str, JobChange] = {}  # oldest first
        self._removed: dict[str, JobChange] = {}

    def __len__(self) -> int:
        """Return the number of live jobs."""
        return len(self._live)

    def __contains__(self, job_id: str) -> bool:
        """Return whether there is a row of the job, live or ended."""
        return job_id in self._live or job_id in self._ended

    def live(self, job_id: str) -> LiveJob | None:
        """Return the job, None if it is not live."""
        return self._live.get(job_id)

    def team(self, job_id: str) -> str:
        """Return the team of a job, as far as it is known now: a first fact is folded before, a last one after."""
        if not job_id:
            return ""
        live = self._live.get(job_id)
        if live is not None:
            return live.row.team
        ended = self._ended.get(job_id)
        return ended.team if ended is not None else ""

    def served(self, fact: Fact) -> str:
        """Return the live job whose trace a fact of another kind carries; "" without one, or if it has enough."""
        job = self._traced.get(fact.trace[TRACE_ID])
        if job is None or fact.name == STATE_NAME or job.serving >= SERVING_FACTS_MAX:
            return ""
        job.serving += 1
        return job.row.id

    def enter(self, job: LiveJob) -> None:
        """Record a live job."""
        row = job.row
        self._live[row.id] = job
        self.marks.touch(row.id)
        if row.trace:
            self._traced[row.trace[TRACE_ID]] = job

    def touch(self, job: LiveJob, fact: Fact) -> None:
        """Record that the fact changed the job's row."""
        job.row.seq = fact.seq
        self.marks.touch(job.row.id)

    def end(self, job: LiveJob) -> None:
        """Keep the final row, encoded and bounded, and drop the rest."""
        row = job.row
        self._leave(row.id)
        self._ended.pop(row.id, None)
        cluster = row.cluster if self._stores_clusters else None
        self._ended[row.id] = job_change(row, was=job.was, cluster=cluster)
        self.marks.touch(row.id)
        while len(self._ended) > self._ended_kept:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            self.marks.drop_stored(oldest)

    def report_use(self, job_id: str, use: Use, *, seq: int) -> bool:
        """Set what the GPUs did for a job, live or ended; return False if there is no row of it."""
        live = self._live.get(job_id)
        ended = self._ended.get(job_id)
        if live is not None:
            row = live.row
        elif ended is not None:
            row = JobView.model_validate_json(ended.body)
        else:
            return False
        row.measured_s, row.busy_s, row.seq = use.measured_s, use.busy_s, seq
        if ended is not None and live is None:
            self._ended[job_id] = job_change(row, was=ended.was, cluster=ended.cluster)
        self.marks.touch(job_id)
        return True

    def forget(self, job_id: str) -> bool:
        """Remove a row, live or ended; return whether it existed."""
        job = self._leave(job_id)
        gone = job_change(job.row, was=job.was) if job is not None else self._ended.pop(job_id, None)
        if gone is None:
            return False
        self.marks.touch(job_id)
        self.marks.drop_stored(job_id)
        self._removed[job_id] = gone
        if len(self._removed) > REMOVED_KEPT:
            del self._removed[next(iter(self._removed))]
        return True

    def take(self, changes: Changes) -> None:
        """Add the changes, encoded, and the removed rows."""
        for job_id, body in self.marks.take_stored().items():
            if body is not None:
                changes.jobs.append(self._change(job_id, body))
        changes.removed.extend(self._removed.values())
        self._removed.clear()

    def touch_all(self) -> None:
        """Mark every row to be written again, since the phase of the stored rows is unknown."""
        for live in self._live.values():
            live.was = None
        for job_id, change in self._ended.items():
            self._ended[job_id] = replace(change, was=None)
        self.marks.touch_stored((*self._ended, *self._live))

    def _leave(self, job_id: str) -> LiveJob | None:
        """Remove a live job; return None if it was not live."""
        job = self._live.pop(job_id, None)
        if job is not None and self._traced.get(trace := job.row.trace[TRACE_ID]) is job:
            del self._traced[trace]
        return job

    def _body(self, job_id: str) -> bytes | None:
        live = self._live.get(job_id)
        if live is not None:
            return live.row.encoded()
        ended = self._ended.get(job_id)
        return None if ended is None else ended.body

    def _change(self, job_id: str, body: bytes) -> JobChange:
        live = self._live.get(job_id)
        if live is None:
            change = self._ended[job_id]
            self._ended[job_id] = replace(change, was=change.phase)
            return change
        cluster = live.row.cluster if self._stores_clusters else None
        change = job_change(live.row, was=live.was, listed=live.listed, body=body, cluster=cluster)
        live.was = live.row.phase
        return change
