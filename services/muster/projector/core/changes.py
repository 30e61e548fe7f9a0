"""Changes of a projection: changed rows, encoded, and the newest facts as users see them."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from muster.core.fact import Fact
from muster.schemas.job import Phase
from muster.schemas.readmodel import order_key
from muster.schemas.views import FactView, JobView

Encode = Callable[[str], bytes | None]
"""Return the present row of that name, encoded; None if there is none."""


class Marks:
    """Names of changed rows, recorded separately for the store and for the live view.

    A body is kept only from its first consumer to its second, and not beyond the row's next change. The live view's
    marks are kept only while it is watched.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._stored: dict[str, None] = {}
        self._shown: dict[str, None] | None = None
        self._bodies: dict[str, bytes | None] = {}

    def touch(self, name: str) -> None:
        """Record a change of the row."""
        self._stored[name] = None
        if self._shown is not None:
            self._shown[name] = None
            self._bodies.pop(name, None)

    def touch_stored(self, names: Iterable[str]) -> None:
        """Mark these rows for the store, whether they changed or not."""
        self._stored.update(dict.fromkeys(names))

    def drop_stored(self, name: str) -> None:
        """Remove the row from the store's marks."""
        self._stored.pop(name, None)
        self._bodies.pop(name, None)

    def watch(self, *, on: bool) -> None:
        """Start or stop recording marks for the live view; earlier changes are not included."""
        self._shown = {} if on else None
        self._bodies.clear()

    def take_stored(self) -> dict[str, bytes | None]:
        """Return the rows that the store lacks, in the order of their first change."""
        taken, self._stored = self._stored, {}
        return self._taken(taken, self._shown)

    def take_shown(self) -> dict[str, bytes | None]:
        """Return the rows that the live view lacks; none while it is not watched."""
        if not self._shown:
            return {}
        taken, self._shown = self._shown, {}
        return self._taken(taken, self._stored)

    def _taken(self, names: dict[str, None], other: dict[str, None] | None) -> dict[str, bytes | None]:
        """Return the present bodies of these rows. other: names that the other consumer still lacks."""
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
"""Kind of facts about objects that stand for a job, or request to."""


@dataclass(frozen=True, slots=True)
class ShownFact:
    """A fact as it is stored for users. job_id, team: empty for a fact that neither is about a job nor serves one.

    serves: it is of another kind and carries the job's trace; a job's own facts name it themselves. time: the
    broker's. team_prev: sequence of the previous shown fact about, or serving, a job of the same team; if unknown,
    of a later one. private: its body is not public, although it is about no known job.
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
    """Encode a fact as `FactView`. job_id: the job that it is about or serves, if any. team_prev: as in `ShownFact`."""
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
    """One job's row as it should be stored. order: sort key, submission time then id, unique.

    listed: whether it is in the list of its phase. was: the phase of its last write, None if it was not written or
    that is unknown. ended_order: sort key by end, "" for a live job. cluster: to be stored as the job's cluster;
    None: this projection does not know it.
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
    """Return the encoded change of a row. body: if it was encoded before. cluster: as in `JobChange`."""
    encoded = row.encoded() if body is None else body
    ended = order_key(row.ended_at, row.id) if row.phase.is_terminal else ""
    order = order_key(row.submitted_at, row.id)
    return JobChange(row.id, order, row.team, row.queue, row.phase, was, row.seq, encoded, ended, listed, cluster)


@dataclass(slots=True)
class Changes:
    """The changes that the read model lacks. nodes, queues, reservations: None removes the row.

    shapes: the distinct shapes of nodes, encoded. catch_up: the stored phase of these rows is unknown.
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
        """Return whether there is anything to write."""
        rows = self.jobs or self.removed or self.nodes or self.queues or self.reservations or self.facts
        return bool(rows or self.shapes is not None)


RING_BYTES_MAX = 8 * 1024 * 1024  # about 15,000 facts of a usual size


@dataclass(slots=True)
class FactRing:
    """Newest facts in log order, limited in bytes. forgotten_seq: sequence of the newest dropped fact, 0 for none."""

    bytes_max: int = RING_BYTES_MAX
    forgotten_seq: int = 0
    _facts: deque[ShownFact] = field(default_factory=deque)
    _bytes: int = 0

    def push(self, fact: ShownFact) -> None:
        """Add the newest fact; drop the oldest while there are too many bytes (one fact always stays)."""
        self._facts.append(fact)
        self._bytes += len(fact.body)
        while self._bytes > self.bytes_max and len(self._facts) > 1:
            oldest = self._facts.popleft()
            self._bytes -= len(oldest.body)
            self.forgotten_seq = oldest.seq

    def after(self, seq: int) -> list[ShownFact]:
        """Return the facts after `seq`, in log order. The cost grows with the result."""
        found: list[ShownFact] = []
        for fact in reversed(self._facts):
            if fact.seq <= seq:
                break
            found.append(fact)
        found.reverse()
        return found


Rows = Mapping[str, bytes | None]
"""Encoded rows by name; None: the row was removed."""


@dataclass(frozen=True, slots=True)
class ViewChanges:
    """Changes after `prev` up to `seq`. at: when the broker stored the newest folded fact.

    prev is later than requested if facts in between are no longer known here.
    """

    prev: int
    seq: int
    at: int
    jobs: Rows = field(default_factory=dict)
    nodes: Rows = field(default_factory=dict)
    queues: Rows = field(default_factory=dict)
    reservations: Rows = field(default_factory=dict)
    facts: tuple[ShownFact, ...] = ()
