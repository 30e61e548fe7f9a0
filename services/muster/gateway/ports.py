"""What the gateway needs of the world, as it sees it; tests bring their own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from muster.core import Draft
from muster.gateway.authorise import Principal
from muster.schemas.access import TokenRecord, TokenView
from muster.schemas.apiserver import ApiServerReport, ClusterView
from muster.schemas.base import JobId, Wire
from muster.schemas.facts.job import JobCancelRequested
from muster.schemas.facts.job_wishes import Ask, JobHoldRequested, JobPriorityRequested
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
    """Somebody whom the gateway asks does not answer (now)."""


class NotStoredError(Exception):
    """A request's fact is not in the log, or nobody can tell now; the same request may be sent again."""


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as FED has it. seq: where. submitted_at: the broker's stamp. is_new: this call stored it (no stamp yet)."""

    job: Job
    seq: int
    submitted_at: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class JobRef:
    """A job by its id, and the trace that a fact about it carries."""

    id: str
    trace: str


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What is asked of a job beside its end."""

    ask: Ask
    payload: JobHoldRequested | JobPriorityRequested


class RequestLog(Protocol):
    """FED, as far as the gateway may write and read it. Every method raises NotStoredError or UnreachableError."""

    async def submit(self, job: Job) -> StoredJob:
        """Store `submitted`, unless the job is there: then it is given back as it was stored."""
        ...

    async def submitted(self, job_id: JobId) -> StoredJob | None:
        """The job as it was submitted; None if it never was (or FED was trimmed since)."""
        ...

    async def request_cancel(self, job: JobView | JobRef, payload: JobCancelRequested) -> None:
        """Store `cancel-requested`."""
        ...

    async def refuse(self, job: JobRef, payload: JobRefused) -> None:
        """Store `refused`, unless the job was refused before."""
        ...

    async def is_refused(self, job_id: JobId, wish: str) -> bool:
        """Whether `refused` stands there as the newest answer, and to this wish, a fact's id."""
        ...

    async def request_of_job(self, job: JobView, asked: JobRequest, *, key: str) -> None:
        """Store `hold-requested`, `release-requested` or `priority-requested`. key: the same again is the same one."""
        ...

    async def request(self, asked: Draft, *, key: str) -> None:
        """Store a request about a queue, a reservation, a device or a composability request.

        key: the same key again is the same request, of the same principal.
        """
        ...

    async def request_operation(self, asked: Draft, *, key: str) -> None:
        """Store what is asked of a node, a campaign or a brake: `cordon-requested`, ...; key as above."""
        ...


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list. Empty means any. live_only: those that have not ended."""

    team: str = ""
    queue: str = ""
    phase: Phase | None = None
    live_only: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, encoded, newest first. next_cursor: where the next page begins, "" if this is the last."""

    rows: tuple[bytes, ...]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class Known:
    """A job's row, encoded, or None; and up to which sequence of FED the read model is known to hold."""

    row: bytes | None
    fed_seq: int


class ReadView(Protocol):
    """The read model. Every method raises UnreachableError."""

    async def job(self, job_id: str) -> Known:
        """One job's row: that of the cluster which has it, else the federation's."""
        ...

    async def jobs(self, wanted: JobFilter, *, limit: int, cursor: str) -> Page:
        """A page of jobs, newest first."""
        ...

    async def trail(self, job_id: str) -> tuple[bytes, ...]:
        """All facts of a job that are kept, encoded, by time: of the federation and of the cluster that has the job."""
        ...

    async def logs_of(self, job_id: str) -> frozenset[str] | None:
        """The streams whose facts are the job's, as `trail` takes them; None: all, where there is one cluster."""
        ...

    async def nodes(self) -> tuple[bytes, ...]:
        """All nodes, encoded, by name."""
        ...

    async def queues(self) -> tuple[bytes, ...]:
        """All queues, encoded, by name."""
        ...

    async def reservations(self) -> tuple[bytes, ...]:
        """All reservations that are booked, encoded, by name."""
        ...

    async def shapes(self) -> Sequence[NodeShape] | None:
        """Distinct node shapes; None while the read model was never written."""
        ...


class Scheduler(Protocol):
    """The scheduler's answers. Every method raises UnreachableError, or ProblemError if it refuses."""

    async def job(self, job_id: str) -> JobView | None:
        """The job as the scheduler folded it."""
        ...

    async def why(self, job_id: str) -> WhyAnswer:
        """Why it is where it is."""
        ...

    async def dry_run(self, spec: JobSpec) -> DryRunAnswer:
        """What would happen to it now."""
        ...

    async def queue_check(self, spec: QueueSpec, *, accepted: Sequence[QueueSpec] = ()) -> QueueCheckAnswer:
        """Whether the queue may be so. accepted: changes to be thought of as made before."""
        ...

    async def reservation_check(self, spec: ReservationSpec) -> QueueCheckAnswer:
        """Whether this may be kept."""
        ...

    async def queues(self) -> tuple[bytes, ...]:
        """All queues, encoded."""
        ...

    async def reservations(self) -> tuple[bytes, ...]:
        """All reservations that are booked, encoded, by name."""
        ...

    async def nodes(self) -> tuple[bytes, ...]:
        """All nodes, encoded."""
        ...

    async def cluster(self) -> ClusterView:
        """What its cluster is and how full it is."""
        ...


class Composer(Protocol):
    """The composer's answers. Every method raises UnreachableError, or ProblemError if it refuses.

    cluster: whose composer it is; requests about devices are addressed to it alone.
    """

    cluster: str

    async def devices(self, *, only: str = "") -> DevicesAnswer:
        """Attached devices and those on their way, and the fabrics. only: the answer may be narrowed to this uuid."""
        ...

    async def requests(self, *, only: str = "") -> RequestsAnswer:
        """ComposabilityRequests, newest first, ended ones too. only: the answer may be narrowed to this name."""
        ...

    async def compose_check(self, question: AskCompose) -> DeviceCheckAnswer:
        """Whether this may be."""
        ...

    async def detach_check(self, question: AskDetach) -> DeviceCheckAnswer:
        """Whether this device, or request, may go."""
        ...


class Scaler(Protocol):
    """The scaler's answers. Raises as `Composer` does."""

    async def choices(self) -> ScaleAnswer:
        """Its newest choices, newest first."""
        ...


class Guard(Protocol):
    """The guard's answers. Raises as `Composer` does."""

    async def report(self) -> ApiServerReport:
        """How the API servers are."""
        ...


class Leaders(Protocol):
    """Whoever leads a service of one cluster, asked what its declaration answers. Raises as `Composer` does."""

    async def ask(self, service: str, name: str, question: Wire, answer: type[Answer]) -> Answer:
        """The leader's answer to a question of that name."""
        ...


class Tokens(Protocol):
    """Who bears which token."""

    @property
    def is_ready(self) -> bool:
        """Whether all tokens were read once."""
        ...

    def principal(self, token_id: str) -> Principal | None:
        """Whose token has this id (its hash). It may have expired."""
        ...

    def views(self) -> tuple[TokenView, ...]:
        """All tokens, by principal."""
        ...

    async def put(self, token: str, record: TokenRecord) -> TokenView:
        """Let the token be this principal's. Raises UnreachableError."""
        ...

    async def delete(self, token_id: str) -> bool:
        """Revoke it; False if there is none. Raises UnreachableError."""
        ...
