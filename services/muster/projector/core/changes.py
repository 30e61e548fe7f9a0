"""What a projection reports: which rows changed, changed rows encoded, and the newest facts as people see them."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from muster.core.fact import Fact
from muster.schemas.job import Phase
from muster.schemas.readmodel import order_key
from muster.schemas.views import FactView, JobView

Encode = Callable[[str], bytes | None]
"""The row of that name as it is now, encoded; None if there is none."""


class Marks:
    """Names of rows that changed, kept apart for each of the two that take them.

    A body is kept only from its first taker to its second, and not past the row's next change. The live view's marks
    are kept only while it is watched.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._stored: dict[str, None] = {}
        self._shown: dict[str, None] | None = None
        self._bodies: dict[str, bytes | None] = {}

    def touch(self, name: str) -> None:
        """The row changed."""
        self._stored[name] = None
        if self._shown is not None:
            self._shown[name] = None
            self._bodies.pop(name, None)

    def touch_stored(self, names: Iterable[str]) -> None:
        """These rows are to be stored again, too, whether they changed or not."""
        self._stored.update(dict.fromkeys(names))

    def drop_stored(self, name: str) -> None:
        """The store needs this row no more."""
        self._stored.pop(name, None)
        self._bodies.pop(name, None)

    def watch(self, *, on: bool) -> None:
        """Begin (or cease) to keep marks for the live view; what changed before is not among them."""
        self._shown = {} if on else None
        self._bodies.clear()

    def take_stored(self) -> dict[str, bytes | None]:
        """What the store lacks, in the order in which it changed first."""
        taken, self._stored = self._stored, {}
        return self._taken(taken, self._shown)

    def take_shown(self) -> dict[str, bytes | None]:
        """What the live view lacks. Nothing while it is not watched."""
        if not self._shown:
            return {}
        taken, self._shown = self._shown, {}
        return self._taken(taken, self._stored)

    def _taken(self, names: dict[str, None], other: dict[str, None] | None) -> dict[str, bytes | None]:
        """other: what the other taker still lacks."""
        bodies, found = self._bodies, dict[str, bytes | None]()
        for name in names:
            wanted = other is not None and name in other
            if name in bodies:
                body = bodies[name] if wanted else bodies.pop(name)
            else:
                body = self._encode(name)
                if wanted and self._shown is not None:
                    bodies[name] = body
            found[name] = body
        return found


JOB = "job"
"""Kind of a job's own facts."""
WORKLOAD = "workload"
"""Kind of facts about objects that stand for a job, or ask to."""


@dataclass(frozen=True, slots=True)
class ShownFact:
    """A fact as it is stored for people. job_id, team: empty if it is about no job, and serves none.

    serves: it is of another kind and carries the job's trace; a job's own facts name it themselves. time: the broker's.
    team_prev: sequence of the fact before that was shown about a job of the same team, or serving one; where that is
    not known, one that is not before it. private: its body is not for the public, though it is about no known job.
    """

    seq: int
    job_id: str
    team: str
    body: bytes
    serves: bool = False
    time: int = 0
    team_prev: int = 0
    private: bool = False


def shown_fact(fact: Fact, *, stream: str, job_id: str, team: str, team_prev: int) -> ShownFact:
    """Encode a fact as `FactView`. job_id: which job it is about or serves, if any. team_prev: as in `ShownFact`."""
    view = FactView(
        id=fact.id,
        seq=fact.seq,
        time=fact.time,
        stream=stream,
        cluster=fact.cluster,
        writer=fact.writer,
        kind=fact.kind,
        subject_id=fact.subject_id,
        name=fact.name,
        causes=fact.causes,
        trace=fact.trace,
        body=fact.payload.model_dump_json(),
    )
    serves = bool(job_id) and fact.kind != JOB
    return ShownFact(fact.seq, job_id, team, view.encoded(), serves, fact.time, team_prev, fact.kind == WORKLOAD)


@dataclass(frozen=True, slots=True)
class JobChange:
    """One job's row as it should stand. order: sort key, submission time then id, unique.

    listed: whether it is found by its phase. was: the phase it was last written under, None if it was not (or nobody
    knows). ended_order: sort key by end, "" while it lives. cluster: to be stored as the one that has the job; None:
    this projection does not say.
    """

    id: str
    order: str
    team: str
    queue: str
    phase: Phase
    was: Phase | None
    seq: int
    body: bytes
    ended_order: str = ""
    listed: bool = True
    cluster: str | None = None


def job_change(
    row: JobView, *, was: Phase | None, listed: bool = True, body: bytes | None = None, cluster: str | None = None
) -> JobChange:
    """Return the row, encoded. body: if it was encoded before. cluster: as in `JobChange`."""
    encoded = row.encoded() if body is None else body
    ended = order_key(row.ended_at, row.id) if row.phase.is_terminal else ""
    order = order_key(row.submitted_at, row.id)
    return JobChange(row.id, order, row.team, row.queue, row.phase, was, row.seq, encoded, ended, listed, cluster)


@dataclass(slots=True)
class Changes:
    """What the read model lacks. nodes, queues, reservations: None takes the row away.

    shapes: the distinct shapes of nodes, encoded. catch_up: nobody knows under which phase these rows stand there.
    """

    jobs: list[JobChange] = field(default_factory=list)
    removed: list[JobChange] = field(default_factory=list)
    nodes: dict[str, bytes | None] = field(default_factory=dict)
    queues: dict[str, bytes | None] = field(default_factory=dict)
    reservations: dict[str, bytes | None] = field(default_factory=dict)
    shapes: bytes | None = None
    facts: list[ShownFact] = field(default_factory=list)
    catch_up: bool = False

    def __bool__(self) -> bool:
        """True if there is anything to write."""
        rows = self.jobs or self.removed or self.nodes or self.queues or self.reservations or self.facts
        return bool(rows or self.shapes is not None)


RING_BYTES_MAX = 8 * 1024 * 1024  # about 15,000 facts of a usual size


@dataclass(slots=True)
class FactRing:
    """Newest facts in log order, bounded in bytes. forgotten_seq: newest that had to leave, 0 if none had."""

    bytes_max: int = RING_BYTES_MAX
    forgotten_seq: int = 0
    _facts: deque[ShownFact] = field(default_factory=deque)
    _bytes: int = 0

    def push(self, fact: ShownFact) -> None:
        """Add the newest; the oldest leave while there are too many bytes (one fact always stays)."""
        self._facts.append(fact)
        self._bytes += len(fact.body)
        while self._bytes > self.bytes_max and len(self._facts) > 1:
            oldest = self._facts.popleft()
            self._bytes -= len(oldest.body)
            self.forgotten_seq = oldest.seq

    def after(self, seq: int) -> list[ShownFact]:
        """Those after `seq`, in log order. Work grows with what is returned."""
        found: list[ShownFact] = []
        for fact in reversed(self._facts):
            if fact.seq <= seq:
                break
            found.append(fact)
        found.reverse()
        return found


Rows = Mapping[str, bytes | None]
"""By name, encoded; None: it was taken away."""


@dataclass(frozen=True, slots=True)
class ViewChanges:
    """Changes after `prev` up to `seq`. at: when the broker stored the newest fact folded.

    prev is later than what was asked for if facts between the two are no longer known here.
    """

    prev: int
    seq: int
    at: int
    jobs: Rows = field(default_factory=dict)
    nodes: Rows = field(default_factory=dict)
    queues: Rows = field(default_factory=dict)
    reservations: Rows = field(default_factory=dict)
    facts: tuple[ShownFact, ...] = ()
