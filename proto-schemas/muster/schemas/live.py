"""What dashboards are sent while they look: bodies on `view.<cluster>.<audience>.…`, and what they begin with.

A dashboard subscribes, then takes `GET /v1/snapshot`, and from then on applies slices, in the order in which they come:

- `prev` is above its own sequence for that audience: a slice was lost; take a new snapshot, and keep this slice and
  what follows until then, because the read model may be a moment behind.
- `seq` is below its own: drop it.
- what happened up to one moment may be too much for one message: then it comes in `parts` slices, numbered by `part`.
  After a part that is not the last, the next part must come; anything else that is not dropped tells that one was lost.
- `seq` is its own: drop it, unless it is the next part. Otherwise apply its rows, those of its facts that are above its
  own sequence, and take `seq` for its own.

Where there are several clusters (`Snapshot.seqs` names them), each log can tell of any job. Then a row of a job from a
cluster's log is shown only while the newest row from the federation's log names that cluster, whichever came first; a
row of another cluster is kept, within bounds, until it does. A snapshot's rows name their clusters themselves.

A slice with `seq` = `prev` repeats where the audience stands, so that also the loss of the last one shows. `public` has
one a second where nothing else is told, a team for some seconds after its last fact.
"""

from typing import Annotated

from pydantic import Field

from muster.schemas.base import InstantNs, Wire
from muster.schemas.views import FactView, JobView, NodeView, QueueView, ReservationView

PUBLIC_AUDIENCE = "public"
FED_CLUSTER = "fed"
"""Stands for the federation's log where a cluster is named."""
SLICE_FACTS_MAX = 1_000
SLICE_BYTES_MAX = 768 * 1024  # of a NATS message of 1 MiB

Reading = tuple[float, float, int, float]
"""One GPU: utilisation in per cent, temperature in °C, memory used in MiB, power in W."""


class LiveSlice(Wire):
    """What became of one log since the slice before, for one audience: body of `view.<cluster>.<audience>.slice`,
    and, deflated (zlib's format, RFC 1950), of `….packed`: an eighth of the bytes.

    seq: up to where it goes (for a team, its newest fact); prev: from where. at: when the broker stored the newest fact
    folded.
    Rows stand as they are now and go to `public` alone; a row older than the one that a client has (`JobView.seq`) is
    to be dropped. A job's row that alone would be too long comes without slots and nodes. gone_*: rows that were taken
    away; of the federation's jobs, only its own row. facts: to `public` without the bodies of what concerns one job;
    to a team, the facts of its jobs and of what serves them with their bodies.
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
    """Newest readings of the nodes that reported since the last one: body of `view.<cluster>.public.telemetry`.

    nodes: per node, one reading for each place of a GPU, None where there is none.
    """

    cluster: str
    at: InstantNs
    nodes: dict[str, tuple[Reading | None, ...]]


class Snapshot(Wire):
    """Where a dashboard begins: everything that is live, and up to which sequence, by cluster and audience.

    seqs: for who may see every team, `*` stands for every audience that is not named.
    jobs: those that have not ended; the rest is asked for page by page. telemetry: as in `LiveTelemetry.nodes`.
    unconfirmed_jobs: rows that a cluster has of jobs which the federation has not given to it, as far as its own rows
    tell; at most 1,000 of each cluster. They are kept as rows of slices are.
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
    """What a dashboard connects to NATS with: a user that may subscribe to the view of its teams, for a short time.

    url: of the WebSocket. inbox_prefix: the only place where it may receive replies. audiences: those that it may
    see, `*` for every team. clusters: `fed` among them.
    """

    url: str
    jwt: str
    seed: str
    inbox_prefix: str
    expires_at_s: int
    clusters: tuple[str, ...]
    audiences: tuple[str, ...]


class JobReadings(Wire):
    """The devices of one job over time, as far as they are kept: answer of `GET /v1/jobs/{id}/telemetry`.

    at: one moment per column. devices: `<node>/<index>` -> one reading per moment, None where there was none.
    """

    job_id: str
    at: tuple[InstantNs, ...] = ()
    devices: dict[str, Annotated[tuple[Reading | None, ...], Field(max_length=4_096)]] = Field(default_factory=dict)


class OutputPage(Wire):
    """A job's newest output lines, oldest first: answer of `GET /v1/jobs/{id}/output`. lines: as they were printed."""

    job_id: str
    lines: tuple["OutputLine", ...] = ()


class OutputLine(Wire):
    """One line that a replica printed."""

    at: InstantNs
    group: int = 0
    replica: int = 0
    attempt: int = 0
    text: str = ""
