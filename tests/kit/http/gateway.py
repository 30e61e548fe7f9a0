"""A harness without a bus: what the gateway needs, in memory, with every way to fail under the test's control."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx

from muster.bus.clock import SystemTime, TimeSource
from muster.core import Draft
from muster.gateway.accept import Shape
from muster.gateway.catalogue import CatalogueCache
from muster.gateway.cells import Cell
from muster.gateway.context import AppContext
from muster.gateway.feed import FedFact, Feed, Position
from muster.gateway.http import make_app
from muster.gateway.live_connections import Connection, LiveEnds, Opened
from muster.gateway.metrics import Metrics
from muster.gateway.ports import (
    Answer,
    JobFilter,
    JobRef,
    JobRequest,
    Known,
    NodeShape,
    NotStoredError,
    Page,
    StoredJob,
    UnreachableError,
)
from muster.gateway.problems import ProblemError
from muster.gateway.tokens import TokenTable
from muster.gateway.views import Views
from muster.schemas.access import Role, TokenRecord, TokenView, token_hash
from muster.schemas.apiserver import ApiServerReport, ClusterView
from muster.schemas.base import Wire
from muster.schemas.devices import DeviceView, FabricView, RequestView
from muster.schemas.facts.composability import ComposeRequested, DecomposeRequested, DetachRequested
from muster.schemas.facts.job import JobCancelRequested
from muster.schemas.facts.queue import QueueChangeRequested, QueueSpec
from muster.schemas.facts.reservation import ReservationSpec, ReserveEndRequested, ReserveRequested
from muster.schemas.facts.workload import JobRefused
from muster.schemas.job import Job, JobSpec
from muster.schemas.queries import (
    AskCompose,
    AskDetach,
    DeviceCheckAnswer,
    DevicesAnswer,
    DryRunAnswer,
    QueueCheckAnswer,
    RequestsAnswer,
    ScaleAnswer,
    ScaleChoiceView,
    WhyAnswer,
)
from muster.schemas.readmodel import order_key
from muster.schemas.views import FactView, JobView, NodeView, QueueView, ReservationView

FED = "FED"
LOG = "LOG_atlas"


class FakeLog:
    """FED in memory. fails: what the next writes raise. forgets_answer: stored, but the answer is lost."""

    def __init__(self) -> None:
        self.jobs: dict[str, StoredJob] = {}
        self.cancels: list[tuple[str, JobCancelRequested]] = []
        self.refused: dict[str, JobRefused] = {}
        self.of_jobs: dict[str, tuple[str, JobRequest]] = {}
        self.queue_requests: dict[str, QueueChangeRequested] = {}
        self.reservations: dict[str, ReserveRequested] = {}
        self.reservation_ends: list[tuple[str, ReserveEndRequested]] = []
        self.composed: dict[str, tuple[str, ComposeRequested]] = {}
        self.decomposed: list[tuple[str, DecomposeRequested]] = []
        self.detached: list[tuple[str, DetachRequested]] = []
        self.operations: dict[str, Draft] = {}
        self.traces: list[str] = []
        self.fails: Exception | None = None
        self.submits = 0
        """How often somebody tried."""

    async def submit(self, job: Job) -> StoredJob:
        self.submits += 1
        self._fail()
        known = self.jobs.get(job.id)
        if known is not None:
            return StoredJob(known.job, known.seq, known.submitted_at, is_new=False)
        seq = len(self.jobs) + 1
        self.jobs[job.id] = StoredJob(job, seq, seq, is_new=False)
        return StoredJob(job, seq, 0, is_new=True)

    async def submitted(self, job_id: str) -> StoredJob | None:
        if self.fails is not None:
            raise UnreachableError(str(self.fails))
        return self.jobs.get(job_id)

    async def request_cancel(self, job: JobView | JobRef, payload: JobCancelRequested) -> None:
        self._fail()
        self.cancels.append((job.id, payload))

    async def refuse(self, job: JobRef, payload: JobRefused) -> None:
        self._fail()
        self.refused[job.id] = payload

    async def is_refused(self, job_id: str, request: str) -> bool:
        if self.fails is not None:
            raise UnreachableError(str(self.fails))
        return job_id in self.refused and self.refused[job_id].wish == request

    async def request_of_job(self, job: JobView, asked: JobRequest, *, key: str) -> None:
        self._fail()
        self.of_jobs[f"{asked.ask} {key}"] = (job.id, asked)

    async def request(self, asked: Draft, *, key: str) -> None:
        self._fail()
        if asked.trace:
            self.traces.append(asked.trace)
        match asked.payload:
            case QueueChangeRequested() as payload:
                self.queue_requests[key] = payload
            case ReserveRequested() as payload:
                self.reservations[key] = payload
            case ReserveEndRequested() as payload:
                self.reservation_ends.append((asked.subject_id, payload))
            case ComposeRequested() as payload:
                self.composed[key] = (asked.subject_id, payload)
            case DecomposeRequested() as payload:
                self.decomposed.append((asked.subject_id, payload))
            case DetachRequested() as payload:
                self.detached.append((asked.subject_id, payload))
            case other:
                raise AssertionError(f"{other!r} is no request")

    async def request_operation(self, asked: Draft, *, key: str) -> None:
        self._fail()
        self.operations[key] = asked

    def _fail(self) -> None:
        if self.fails is not None:
            raise self.fails


class FakeView:
    """The read model in memory. is_down: it does not answer."""

    def __init__(self) -> None:
        self.rows: dict[str, JobView] = {}
        self.wanted: list[JobFilter] = []
        self.facts: dict[str, list[FactView]] = {}
        self.queue_rows = [
            QueueView(name="blue", cluster="atlas"),
            QueueView(name="shut", cluster="atlas", closed=True),
        ]
        self.reservation_rows: list[ReservationView] = []
        self.shape_rows: list[NodeShape] = [("H100", 8, 128_000, 1_000_000, ("block", "rack"))]
        self.fed_seq = 0
        self.is_down = False
        self.looks = 0
        self.logs: frozenset[str] | None = None
        """Streams that may tell of a job."""

    async def job(self, job_id: str) -> Known:
        self._answer()
        self.looks += 1
        row = self.rows.get(job_id)
        return Known(None if row is None else row.model_dump_json().encode(), self.fed_seq)

    async def jobs(self, wanted: JobFilter, *, limit: int, cursor: str) -> Page:
        self._answer()
        self.wanted.append(wanted)
        start = int(cursor.partition(":")[0] or 0)
        rows = [row for row in self.rows.values() if not wanted.team or row.team == wanted.team]
        page = tuple(row.model_dump_json().encode() for row in rows[start : start + limit])
        return Page(page, order_key(start + limit, "A" * 26) if start + limit < len(rows) else "")

    async def trail(self, job_id: str) -> tuple[bytes, ...]:
        self._answer()
        return tuple(fact.model_dump_json().encode() for fact in self.facts.get(job_id, []))

    async def logs_of(self, job_id: str) -> frozenset[str] | None:
        self._answer()
        return self.logs

    async def nodes(self) -> tuple[bytes, ...]:
        self._answer()
        return (NodeView(name="n1", cluster="atlas").model_dump_json().encode(),)

    async def queues(self) -> tuple[bytes, ...]:
        self._answer()
        return tuple(row.model_dump_json().encode() for row in self.queue_rows)

    async def reservations(self) -> tuple[bytes, ...]:
        self._answer()
        return tuple(row.model_dump_json().encode() for row in self.reservation_rows)

    async def shapes(self) -> list[NodeShape] | None:
        self._answer()
        return self.shape_rows

    def _answer(self) -> None:
        if self.is_down:
            raise UnreachableError("redis is down")


class FakeScheduler:
    """The scheduler's answers. is_down: it does not answer."""

    def __init__(self, view: FakeView) -> None:
        self._view = view
        self.known: dict[str, JobView] = {}
        self.is_down = False
        self.check = QueueCheckAnswer()
        self.checked = ""  # the queue that `check` is about, any by default
        self.accepted: list[str] = []
        self.queue_rows: list[QueueView] | None = None
        self.node_rows: list[NodeView] | None = None
        self.cluster_view = ClusterView(name="atlas", devices="kubelet", sharing="none", nodes=3)

    async def job(self, job_id: str) -> JobView | None:
        self._answer()
        return self.known.get(job_id)

    async def why(self, job_id: str) -> WhyAnswer:
        self._answer()
        return WhyAnswer(job=self.known.get(job_id), position=3, reason="no-capacity")

    async def dry_run(self, spec: JobSpec) -> DryRunAnswer:
        self._answer()
        return DryRunAnswer(placed=True, nodes=("n1",))

    async def queue_check(self, spec: QueueSpec, *, accepted: Sequence[QueueSpec] = ()) -> QueueCheckAnswer:
        self._answer()
        self.accepted = [one.name for one in accepted]
        return self.check if self.checked in ("", spec.name) else QueueCheckAnswer()

    async def reservation_check(self, spec: ReservationSpec) -> QueueCheckAnswer:
        self._answer()
        return self.check

    async def reservations(self) -> tuple[bytes, ...]:
        self._answer()
        return tuple(
            row.model_copy(update={"active": True}).model_dump_json().encode() for row in self._view.reservation_rows
        )

    async def cluster(self) -> ClusterView:
        self._answer()
        return self.cluster_view

    async def queues(self) -> tuple[bytes, ...]:
        self._answer()
        rows = self._view.queue_rows if self.queue_rows is None else self.queue_rows
        return tuple(row.model_dump_json().encode() for row in rows)

    async def nodes(self) -> tuple[bytes, ...]:
        self._answer()
        rows = [Shape(*shape) for shape in self._view.shape_rows]
        views = [
            NodeView(
                name="n",
                cluster="atlas",
                gpu_model=s.gpu_model,
                gpus=s.gpus,
                cpu_milli=s.cpu_milli,
                memory_mib=s.memory_mib,
            )
            for s in rows
        ]
        shown = views if self.node_rows is None else self.node_rows
        return tuple(view.model_dump_json().encode() for view in shown)

    def _answer(self) -> None:
        if self.is_down:
            raise UnreachableError("the scheduler is down")


class FakeComposer:
    """The composer's answers. is_down: it does not answer. asked: every check, in order."""

    cluster = "atlas"

    def __init__(self) -> None:
        self.device_rows: list[DeviceView] = []
        self.fabric_rows: list[FabricView] = []
        self.request_rows: list[RequestView] = []
        self.check = DeviceCheckAnswer()
        self.asked: list[AskCompose | AskDetach] = []
        self.is_down = False

    async def devices(self, *, only: str = "") -> DevicesAnswer:
        self._answer()
        return DevicesAnswer(devices=tuple(self.device_rows), fabrics=tuple(self.fabric_rows))

    async def requests(self, *, only: str = "") -> RequestsAnswer:
        self._answer()
        return RequestsAnswer(requests=tuple(self.request_rows))

    async def compose_check(self, question: AskCompose) -> DeviceCheckAnswer:
        self._answer()
        self.asked.append(question)
        return self.check

    async def detach_check(self, question: AskDetach) -> DeviceCheckAnswer:
        self._answer()
        self.asked.append(question)
        return self.check

    def _answer(self) -> None:
        if self.is_down:
            raise UnreachableError("the composer is down")


class FakeScaler:
    """The scaler's answers. is_down: it does not answer."""

    def __init__(self) -> None:
        self.choice_rows: list[ScaleChoiceView] = []
        self.is_down = False

    async def choices(self) -> ScaleAnswer:
        if self.is_down:
            raise UnreachableError("the scaler is down")
        return ScaleAnswer(choices=tuple(self.choice_rows))


class FakeGuard:
    """The guard's answers. is_down: it does not answer."""

    def __init__(self) -> None:
        self.told = ApiServerReport(cluster="atlas")
        self.is_down = False

    async def report(self) -> ApiServerReport:
        if self.is_down:
            raise UnreachableError("the guard is down")
        return self.told


class FakeLeaders:
    """Answers by (service, name). asked: questions as they came. A service without an answer is down."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], Wire] = {}
        self.asked: list[tuple[str, str, Wire]] = []

    async def ask(self, service: str, name: str, question: Wire, answer: type[Answer]) -> Answer:
        self.asked.append((service, name, question))
        told = self.answers.get((service, name))
        if told is None:
            raise UnreachableError(f"the {service} is down")
        assert isinstance(told, answer)
        return told


class FakeTokens(TokenTable):
    """Tokens without a bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = True

    async def put(self, token: str, record: TokenRecord) -> TokenView:
        return self.set(token_hash(token), record)

    async def delete(self, token_id: str) -> bool:
        return self.drop(token_id)


class FakeFeed(Feed):
    """Facts by hand."""

    def __init__(self) -> None:
        self.all: list[FedFact] = []
        self.is_down = False
        self.version = 0
        self._event = asyncio.Event()

    def tell(self, fact: FactView, *, team: str = "", job_id: str = "") -> None:
        self.all.append(FedFact(fact.stream, fact.seq, team, fact.model_dump_json().encode(), job_id))
        self.version += 1
        self._event.set()
        self._event = asyncio.Event()

    def position(self) -> Position:
        if self.is_down:
            raise ProblemError(503, "Unavailable", detail="redis is down")
        return {stream: max([f.seq for f in self.all if f.stream == stream], default=0) for stream in (FED, LOG)}

    async def after(self, position: Position) -> list[FedFact]:
        found = [fact for fact in self.all if fact.seq > position.get(fact.stream, 0)]
        for fact in found:
            position[fact.stream] = max(position.get(fact.stream, 0), fact.seq)
        return found

    async def changed(self, *, since: int, timeout_s: float) -> bool:
        if self.version == since:
            await self._event.wait()
        return True

    async def newest(self, count: int) -> list[FedFact]:
        return self.all[-count:]


class FakeConnections:
    """The broker's connections of dashboards, as a list. fails: why the broker cannot be asked, "" if it can."""

    def __init__(self) -> None:
        self.closed: list[Connection] = []
        self.fails = ""

    async def follow(self, opened: Opened) -> None:  # tests call what is told of them
        await asyncio.Event().wait()

    async def close(self, connection: Connection) -> None:
        if self.fails:
            raise UnreachableError(self.fails)
        self.closed.append(connection)


def live_ends(time: TimeSource, connections: FakeConnections | None = None, *, credentials_max: int = 100) -> LiveEnds:
    """Made as the gateway makes it."""
    return LiveEnds(connections or FakeConnections(), time=time, metrics=Metrics(), credentials_max=credentials_max)


class FakeHarness:
    """Everything behind the door, and who may knock: `ann` submits for blue, `olga` operates, `root` is admin."""

    def __init__(self) -> None:
        self.log = FakeLog()
        self.view = FakeView()
        self.scheduler = FakeScheduler(self.view)
        self.composer = FakeComposer()
        self.scaler = FakeScaler()
        self.guard = FakeGuard()
        self.leaders = FakeLeaders()
        self.tokens = FakeTokens()
        self.feed = FakeFeed()
        people = {
            "eve": TokenRecord(principal="eve", role=Role.VIEWER),
            "ann": TokenRecord(principal="ann", role=Role.SUBMITTER, teams=("blue", "shut", "none")),
            "bob": TokenRecord(principal="bob", role=Role.SUBMITTER, teams=("red",)),
            "olga": TokenRecord(principal="olga", role=Role.OPERATOR),
            "root": TokenRecord(principal="root", role=Role.ADMIN),
        }
        for token, record in people.items():
            self.tokens.set(token_hash(token), record)
        time = SystemTime()
        self.harness = AppContext(
            log=self.log,
            view=self.view,
            scheduler=self.scheduler,
            composer=self.composer,
            scaler=self.scaler,
            guard=self.guard,
            leaders=self.leaders,
            tokens=self.tokens,
            catalogue=CatalogueCache(view=self.view, scheduler=self.scheduler, time=time),
            feed=self.feed,
            views=Views(self.view, self.scheduler, self.log, time),
            time=time,
        )
        self.app = make_app(self.harness)

    @asynccontextmanager
    async def client(self, token: str = "ann") -> AsyncIterator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(app=self.app)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(transport=transport, base_url="http://muster", headers=headers) as client:
            yield client


def joined(harnesses: Mapping[str, FakeHarness]) -> FakeHarness:
    """The first of these, which has all of them as its clusters."""
    cells = {
        name: Cell(name, one.view, one.scheduler, one.composer, one.scaler, one.guard, one.leaders)
        for name, one in harnesses.items()
    }
    name, first = next(iter(harnesses.items()))
    first.harness = replace(first.harness, cells=cells, cluster=name)
    first.app = make_app(first.harness)
    return first


def lost_log() -> NotStoredError:
    return NotStoredError("nobody answers")


def fact(seq: int, name: str = "queued", *, job: str = "A" * 26, stream: str = LOG) -> FactView:
    return FactView(
        id=f"{stream}{seq}", seq=seq, time=seq, stream=stream, cluster="atlas", writer="scheduler", kind="job",
        subject_id=job, name=name, body="{}",
    )  # fmt: skip
