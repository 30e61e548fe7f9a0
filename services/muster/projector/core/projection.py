"""Common part of both projections: rows of jobs, and the newest facts as users see them."""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.core.fact import Draft, Fact
from muster.core.instant import Instant
from muster.projector.core.changes import JOB, RING_BYTES_MAX, Changes, FactRing, ViewChanges, shown_fact
from muster.projector.core.job_table import JobTable
from muster.schemas.registry import STATE_NAME

TEAMS_MAX = 4_096  # of which it is known where their newest fact stands


@dataclass(slots=True)
class Anomalies:
    """Number of facts that fit no state."""

    count: int = 0


class Projection:
    """A fold into rows. It decides nothing and records no state: all it knows, other writers' facts say.

    `take` gives what changed since the last `take`; a caller that could not store it compares what it has stored with
    `knows` and goes on with `take_all`. `take_shown` is the live view's own way to the changes, from `watch` on; what
    one takes, the other still finds.
    """

    def __init__(self, *, stream: str, jobs: JobTable, ring_bytes: int = RING_BYTES_MAX) -> None:
        """Begin with nothing. jobs: the rows that it changes. ring_bytes: of the newest facts, held."""
        self.stream = stream
        self.last_seq = 0
        self.newest_at = 0  # when the broker stored the newest fact folded
        self.team_seqs: dict[str, int] = {}
        """Newest fact shown about a job of that team, or serving one; least recent first."""
        self._teams_floor = 0  # of other teams it is not after this: neither a checkpoint nor a bounded memory tells
        self._jobs = jobs
        self._anomalies = Anomalies()
        self._ring = FactRing(ring_bytes)

    @property
    def anomalies(self) -> int:
        """Number of facts that fitted no state."""
        return self._anomalies.count

    @property
    def jobs_live(self) -> int:
        """Number of jobs held in full."""
        return len(self._jobs)

    @property
    def facts_forgotten_seq(self) -> int:
        """Newest fact that a read model older than it can no longer be given; 0 if there is none."""
        return self._ring.forgotten_seq

    def knows(self, job_id: str) -> bool:
        """Return whether this projection still has a row for the job."""
        return job_id in self._jobs

    def apply(self, fact: Fact) -> None:
        """Fold one fact, in log order."""
        self.last_seq = max(self.last_seq, fact.seq)
        self.newest_at = fact.time
        job_id = fact.subject_id if fact.kind == JOB else self._jobs.served(fact) if fact.trace else ""
        team = self._jobs.team(job_id)
        self.fold(fact)
        if fact.name == STATE_NAME:
            self._teams_floor = self.last_seq
        elif self.is_shown(fact):
            team = team or self._jobs.team(job_id)
            prev = self._note_team_fact(team, fact.seq) if team else 0
            self._ring.push(shown_fact(fact, stream=self.stream, job_id=job_id, team=team, team_prev=prev))

    def is_shown(self, fact: Fact) -> bool:
        """Return whether users see this fact in this projection."""
        return fact.kind != "log"

    def fold(self, fact: Fact) -> None:
        """Fold a fact into rows."""
        raise NotImplementedError

    def decide(self, now: Instant) -> list[Draft]:  # noqa: ARG002 - the Core protocol
        """Return no drafts: a projection decides nothing."""
        return []

    def next_wakeup(self) -> Instant | None:
        """Return None: a projection needs no wake-up."""
        return None

    def snapshot(self) -> Iterator[Draft]:
        """Yield nothing: a projection writes no facts."""
        return iter(())

    def take(self, *, facts_after: int) -> Changes:
        """Return the changes since the last call, encoded, and the facts after `facts_after`."""
        changes = Changes(facts=self._ring.after(facts_after))
        self._jobs.take(changes)
        return changes

    def take_all(self, *, rows_after: int) -> Changes:
        """Return every row newer than `rows_after` (0: all) and the facts after it; the start of following the log."""
        self._jobs.touch_all()
        changes = self.take(facts_after=rows_after)
        changes.jobs = [change for change in changes.jobs if change.seq > rows_after]
        changes.catch_up = True
        return changes

    def watch(self, *, on: bool) -> None:
        """Begin (or cease) to keep for the live view what changes from here on."""
        self._jobs.marks.watch(on=on)

    def take_shown(self, *, after: int) -> ViewChanges:
        """Return the changes since the last call, or since `watch`, and the facts after `after`."""
        return ViewChanges(
            prev=max(after, self._ring.forgotten_seq),
            seq=self.last_seq,
            at=self.newest_at,
            jobs=self._jobs.marks.take_shown(),
            facts=tuple(self._ring.after(after)),
        )

    def team_of(self, job_id: str) -> str:
        """Return the team of a live job; "" if the job is not live."""
        live = self._jobs.live(job_id)
        return "" if live is None else live.row.team

    def _note_team_fact(self, team: str, seq: int) -> int:
        """Record the team's newest fact; return the position of the fact before."""
        seqs = self.team_seqs
        prev = seqs.pop(team, self._teams_floor)
        seqs[team] = seq
        if len(seqs) > TEAMS_MAX:
            self._teams_floor = max(self._teams_floor, seqs.pop(next(iter(seqs))))
        return prev
