"""What both projections share: job rows with a dirty set, the ended ones bounded, the newest facts."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from muster.core.fact import Draft, Fact
from muster.core.instant import Instant
from muster.projector.core.marks import Marks
from muster.projector.core.ring import RING_BYTES_MAX, FactRing
from muster.projector.core.rows import JOB, Changes, JobChange, job_change, shown_fact
from muster.projector.core.shown import Shown
from muster.schemas.job import Phase, Slot
from muster.schemas.registry import STATE_NAME
from muster.schemas.views import JobView

REMOVED_KEPT = 20_000  # rows to take away that nobody took yet (a follower); who starts to write compares anyway
ENDED_KEPT = 8_000  # rows of ended jobs held to refill a lost read model; about 6 MB

SERVING_FACTS_MAX = 1_024  # facts of other kinds shown with one job: 200 devices attached for it
TEAMS_MAX = 4_096  # of which it is known where their newest fact stands
TRACE_ID = slice(3, 35)  # of a traceparent: every fact has a span of its own


@dataclass(slots=True)
class LiveJob:
    """A job that has not ended. was: phase of its row when it was last taken, None if it never was.

    listed: whether it is found by its phase. needs: per task group, (cpu_milli, memory_mib) of one replica.
    coming: slots that it holds beside those of its row, since it is growing. held: all that it holds, by resource.
    slice_s: how long a run is left alone, own_slice_s: as the job itself says. exited_s: how long the run took whose
    pods ended, until that is answered. serving: facts of other kinds that carried its trace.
    """

    row: JobView
    was: Phase | None = None
    listed: bool = True
    needs: tuple[tuple[int, int], ...] = ()
    coming: tuple[Slot, ...] = ()
    held: dict[str, int] = field(default_factory=dict)
    slice_s: float = 0.0
    own_slice_s: float = 0.0
    exited_s: float | None = None
    serving: int = 0


class Projection:
    """A fold into rows. It decides nothing and records no state: all it knows, other writers' facts say.

    `take` gives what changed since the last `take`; a caller that could not store it compares what it has stored with
    `knows` and goes on with `take_all`. `take_shown` is the live view's own way to the changes, from `watch` on; what
    one takes, the other still finds.
    """

    def __init__(self, *, stream: str, ended_kept: int = ENDED_KEPT, ring_bytes: int = RING_BYTES_MAX) -> None:
        self.stream = stream
        self.anomalies = 0  # facts that fit no state
        self.last_seq = 0
        self.newest_at = 0  # when the broker stored the newest fact folded
        self.team_seqs: dict[str, int] = {}
        """Newest fact shown about a job of that team, or serving one; least recent first."""
        self._teams_floor = 0  # of other teams it is not after this: neither a checkpoint nor a bounded memory tells
        self._ended_kept = ended_kept
        self._stores_clusters = False
        self._live: dict[str, LiveJob] = {}
        self._traced: dict[str, LiveJob] = {}  # live jobs by trace id; of several with one trace, the newest
        self._ended: dict[str, JobChange] = {}  # oldest first
        self._jobs = Marks(self._body)
        self._removed: dict[str, JobChange] = {}
        self._ring = FactRing(ring_bytes)

    @property
    def jobs_live(self) -> int:
        """Number of jobs held in full."""
        return len(self._live)

    @property
    def facts_forgotten_seq(self) -> int:
        """Newest fact that a read model older than it can no longer be given; 0 if there is none."""
        return self._ring.forgotten_seq

    def knows(self, job_id: str) -> bool:
        """Whether this projection still has a row for the job."""
        return job_id in self._live or job_id in self._ended

    def apply(self, fact: Fact) -> None:
        """Fold one fact, in log order."""
        self.last_seq = max(self.last_seq, fact.seq)
        self.newest_at = fact.time
        job_id = fact.subject_id if fact.kind == JOB else self._served(fact) if fact.trace else ""
        team = self._team(job_id)
        self.fold(fact)
        if fact.name == STATE_NAME:
            self._teams_floor = self.last_seq
        elif self.is_shown(fact):
            team = team or self._team(job_id)
            prev = self._told(team, fact.seq) if team else 0
            self._ring.push(shown_fact(fact, stream=self.stream, job_id=job_id, team=team, team_prev=prev))

    def is_shown(self, fact: Fact) -> bool:
        """Whether people see this fact in this projection."""
        return fact.kind != "log"

    def fold(self, fact: Fact) -> None:
        """Change rows."""
        raise NotImplementedError

    def decide(self, now: Instant) -> list[Draft]:  # noqa: ARG002 - the Core protocol
        """Nothing: a projection has no will."""
        return []

    def next_wakeup(self) -> Instant | None:
        """Never."""
        return None

    def snapshot(self) -> Iterator[Draft]:
        """Nothing: it is the writer of no fact."""
        return iter(())

    def take(self, *, facts_after: int) -> Changes:
        """What changed since the last call, encoded, and the facts after `facts_after`."""
        changes = Changes(facts=self._ring.after(facts_after))
        for job_id, body in self._jobs.take_stored().items():
            if body is not None:
                changes.jobs.append(self._change(job_id, body))
        changes.removed.extend(self._removed.values())
        self._removed.clear()
        return changes

    def take_all(self, *, rows_after: int) -> Changes:
        """Every row newer than `rows_after` (0: all) and the facts after it; the start of following the log."""
        for live in self._live.values():
            live.was = None
        for job_id, change in self._ended.items():
            self._ended[job_id] = replace(change, was=None)
        self._jobs.touch_stored((*self._ended, *self._live))
        changes = self.take(facts_after=rows_after)
        changes.jobs = [change for change in changes.jobs if change.seq > rows_after]
        changes.catch_up = True
        return changes

    def watch(self, *, on: bool) -> None:
        """Begin (or cease) to keep for the live view what changes from here on."""
        self._jobs.watch(on=on)

    def take_shown(self, *, after: int) -> Shown:
        """What changed since the last call, or since `watch`, and the facts after `after`."""
        return Shown(
            prev=max(after, self._ring.forgotten_seq),
            seq=self.last_seq,
            at=self.newest_at,
            jobs=self._jobs.take_shown(),
            facts=tuple(self._ring.after(after)),
        )

    def team_of(self, job_id: str) -> str:
        """Whose live job it is; "" if it is none."""
        live = self._live.get(job_id)
        return "" if live is None else live.row.team

    def _told(self, team: str, seq: int) -> int:
        """The team's newest fact is this one; where the one before stands."""
        seqs = self.team_seqs
        prev = seqs.pop(team, self._teams_floor)
        seqs[team] = seq
        if len(seqs) > TEAMS_MAX:
            self._teams_floor = max(self._teams_floor, seqs.pop(next(iter(seqs))))
        return prev

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

    def _team(self, job_id: str) -> str:
        """Whose job it is, as far as this is known now: a first fact is folded before, a last one after."""
        if not job_id:
            return ""
        live = self._live.get(job_id)
        if live is not None:
            return live.row.team
        ended = self._ended.get(job_id)
        return ended.team if ended is not None else ""

    def _served(self, fact: Fact) -> str:
        """The live job whose trace a fact of another kind carries, "" if there is none or it has enough of them."""
        job = self._traced.get(fact.trace[TRACE_ID])
        if job is None or fact.name == STATE_NAME or job.serving >= SERVING_FACTS_MAX:
            return ""
        job.serving += 1
        return job.row.id

    def _enter(self, job: LiveJob) -> None:
        """The job is live from here on."""
        row = job.row
        self._live[row.id] = job
        self._jobs.touch(row.id)
        if row.trace:
            self._traced[row.trace[TRACE_ID]] = job

    def _leave(self, job_id: str) -> LiveJob | None:
        """It is live no more; None if it was not."""
        job = self._live.pop(job_id, None)
        if job is not None and self._traced.get(trace := job.row.trace[TRACE_ID]) is job:
            del self._traced[trace]
        return job

    def _forget(self, job_id: str) -> bool:
        """There is no such row any more, live or ended; False if there was none."""
        job = self._leave(job_id)
        gone = job_change(job.row, was=job.was) if job is not None else self._ended.pop(job_id, None)
        if gone is None:
            return False
        self._jobs.touch(job_id)
        self._jobs.drop_stored(job_id)
        self._removed[job_id] = gone
        if len(self._removed) > REMOVED_KEPT:
            del self._removed[next(iter(self._removed))]
        return True

    def _touch(self, job: LiveJob, fact: Fact) -> None:
        job.row.seq = fact.seq
        self._jobs.touch(job.row.id)

    def _end(self, job: LiveJob) -> None:
        """The row is final: keep it encoded, within the bound, and forget the rest."""
        row = job.row
        self._leave(row.id)
        self._ended.pop(row.id, None)
        cluster = row.cluster if self._stores_clusters else None
        self._ended[row.id] = job_change(row, was=job.was, cluster=cluster)
        self._jobs.touch(row.id)
        while len(self._ended) > self._ended_kept:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            self._jobs.drop_stored(oldest)
