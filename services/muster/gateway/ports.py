"""The ports of the gateway; tests implement them with fakes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from muster.core import Draft
from muster.gateway.authorise import Principal
from muster.schemas.access import TokenRecord, TokenView
from muster.schemas.apiserver import ApiServerReport, ClusterView
from muster.schemas.base import JobId, Wire
from muster.schemas.facts.job import JobCancelRequested
from muster.schemas.facts.job_requests import Ask, JobEditRequested, JobHoldRequested, JobPriorityRequested
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.facts.workload import JobRefused
from muster.schemas.job import Job, JobSpec, Phase
from muster.schemas.queries import (
    AskCompose,
    AskDetach,
    DeviceCheckAnswer,
    DevicesAnswer,
    DryRunAnswer,
    QueueCheckAnswer,
    RequestsAnswer,
    ScaleAnswer,
    WhyAnswer,
)
from muster.schemas.views import JobView

Answer = TypeVar("Answer", bound=Wire)

NodeShape = tuple[str, int, int, int, tuple[str, ...]]
"""gpu_model, gpus, cpu_milli, memory_mib, topology levels (widest first)."""


class UnreachableError(Exception):
    """A service that the gateway asks does not answer now."""


class NotStoredError(Exception):
    """The fact of a request is not in the log, or its outcome is unknown; the same request may be sent again."""


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as FED has stored it."""

    job: Job
    seq: int
    """Sequence of its `submitted` in FED."""
    submitted_at: int
    """The broker's time stamp; 0 if this call stored the job."""
    is_new: bool
    """Whether this call stored the job."""


@dataclass(frozen=True, slots=True)
class JobRef:
    """A job's id, and the trace that a fact about the job carries."""

    id: str
    trace: str


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A request about a job other than its cancellation."""

    ask: Ask | Literal["requeue", "edit"]
    payload: JobHoldRequested | JobPriorityRequested | JobEditRequested


class RequestLog(Protocol):
    """The writes and reads of the gateway in FED. Every method raises NotStoredError or UnreachableError."""

    async def submit(self, job: Job) -> StoredJob:
        """Store `submitted` unless the job is stored already; return the job as stored."""
        ...

    async def submitted(self, job_id: JobId) -> StoredJob | None:
        """Return the job as it was submitted; None if it never was, or if FED was trimmed since."""
        ...

    async def request_cancel(self, job: JobView | JobRef, payload: JobCancelRequested) -> None:
        """Store `cancel-requested`."""
        ...

    async def refuse(self, job: JobRef, payload: JobRefused) -> None:
        """Store `refused`, unless the job was refused before."""
        ...

    async def is_refused(self, job_id: JobId, request: str) -> bool:
        """Return whether the newest answer to the job is a `refused` for the request fact with the id `wish`."""
        ...

    async def request_of_job(self, job: JobView, asked: JobRequest, *, key: str) -> None:
        """Store `hold-requested`, `release-requested`, `priority-requested`, `requeue-requested` or
        `edit-requested`. key: the idempotency key; the same key gives the same request."""
        ...

    async def request(self, asked: Draft, *, key: str) -> None:
        """Store a request about a queue, a reservation, a device or a composability request.

        key: the idempotency key; the same key of the same principal gives the same request.
        """
        ...

    async def request_operation(self, asked: Draft, *, key: str) -> None:
        """Store a request about a node, a campaign or the brake, such as `cordon-requested`. key: as in `request`."""
        ...


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list. An empty field matches every job."""

    team: str = ""
    queue: str = ""
    phase: Phase | None = None
    live_only: bool = False
    """List only jobs that have not ended."""
    user: str = ""
    """The principal that submitted the job."""
    ended_only: bool = False
    """List only jobs that have ended, the last to end first."""
    ended_from: int = 0
    """Earliest end of ended jobs, in nanoseconds since 1970."""
    ended_before: int = 0
    """Bound of the end of ended jobs, exclusive; 0: no limit."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of encoded rows, newest first."""

    rows: tuple[bytes, ...]
    next_cursor: str
    """Cursor of the next page; "" on the last page."""


@dataclass(frozen=True, slots=True)
class Known:
    """Contents of the read model about a job."""

    row: bytes | None
    """The job's encoded row; None if there is none."""
    fed_seq: int
    """Sequence of FED up to which the read model is complete."""


class ReadView(Protocol):
    """The read model. Every method raises UnreachableError."""

    async def job(self, job_id: str) -> Known:
        """Return a job's row: of the cluster that has the job, else of the federation."""
        ...

    async def jobs(self, wanted: JobFilter, *, limit: int, cursor: str) -> Page:
        """Return a page of jobs, newest first."""
        ...

    async def trail(self, job_id: str) -> tuple[bytes, ...]:
        """Return all kept facts of a job, encoded, by time: of the federation and of the job's cluster."""
        ...

    async def logs_of(self, job_id: str) -> frozenset[str] | None:
        """Return the streams that `trail` reads for the job; None means all streams, if there is one cluster."""
        ...

    async def nodes(self) -> tuple[bytes, ...]:
        """Return all nodes, encoded, by name."""
        ...

    async def queues(self) -> tuple[bytes, ...]:
        """Return all queues, encoded, by name."""
        ...

    async def reservations(self) -> tuple[bytes, ...]:
        """Return all booked reservations, encoded, by name."""
        ...

    async def shapes(self) -> Sequence[NodeShape] | None:
        """Return the distinct node shapes; None while the read model was never written."""
        ...


class Scheduler(Protocol):
    """Questions to the scheduler. Every method raises UnreachableError, or ProblemError if the scheduler refuses."""

    async def job(self, job_id: str) -> JobView | None:
        """Return the job as the scheduler folded it."""
        ...

    async def why(self, job_id: str) -> WhyAnswer:
        """Return why the job is in its present state."""
        ...

    async def dry_run(self, spec: JobSpec) -> DryRunAnswer:
        """Return what would happen to the job if it were submitted now."""
        ...

    async def queue_check(self, spec: QueueSpec, *, accepted: Sequence[QueueSpec] = ()) -> QueueCheckAnswer:
        """Return whether the queue may be created or changed so. accepted: changes to assume as made before."""
        ...

    async def reservation_check(self, spec: ReservationSpec) -> QueueCheckAnswer:
        """Return whether the reservation can be booked."""
        ...

    async def queues(self) -> tuple[bytes, ...]:
        """Return all queues, encoded."""
        ...

    async def reservations(self) -> tuple[bytes, ...]:
        """Return all booked reservations, encoded, by name."""
        ...

    async def nodes(self) -> tuple[bytes, ...]:
        """Return all nodes, encoded."""
        ...

    async def cluster(self) -> ClusterView:
        """Return the properties and the current use of the cluster."""
        ...


class Composer(Protocol):
    """Questions to the composer. Every method raises UnreachableError, or ProblemError if the composer refuses."""

    cluster: str
    """The composer's cluster; requests about devices are addressed to this cluster alone."""

    async def devices(self, *, only: str = "") -> DevicesAnswer:
        """Return the attached and moving devices, and the fabrics. only: the answer may be narrowed to this uuid."""
        ...

    async def requests(self, *, only: str = "") -> RequestsAnswer:
        """Return the ComposabilityRequests, newest first, also ended ones. only: the answer may be narrowed to this
        name."""
        ...

    async def compose_check(self, question: AskCompose) -> DeviceCheckAnswer:
        """Return whether the composer would accept this request."""
        ...

    async def detach_check(self, question: AskDetach) -> DeviceCheckAnswer:
        """Return whether the device, or all devices of the request, may be detached."""
        ...


class Scaler(Protocol):
    """Questions to the scaler. Raises as `Composer` does."""

    async def choices(self) -> ScaleAnswer:
        """Return the newest scaling decisions, newest first."""
        ...


class Guard(Protocol):
    """Questions to the guard. Raises as `Composer` does."""

    async def report(self) -> ApiServerReport:
        """Return the state of the API servers."""
        ...


class Leaders(Protocol):
    """Questions to the leader of any service of one cluster, as its declaration lists them. Raises as `Composer`
    does."""

    async def ask(self, service: str, name: str, question: Wire, answer: type[Answer]) -> Answer:
        """Return the leader's answer to the question of this name."""
        ...


class Tokens(Protocol):
    """The API tokens and their principals."""

    @property
    def is_ready(self) -> bool:
        """Return whether all tokens were read at least once."""
        ...

    def principal(self, token_id: str) -> Principal | None:
        """Return the principal of the token with this id (its hash). The token may have expired."""
        ...

    def views(self) -> tuple[TokenView, ...]:
        """Return all tokens, by principal."""
        ...

    async def put(self, token: str, record: TokenRecord) -> TokenView:
        """Store a token for its principal. Raises UnreachableError."""
        ...

    async def delete(self, token_id: str) -> bool:
        """Revoke a token; return False if it does not exist. Raises UnreachableError."""
        ...
