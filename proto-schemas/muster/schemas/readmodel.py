"""Layout of the read model in Redis, which the projector writes and the gateway reads.

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

A cluster's rows hold what that cluster's own log holds, also about jobs that it was never assigned. The federation's
row of a job names the cluster that the job is, or was last, assigned to. With several clusters, the rows of ended jobs
stay in the federation's namespace as they do in a cluster's, ENDED_ROWS_MAX for each cluster.
"""

from dataclasses import dataclass

from muster.schemas.job import Phase
from muster.schemas.registry import StreamRole
from muster.schemas.subjects import LogName

LAYOUT_VERSION = "5"
ENDED_ROWS_MAX = 25_000  # kept rows of ended jobs; with their facts about 8 KiB each
RECENT_FACTS_MAX = 20_000  # sequences that `recent` reaches back
ENTRY_FACTS_MAX = 500  # facts in one entry of `recent`
ORDER_DIGITS = 20


@dataclass(frozen=True, slots=True)
class ReadModel:
    """Names of the keys of one log's rows. scope: the cluster, or `fed`."""

    scope: str

    def key(self, name: str) -> str:
        """Return a key of this namespace."""
        return f"muster:{self.scope}:{name}"

    @property
    def pattern(self) -> str:
        """Return a pattern of every key of this namespace and no other (a scope holds no colon)."""
        return f"muster:{self.scope}:*"

    def team(self, team: str) -> str:
        """Return the key of a team's list of jobs, by time of submission."""
        return self.key(f"team:{team}")

    def queue(self, queue: str) -> str:
        """Return the key of a queue's list of jobs, by time of submission."""
        return self.key(f"queue:{queue}")

    def phase(self, phase: Phase) -> str:
        """Return the key of the list of jobs in a phase, by time of submission."""
        return self.key(f"phase:{phase.value}")


def read_model(log: LogName) -> ReadModel:
    """Return the key names of a log."""
    assert log.role is not StreamRole.FED_UP, "reports are not projected"
    return ReadModel(log.scope)


def order_key(time_ns: int, job_id: str) -> str:
    """Return the member of a job in a list: it sorts by time, then by id."""
    return f"{time_ns:0{ORDER_DIGITS}d}:{job_id}"


def fact_member(job_id: str, seq: int, body: bytes) -> bytes:
    """Return the member of a fact in `facts`: it sorts by job, then by sequence; writing it again changes nothing."""
    return f"{job_id}:{seq:0{ORDER_DIGITS}d}:".encode() + body


def fact_body(member: bytes) -> bytes:
    """Return the FactView of a member of `facts`."""
    return member.split(b":", 2)[2]


def fact_range(job_id: str) -> tuple[str, str]:
    """Return the bounds of one job's facts, for a range by member."""
    return f"[{job_id}:", f"({job_id};"


def recent_field(seq: int, team: str, *, job_id: str = "") -> str:
    """Return the name of a fact's field in an entry of `recent`. team: of the fact's job, else empty.

    job_id: the job that a fact of another kind serves; a job's own facts name it themselves.
    """
    return f"{seq}:{team}:{job_id}" if job_id else f"{seq}:{team}"


def parse_recent_field(field: bytes) -> tuple[int, str, str]:
    """Return the sequence, team and job of a field of `recent`."""
    seq, _, rest = field.decode().partition(":")
    team, _, job_id = rest.partition(":")
    return int(seq), team, job_id
