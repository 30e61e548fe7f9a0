"""What a projection has to tell: changed rows of the read model, encoded, and facts as people see them."""

from dataclasses import dataclass, field

from muster.core.fact import Fact
from muster.schemas.job import Phase
from muster.schemas.readmodel import order_key
from muster.schemas.views import FactView, JobView

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
