"""Messages of the live view to dashboards: bodies on `view.<cluster>.<audience>.…`, and the snapshot before them.

A dashboard subscribes, then gets `GET /v1/snapshot`, and from then on applies slices in the order in which they arrive:
- `prev` is above its own sequence for that audience: a slice was lost; get a new snapshot, and keep this slice and
  all later ones until then, because the read model may be slightly behind.
- `seq` is below its own: drop the slice.
- The changes up to one moment may be too large for one message: they then come in `parts` slices, numbered by `part`.
  After a part that is not the last, the next part must follow; any other slice that is not dropped means that one was
  lost.
- `seq` is its own: drop the slice, unless it is the next part. Otherwise apply its rows and those of its facts that are
  above its own sequence, and set its own sequence to `seq`.

With several clusters (`Snapshot.seqs` names them), each log can have facts about any job. Then a row of a job from a
cluster's log is shown only while the newest row from the federation's log names that cluster, in any order of arrival;
a row of another cluster is kept, within bounds, until it does. A snapshot's rows name their clusters themselves.

A slice with `seq` = `prev` repeats the position of the audience, so that the loss of the last slice is detected, too.
`public` gets one each second without other slices, a team for some seconds after its last fact.
"""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Wire
from muster.schemas.views import FactView, JobView, NodeView, QueueView, ReservationView

PUBLIC_AUDIENCE = "public"
FED_CLUSTER = "fed"
"""Names the federation's log in place of a cluster."""
SLICE_FACTS_MAX = 1_000
SLICE_BYTES_MAX = 768 * 1024  # of a NATS message of 1 MiB

Reading = tuple[float, float, int, float]
"""One GPU: utilization in percent, temperature in °C, memory used in MiB, power in W."""


class LiveSlice(Wire):
    """Changes of one log since the previous slice, for one audience: body of `view.<cluster>.<audience>.slice`.

    And, deflated (zlib's format, RFC 1950), of `….packed`: an eighth of the bytes. seq: sequence up to which it is
    complete (for a team, its newest fact); prev: sequence before it. at: when the broker stored the newest folded fact.

    Rows hold the present state and go to `public` only; drop a row older than the one that a client has
    (`JobView.seq`). A job's row that would be too long alone comes without slots and nodes. gone_*: removed rows;
    of the federation's jobs, only its own row. facts: to `public` without the bodies of facts about one job; to a
    team, the facts of its jobs and of objects that serve them, with their bodies.
    """

    cluster: str
    audience: str
    seq: int
    prev: int
    at: InstantNs = 0
    part: int = 1
    parts: int = 1
    jobs: tuple[JobView, ...] = ()
    gone_jobs: tuple[str, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    gone_nodes: tuple[str, ...] = ()
    queues: tuple[QueueView, ...] = ()
    gone_queues: tuple[str, ...] = ()
    reservations: tuple[ReservationView, ...] = ()
    gone_reservations: tuple[str, ...] = ()
    facts: tuple[FactView, ...] = ()


class LiveTelemetry(Wire):
    """Newest readings of the nodes that reported since the last message: body of `view.<cluster>.public.telemetry`.

    nodes: per node, one reading for each GPU place, None for an empty place.
    """

    cluster: str
    at: InstantNs
    nodes: dict[str, tuple[Reading | None, ...]]


class Snapshot(Wire):
    """The start of a dashboard: every live row, and the sequence up to which it is complete, by cluster and audience.

    seqs: for a principal that may see every team, `*` is every audience that is not named. jobs: jobs that have not
    ended; get ended jobs page by page. telemetry: as in `LiveTelemetry.nodes`. unconfirmed_jobs: rows of a cluster
    for jobs that the federation has not assigned to it, as far as its own rows show; at most 1,000 per cluster.
    Keep them as rows of slices.
    """

    seqs: dict[str, dict[str, int]]
    at: InstantNs
    jobs: tuple[JobView, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    queues: tuple[QueueView, ...] = ()
    reservations: tuple[ReservationView, ...] = ()
    telemetry: dict[str, tuple[Reading | None, ...]] = Field(default_factory=dict)
    unconfirmed_jobs: tuple[JobView, ...] = ()


class LiveCredential(Wire):
    """A broker user for a dashboard: it may subscribe to the view of its teams, for a short time.

    url: of the WebSocket. inbox_prefix: the only prefix on which it may receive replies. audiences: that it may
    see, `*` for every team. clusters: including `fed`.
    """

    url: str
    jwt: str
    seed: str
    inbox_prefix: str
    expires_at_s: int
    clusters: tuple[str, ...]
    audiences: tuple[str, ...]


class JobReadings(Wire):
    """The readings of one job's devices over time, as far as they are kept: answer of `GET /v1/jobs/{id}/telemetry`.

    at: one time per column. devices: `<node>/<index>` -> one reading per column, None without one.
    """

    job_id: str
    at: tuple[InstantNs, ...] = ()
    devices: dict[str, Annotated[tuple[Reading | None, ...], Field(max_length=4_096)]] = Field(default_factory=dict)


OLDEST = "oldest"
"""Cursor before the oldest kept line of a job's output."""


class OutputPage(Wire):
    """A job's newest output lines, oldest first: answer of `GET /v1/jobs/{id}/output`.

    end: cursor after the lines, for `after` of the next request; empty while the job has no cluster.
    """

    job_id: str
    lines: tuple["OutputLine", ...] = ()
    end: str = ""


class OutputLine(Wire):
    """One line that a replica printed."""

    at: InstantNs
    group: int = 0
    replica: int = 0
    attempt: int = 0
    text: str = ""
