"""Where the read model's rows stand in Redis: what the projector writes and the gateway reads.

One namespace per log, `muster:<scope>:`, and one projection writes it. A list is a sorted set whose members, all with
score 0, sort as text: a page is a range by member, and a cursor is a member.

    marker   hash     seq: newest fact that the rows hold; log: identity of the log; version: of this layout
    jobs     hash     job id -> JobView
    assigned hash     of the federation, where there are several clusters: id of a live job -> the cluster that has it,
                      empty while none has
    nodes    hash     node -> NodeView
    queues   hash     queue -> QueueView, without shares
    reservations hash name -> ReservationView, what was booked
    telemetry hash   node -> its newest readings, as in `LiveTelemetry.nodes`
    shapes   string   distinct node shapes: [[gpu_model, gpus, cpu_milli, memory_mib, levels], ...]
    all, live, ended, team:<t>, queue:<q>, phase:<p>    lists of `<time, 20 digits>:<job id>`
    facts    list     `<job id>:<seq, 20 digits>:<FactView>`, every fact of every job, and facts of other kinds that
                      carry a live job's trace
    recent   stream   newest facts of any kind: entry `<seq>-0` holds fields `<seq>:<team>` -> FactView, up to it; of a
                      fact of another kind that carries a job's trace `<seq>:<team>:<job id>`

A cluster's rows say what that cluster's own log says, also of jobs that it was never given. Which cluster a job is (or
was last) assigned to, the federation's row of the job says. Where there are several clusters, the rows of ended jobs
stay in the federation's namespace as they do in a cluster's, ENDED_ROWS_MAX for each cluster.
"""

from dataclasses import dataclass

from muster.schemas.job import Phase
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import LogName

LAYOUT_VERSION = "5"
ENDED_ROWS_MAX = 25_000  # jobs that ended stay so many; with their facts about 8 KiB each
RECENT_FACTS_MAX = 20_000  # sequences that `recent` reaches back
ENTRY_FACTS_MAX = 500  # facts in one entry of `recent`
ORDER_DIGITS = 20


@dataclass(frozen=True, slots=True)
class ReadModel:
    """Names of the keys of one log's rows. scope: the cluster, or `fed`."""

    scope: str

    def key(self, name: str) -> str:
        """A key of this namespace."""
        return f"muster:{self.scope}:{name}"

    @property
    def pattern(self) -> str:
        """Matches every key of this namespace and no other's (a scope holds no colon)."""
        return f"muster:{self.scope}:*"

    def team(self, team: str) -> str:
        """List of a team's jobs, by time of submission."""
        return self.key(f"team:{team}")

    def queue(self, queue: str) -> str:
        """List of a queue's jobs, by time of submission."""
        return self.key(f"queue:{queue}")

    def phase(self, phase: Phase) -> str:
        """List of jobs in a phase, by time of submission."""
        return self.key(f"phase:{phase.value}")


def read_model(log: LogName) -> ReadModel:
    """The rows of a log."""
    assert log.role is not StreamRole.FED_UP, "reports are not projected"
    return ReadModel(log.scope)


def order_key(time_ns: int, job_id: str) -> str:
    """Member of a list: sorts by time, then by id."""
    return f"{time_ns:0{ORDER_DIGITS}d}:{job_id}"


def fact_member(job_id: str, seq: int, body: bytes) -> bytes:
    """Member of `facts`: sorts by job, then by sequence; writing it again changes nothing."""
    return f"{job_id}:{seq:0{ORDER_DIGITS}d}:".encode() + body


def fact_body(member: bytes) -> bytes:
    """The FactView that a member of `facts` holds."""
    return member.split(b":", 2)[2]


def fact_range(job_id: str) -> tuple[str, str]:
    """Bounds, for a range by member, of one job's facts."""
    return f"[{job_id}:", f"({job_id};"


def recent_field(seq: int, team: str, *, job_id: str = "") -> str:
    """Name of a fact's field in an entry of `recent`. team: of the job it is about, else empty.

    job_id: the job that a fact of another kind serves; a job's own facts name it themselves.
    """
    return f"{seq}:{team}:{job_id}" if job_id else f"{seq}:{team}"


def parse_recent_field(field: bytes) -> tuple[int, str, str]:
    """Sequence, team and job that a field of `recent` names."""
    seq, _, rest = field.decode().partition(":")
    team, _, job_id = rest.partition(":")
    return int(seq), team, job_id
