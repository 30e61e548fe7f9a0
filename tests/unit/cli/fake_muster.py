"""A Muster that answers from memory, for the command line's tests."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from muster.client import (
    AttachmentPhase,
    ComposabilitySpec,
    DeviceView,
    DryRunAnswer,
    FabricView,
    JobSpec,
    JobView,
    NodeView,
    NotFoundError,
    QueueSpec,
    QueueView,
    RefusedError,
    RequestPhase,
    RequestView,
    ReservationSpec,
    ReservationView,
    ScaleChoiceView,
    WhyAnswer,
)
from muster.client.watch import TypedFact
from muster.schemas import ids
from muster.schemas.apiserver import ApiServerReport, ClusterView
from muster.schemas.job import Job, JobChange
from muster.schemas.views import Problem, job_view


@dataclass
class FakeMuster:
    keys: list[str] = field(default_factory=list)
    specs: list[JobSpec] = field(default_factory=list)
    jobs: dict[str, JobView] = field(default_factory=dict)
    lists: list[dict[str, object]] = field(default_factory=list)
    facts: list[TypedFact] = field(default_factory=list)
    asked: list[QueueSpec] = field(default_factory=list)
    known: list[QueueView] = field(default_factory=lambda: [QueueView(name="research", cluster="c")])
    shares_asked: bool = False
    reserved: list[ReservationSpec] = field(default_factory=list)
    ended: list[tuple[str, str]] = field(default_factory=list)
    booked: list[ReservationView] = field(default_factory=list)
    composed: list[tuple[str, ComposabilitySpec]] = field(default_factory=list)
    given_back: list[tuple[str, bool, str]] = field(default_factory=list)
    device_rows: list[DeviceView] = field(default_factory=list)
    fabric_rows: list[FabricView] = field(default_factory=list)
    request_rows: list[RequestView] = field(default_factory=list)
    choices: list[ScaleChoiceView] = field(default_factory=list)
    clusters_asked: list[str] = field(default_factory=list)
    node_rows: list[NodeView] = field(
        default_factory=lambda: [
            NodeView(name="gpu-01", cluster="c", gpus=8, usable=True),
            NodeView(name="gpu-02", cluster="c", reason="xid 79"),
        ]
    )
    closed: list[tuple[str, str, str, str]] = field(default_factory=list)
    asked_of_jobs: list[tuple[str, str, str]] = field(default_factory=list)
    refuses: str = ""
    requests: list[int] = field(default_factory=list)
    answers: bool = True
    composes_to: RequestPhase = RequestPhase.UPDATING
    dry: DryRunAnswer = field(default_factory=lambda: DryRunAnswer(placed=True, nodes=("gpu-01", "gpu-02")))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def submit(self, spec: JobSpec, *, idempotency_key: str) -> JobView:
        self.keys.append(idempotency_key)
        self.specs.append(spec)
        if spec.name == "refused":
            raise RefusedError(Problem(title="Invalid request", status=422, field="queue", detail="unknown queue"))
        ident = ids.job_id(team=spec.team, principal="ann", idempotency_key=idempotency_key)
        job = Job(id=ident, spec=spec, principal="ann", idempotency_key=idempotency_key, body_hash="")
        self.jobs[ident] = job_view(job)
        return self.jobs[ident]

    async def submit_many(
        self, specs: Sequence[JobSpec], *, idempotency_key: str, first: int = 1
    ) -> list[JobView | RefusedError]:
        self.requests.append(len(specs))
        outcomes: list[JobView | RefusedError] = []
        for number, spec in enumerate(specs, first):
            try:
                outcomes.append(await self.submit(spec, idempotency_key=f"{idempotency_key}-{number}"))
            except RefusedError as refusal:
                outcomes.append(refusal)
        return outcomes

    async def dry_run(self, spec: JobSpec) -> DryRunAnswer:
        return self.dry

    async def get(self, job_id: str) -> JobView:
        return self.jobs[job_id]

    async def list(self, **wanted: object) -> Sequence[JobView]:
        self.lists.append(wanted)
        return list(self.jobs.values())[: int(str(wanted["limit"]))]

    async def cancel(self, job_id: str, *, reason: str = "") -> JobView:
        return self._ask("cancel", job_id, reason)

    async def hold(self, job_id: str, *, reason: str = "") -> JobView:
        return self._ask("hold", job_id, reason)

    async def release(self, job_id: str, *, reason: str = "") -> JobView:
        return self._ask("release", job_id, reason)

    async def requeue(self, job_id: str, *, reason: str = "") -> JobView:
        return self._ask("requeue", job_id, reason)

    async def edit(self, job_id: str, change: JobChange) -> JobView:
        told = change.model_dump(exclude_none=True, exclude={"reason"})
        return self._ask(f"edit {told}", job_id, change.reason)

    async def prioritise(self, job_id: str, priority: int, *, reason: str = "") -> JobView:
        return self._ask(f"priority {priority}", job_id, reason)

    def _ask(self, what: str, job_id: str, reason: str) -> JobView:
        if job_id == self.refuses:
            raise RefusedError(Problem(title="Conflict", status=409, field="job_id", detail="it runs"))
        self.asked_of_jobs.append((what, job_id, reason))
        return self.jobs[job_id]

    async def why(self, job_id: str) -> WhyAnswer:
        return WhyAnswer(
            job=self.jobs[job_id], position=3, waiting=9, reason="resources", detail="needs 8 GPUs", cure="wait"
        )

    async def queues(self, *, shares: bool = False) -> Sequence[QueueView]:
        self.shares_asked = shares
        return self.known

    async def clusters(self) -> Sequence[ClusterView]:
        return [ClusterView(name="c", devices="kubelet", sharing="none", lacking=("no DRA: devices by count",))]

    async def nodes(self) -> Sequence[NodeView]:
        return self.node_rows

    async def cordon(self, node: str, *, reason: str = "", cluster: str = "") -> NodeView:
        return self._close("cordon", node, reason, cluster)

    async def drain(self, node: str, *, reason: str = "", cluster: str = "") -> NodeView:
        return self._close("drain", node, reason, cluster)

    async def resume(self, node: str, *, reason: str = "", cluster: str = "") -> NodeView:
        return self._close("resume", node, reason, cluster)

    def _close(self, ask: str, node: str, reason: str, cluster: str) -> NodeView:
        found = next((row for row in self.node_rows if row.name == node), None)
        if found is None:
            raise NotFoundError(Problem(title="Not found", status=404, detail=f"no node {node}", field="node"))
        self.closed.append((ask, node, reason, cluster))
        return found

    async def events(self, **_: object) -> Sequence[TypedFact]:
        return self.facts

    async def watch(self, job_id: str = "", *, newest: int = 0, **_: object) -> AsyncIterator[TypedFact]:
        for fact in self.facts if job_id else self.facts[-newest:]:
            yield fact

    async def reserve(self, spec: ReservationSpec) -> ReservationView | None:
        self.reserved.append(spec)
        return ReservationView(name=spec.name, cluster="c", spec=spec) if self.answers else None

    async def end_reservation(self, name: str, *, reason: str = "") -> None:
        self.ended.append((name, reason))

    async def reservations(self) -> Sequence[ReservationView]:
        return self.booked

    async def compose(self, spec: ComposabilitySpec, *, name: str = "", cluster: str = "") -> RequestView | None:
        self.clusters_asked.append(cluster)
        if name == self.refuses:
            raise RefusedError(Problem(title="Invalid request", status=422, field="spec.size", detail="the pool has 1"))
        self.composed.append((name, spec))
        return RequestView(name=name, cluster="c", spec=spec, phase=self.composes_to) if self.answers else None

    async def decompose(self, name: str, *, force: bool = False, reason: str = "", cluster: str = "") -> RequestView:
        self.clusters_asked.append(cluster)
        self.given_back.append((name, force, reason))
        return await self.composability_request(name)

    async def detach(self, device_uuid: str, *, force: bool = False, reason: str = "", cluster: str = "") -> DeviceView:
        self.clusters_asked.append(cluster)
        self.given_back.append((device_uuid, force, reason))
        found = next((one for one in self.device_rows if one.device_uuid == device_uuid), None)
        if found is None:
            raise NotFoundError(Problem(title="Not found", status=404, field="device", detail="there is none"))
        return found.model_copy(update={"phase": AttachmentPhase.DETACHED}) if self.answers else found

    async def devices(self, *, cluster: str = "") -> Sequence[DeviceView]:
        self.clusters_asked.append(cluster)
        return self.device_rows

    async def fabrics(self, *, cluster: str = "") -> Sequence[FabricView]:
        self.clusters_asked.append(cluster)
        return self.fabric_rows

    async def composability_requests(self, *, cluster: str = "") -> Sequence[RequestView]:
        self.clusters_asked.append(cluster)
        return self.request_rows

    async def composability_request(self, name: str, *, cluster: str = "") -> RequestView:
        self.clusters_asked.append(cluster)
        found = next((one for one in self.request_rows if one.name == name), None)
        if found is None:
            raise NotFoundError(Problem(title="Not found", status=404, field="request", detail="there is none"))
        return found

    async def apiserver(self, *, cluster: str = "") -> ApiServerReport:
        self.clusters_asked.append(cluster)
        return ApiServerReport(cluster=cluster)

    async def scale_choices(self, *, cluster: str = "") -> Sequence[ScaleChoiceView]:
        self.clusters_asked.append(cluster)
        return self.choices

    async def set_queues(self, specs: Sequence[QueueSpec]) -> Sequence[QueueView]:
        if any(spec.name == self.refuses for spec in specs):
            raise RefusedError(Problem(title="Invalid request", status=422, field="queues.1.parent", detail="no queue"))
        self.asked += specs
        return [QueueView(name=spec.name, cluster="c", spec=spec) for spec in specs if self.answers]

    async def set_queue(self, spec: QueueSpec) -> QueueView | None:
        if spec.name == self.refuses:
            raise RefusedError(Problem(title="Invalid request", status=422, field="parent", detail="there is none"))
        self.asked.append(spec)
        return QueueView(name=spec.name, cluster="c", spec=spec) if self.answers else None
