"""`Muster`: the whole HTTP API, typed, with one method for each route (docs/decisions/0056)."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel, ValidationError, create_model

from muster.client.batches import submit_in_batches
from muster.client.errors import RefusedError, StateDirError
from muster.client.http import HttpTransport, Retry, own_key, sent
from muster.client.output import LINES_MAX, lines_of_pages
from muster.client.tokens import FixedToken, TokenSource
from muster.client.watch import TypedFact, follow
from muster.schemas.access import Endpoints, MeView, TokenMade, TokenRecord, TokenView
from muster.schemas.apiserver import ApiServerReport, ClusterView
from muster.schemas.campaigns import CampaignPreview, CampaignView
from muster.schemas.conditions import ConditionsAnswer
from muster.schemas.devices import ComposabilityBody, ComposabilitySpec, DeviceView, FabricView, RequestView
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.facts.upgrade import CampaignSpec
from muster.schemas.job import TERMINAL_PHASES, JobChange, JobSpec, Phase, PriorityChange
from muster.schemas.live import OLDEST, OutputLine, OutputPage
from muster.schemas.members import AssignmentView, FederationView, MemberView, RoutesView
from muster.schemas.pods import JobPods
from muster.schemas.queries import DryRunAnswer, ScaleChoiceView, WhyAnswer
from muster.schemas.record import Record
from muster.schemas.routing import RoutingPolicy
from muster.schemas.usage import Energy, Idle, JobUse, Top
from muster.schemas.usage_words import EnergyBy, TopBy, TopOrder
from muster.schemas.views import JobView, NodeView, QueueView, ReservationView

PAGE_MAX = 1_000
_TERMINAL_NAMES = frozenset(phase.value for phase in TERMINAL_PHASES)

Answer = TypeVar("Answer", bound=BaseModel | Record)
Option = str | int | bool


class _Jobs(BaseModel):
    jobs: list[JobView]
    next_cursor: str = ""


class _Queues(BaseModel):
    queues: list[QueueView]


class _Tree(BaseModel):
    queues: list[QueueSpec]


class Muster:
    """A client of one stack; use it as an async context manager. Every method raises RefusedError (a refusal;
    `problem` gives the reason) or UnreachableError (no answer, also after retries); NotFoundError if a named
    resource does not exist. Retries send the same idempotency key, so a request takes effect only once. cluster: ""
    is the first one, or for nodes the only one with a node of this name."""

    def __init__(
        self, url: str, token: str | TokenSource, *, retry: Retry | None = None, ca_file: Path | None = None
    ) -> None:
        tokens = FixedToken(token) if isinstance(token, str) else token
        self._transport = HttpTransport(url, tokens, retry or Retry(), ca_file=ca_file)

    @classmethod
    def from_state_dir(
        cls,
        state_dir: Path,
        *,
        token: str | TokenSource | None = None,
        retry: Retry | None = None,
        ca_file: Path | None = None,
    ) -> Self:
        """Connect to the stack of a state directory. token, ca_file: None for the directory's own. Raises
        StateDirError."""
        endpoints_file, token_file = state_dir / "run" / "endpoints.json", state_dir / "token"
        try:
            endpoints = Endpoints.model_validate_json(endpoints_file.read_bytes())
            token = token_file.read_text().strip() if token is None else token
        except OSError as error:
            raise StateDirError(f"{error.filename}: {error.strerror}") from error
        except ValidationError as error:
            raise StateDirError(f"{endpoints_file}: {error.errors()[0]['msg']}") from error
        if ca_file is None and endpoints.ca_file:
            ca_file = Path(endpoints.ca_file)
        return cls(endpoints.http, token, retry=retry, ca_file=ca_file)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    # Jobs

    async def submit(self, spec: JobSpec, *, idempotency_key: str | None = None, traceparent: str = "") -> JobView:
        """Submit a job. The same key and specification give the same job; without a key one is generated."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else own_key()
        if traceparent:
            headers["traceparent"] = traceparent
        body = await self._transport.request("POST", "/v1/jobs", body=sent(spec), headers=headers)
        return JobView.model_validate_json(body)

    async def submit_many(
        self, specs: Sequence[JobSpec], *, idempotency_key: str | None = None, first: int = 1
    ) -> list[JobView | RefusedError]:
        """Submit jobs; return the outcome of each, in order. A refused job does not affect the others.

        The n-th job has the key `KEY-n`, so the same list again gives the same jobs. first: number of the first
        job, if the caller sends a longer list in parts.
        """
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else own_key()
        return await submit_in_batches(self._transport, specs, first=first, headers=headers)

    async def dry_run(self, spec: JobSpec) -> DryRunAnswer:
        """Return what would happen to the job if it were submitted now; `refused` if it can never run."""
        body = await self._transport.request("POST", "/v1/jobs", params={"dry_run": "true"}, body=sent(spec))
        return DryRunAnswer.model_validate_json(body)

    async def get(self, job_id: str) -> JobView:
        """Return a job."""
        return await self._read(JobView, _path("jobs", job_id))

    async def list(
        self,
        *,
        team: str = "",
        queue: str = "",
        phase: Phase | None = None,
        live_only: bool = False,
        limit: int = 100,
        user: str = "",
        ended: bool = False,
        ended_from: int = 0,
        ended_before: int = 0,
    ) -> Sequence[JobView]:
        """Return the newest jobs first, at most `limit`, reading as many pages as necessary.

        user: only jobs that this principal submitted. ended: only ended jobs, the last to end first; ended_from,
        ended_before: limits of their end, in nanoseconds since 1970, 0 for none.
        """
        wanted = _given(team=team, queue=queue, phase=phase.value if phase else "", live=live_only, user=user)
        wanted |= _given(ended=ended, ended_from=ended_from or "", ended_before=ended_before or "")
        found: list[JobView] = []
        while len(found) < limit:
            wanted["limit"] = min(PAGE_MAX, limit - len(found))
            page = await self._read(_Jobs, "/v1/jobs", **wanted)
            found.extend(page.jobs)
            if not page.next_cursor:
                break
            wanted["cursor"] = page.next_cursor
        return found

    async def cancel(self, job_id: str, *, reason: str = "") -> JobView:
        """Request the cancellation of a job; return its current state. ConflictError if it has ended."""
        body = await self._transport.request("DELETE", _path("jobs", job_id), params=_given(reason=reason))
        return JobView.model_validate_json(body)

    async def hold(self, job_id: str, *, reason: str = "") -> JobView:
        """Request that a queued job is held; return its current state. ConflictError if it has ended or is placed.
        It keeps its position in the queue and loses its reservation. `held` of `get` shows when it is held."""
        return await self._change(JobView, "POST", _path("jobs", job_id, "hold"), reason=reason)

    async def release(self, job_id: str, *, reason: str = "") -> JobView:
        """Request the release of a held job; return its current state. ConflictError if it has ended."""
        return await self._change(JobView, "POST", _path("jobs", job_id, "release"), reason=reason)

    async def requeue(self, job_id: str, *, reason: str = "") -> JobView:
        """Request that the attempt of a job is stopped, with its grace period, and the job queued again; return its
        current state. ConflictError unless it is placed or running."""
        return await self._change(JobView, "POST", _path("jobs", job_id, "requeue"), reason=reason)

    async def prioritise(self, job_id: str, priority: int, *, reason: str = "") -> JobView:
        """Request a priority for a job, 0 to 1000; return its current state. ConflictError if it has ended."""
        change = PriorityChange(priority=priority, reason=reason)
        return await self._change(JobView, "POST", _path("jobs", job_id, "priority"), body=change)

    async def edit(self, job_id: str, change: JobChange) -> JobView:
        """Request changes of a job; return its current state. ConflictError if it has ended, or if the run times of a
        placed job are to change."""
        return await self._change(JobView, "PATCH", _path("jobs", job_id), body=change)

    async def why(self, job_id: str) -> WhyAnswer:
        """Return why a job is in its present state."""
        return await self._read(WhyAnswer, _path("jobs", job_id, "why"))

    async def assignment(self, job_id: str) -> AssignmentView:
        """Return the cluster of a job and the rule that chose it, or why no cluster has it."""
        return await self._read(AssignmentView, _path("jobs", job_id, "assignment"))

    async def reroute(self, job_id: str, *, to: str = "", reason: str = "") -> AssignmentView:
        """Reroute a job that has not started to another cluster; return the current assignment."""
        return await self._change(AssignmentView, "POST", _path("jobs", job_id, "reroute"), to=to, reason=reason)

    # Facts

    async def events(self, *, job_id: str = "", team: str = "", limit: int = 100) -> Sequence[TypedFact]:
        """Return the newest facts, oldest first: of one job, of one team's jobs, or all."""
        if job_id:
            found = await self._rows(TypedFact, "facts", _path("jobs", job_id, "events"))
            return found[-limit:]
        return await self._rows(TypedFact, "facts", "/v1/events", limit=limit, team=team)

    def watch(
        self, job_id: str = "", *, team: str = "", after: Mapping[str, int] | None = None, newest: int = 0
    ) -> AsyncIterator[TypedFact]:
        """Yield facts as they are stored, each once, across reconnects.

        Of one job: all facts from the first, until the job has ended. Otherwise: from now on, without end; newest:
        start with this many older facts, at most 2,000. after: by stream name, the sequence of the last known fact
        (`fact.stream`, `fact.seq`).
        """
        cursor = ",".join(f"{stream}:{seq}" for stream, seq in sorted((after or {}).items()))
        if job_id:
            path = _path("jobs", job_id, "events")
            return follow(self._transport, path, params={}, after=cursor, ends=_TERMINAL_NAMES)
        params = _given(team=team, limit=newest or "")
        return follow(self._transport, "/v1/events", params=params, after=cursor, ends=frozenset())

    # Output and pods

    async def output(
        self,
        job_id: str,
        *,
        lines: int = 200,
        group: int | None = None,
        replica: int | None = None,
        attempt: int | None = None,
        after: str = "",
        wait_s: int = 0,
    ) -> OutputPage:
        """Return the newest lines that a job printed, oldest first, at most 2,000; they are kept for an hour.

        group, replica, attempt: only of these; None: of all. after: `end` of an earlier page, or "oldest"; return
        the lines after it instead. wait_s: with `after`, the longest wait for a line in seconds, at most 5. Output of
        jobs on Kubernetes is not collected: see `pods`. NotAllowedError unless the caller acts for the team.
        """
        of = {name: n for name, n in (("group", group), ("replica", replica), ("attempt", attempt)) if n is not None}
        options = _given(after=after, wait_s=wait_s or "")
        return await self._read(OutputPage, _path("jobs", job_id, "output"), lines=lines, **of, **options)

    def output_lines(
        self,
        job_id: str,
        *,
        tail: int | None = None,
        follow: bool = False,
        group: int | None = None,
        replica: int | None = None,
        attempt: int | None = None,
    ) -> AsyncIterator[OutputLine]:
        """Yield the kept lines that a job printed, oldest first. group, replica, attempt: see `output`.

        tail: start with this number of the newest lines, at most 2,000; None: with the oldest kept line. follow: go on
        with new lines until the job has ended.
        """

        async def page(after: str, wait_s: int) -> OutputPage:
            lines = LINES_MAX if after or tail is None else tail
            return await self.output(
                job_id, lines=lines, group=group, replica=replica, attempt=attempt, after=after, wait_s=wait_s
            )

        async def has_ended() -> bool:
            return not follow or (await self.get(job_id)).phase.is_terminal

        return lines_of_pages(page, has_ended, after=OLDEST if tail is None else "")

    async def pods(self, job_id: str) -> JobPods:
        """Return the pods of a job's present attempt, for `kubectl`. NotAllowedError unless the caller acts for the
        team."""
        return await self._read(JobPods, _path("jobs", job_id, "pods"))

    # Queues and reservations

    async def queues(self, *, shares: bool = False) -> Sequence[QueueView]:
        """Return all queues. shares: include `share` and `used_share`, which the scheduler computes (0 without it)."""
        return await self._rows(QueueView, "queues", "/v1/queues", shares=shares)

    async def set_queue(self, spec: QueueSpec) -> QueueView | None:
        """Create or change a queue (operators); return it, or None if the request is still open after two seconds."""
        return await self._ask(QueueView, "PUT", _path("queues", spec.name), body=spec)

    async def set_queues(self, specs: Sequence[QueueSpec]) -> Sequence[QueueView]:
        """Create or change at most 256 queues, parents before children: all or none (operators).

        Returns the queues that were changed; after two seconds the requests of others may still be open.
        """
        return (await self._change(_Queues, "PUT", "/v1/queues", body=_Tree(queues=[*specs]))).queues

    async def reservations(self) -> Sequence[ReservationView]:
        """Return the booked advance reservations."""
        return await self._rows(ReservationView, "reservations", "/v1/reservations")

    async def reserve(self, spec: ReservationSpec) -> ReservationView | None:
        """Reserve nodes or GPUs from a given time (operators); an existing reservation of the name is replaced.

        Returns the booked reservation, or None if the request is still open after two seconds.
        """
        return await self._ask(ReservationView, "POST", "/v1/reservations", body=spec)

    async def end_reservation(self, name: str, *, reason: str = "") -> None:
        """End a reservation (operators)."""
        where = _path("reservations", name)
        await self._transport.request("DELETE", where, params=_given(reason=reason), headers=own_key())

    # Nodes and their conditions

    async def nodes(self) -> Sequence[NodeView]:
        """Return all nodes, by name."""
        return await self._rows(NodeView, "nodes", "/v1/nodes")

    async def cordon(self, node: str, *, reason: str = "", cluster: str = "") -> NodeView:
        """Cordon a node (operators); running jobs continue. Return the node; its `reasons` show when it is cordoned."""
        return await self._change(NodeView, "POST", _path("nodes", node, "cordon"), reason=reason, cluster=cluster)

    async def drain(self, node: str, *, reason: str = "", cluster: str = "") -> NodeView:
        """Drain a node (operators): as `cordon`, and preemptible jobs that checkpoint move after their time slice."""
        return await self._change(NodeView, "POST", _path("nodes", node, "drain"), reason=reason, cluster=cluster)

    async def resume(self, node: str, *, reason: str = "", cluster: str = "") -> NodeView:
        """Remove cordon and drain by operators (operators); a drain by a service remains."""
        return await self._change(NodeView, "POST", _path("nodes", node, "resume"), reason=reason, cluster=cluster)

    async def conditions(self, *, cluster: str = "") -> ConditionsAnswer:
        """Return unhealthy nodes and GPUs, recently ended conditions, and the brake."""
        return await self._read(ConditionsAnswer, "/v1/conditions", cluster=cluster)

    async def condition(self, node: str, *, cluster: str = "") -> ConditionsAnswer:
        """Return one node's conditions and recent observations."""
        return await self._read(ConditionsAnswer, _path("conditions", node), cluster=cluster)

    async def verify(self, node: str, *, trust: bool = False, reason: str = "", cluster: str = "") -> ConditionsAnswer:
        """Verify a repaired node and return it to service (operators); trust: skip the checks."""
        where = _path("conditions", node, "verify")
        return await self._change(ConditionsAnswer, "POST", where, trust=trust, reason=reason, cluster=cluster)

    async def reset_brake(self, *, skip: bool = False, reason: str = "", cluster: str = "") -> ConditionsAnswer:
        """Reset the brake, so that health acts again (operators). skip: drop the actions that waited for the reset."""
        return await self._change(
            ConditionsAnswer, "POST", "/v1/brake/reset", skip=skip, reason=reason, cluster=cluster
        )

    # Clusters and routing

    async def clusters(self) -> Sequence[ClusterView]:
        """Return the clusters with their properties, capabilities and use."""
        return await self._rows(ClusterView, "clusters", "/v1/clusters")

    async def apiserver(self, *, cluster: str = "") -> ApiServerReport:
        """Return the state of a cluster's API servers and the guard's advice; `guarded` is false without any."""
        return await self._read(ApiServerReport, "/v1/apiserver", cluster=cluster)

    async def federation(self) -> FederationView:
        """Return the clusters as the federation has them, and the jobs that wait for a cluster, with the reasons."""
        return await self._read(FederationView, "/v1/federation")

    async def drain_cluster(self, cluster: str, *, to: Sequence[str] = (), reason: str = "") -> MemberView:
        """Drain a cluster: assign no new jobs and reroute jobs that have not started (operators).

        Running jobs finish there. to: target clusters in order of preference; none: the routing rules decide.
        """
        where = _path("clusters", cluster, "drain")
        return await self._change(MemberView, "POST", where, to=",".join(to), reason=reason)

    async def resume_cluster(self, cluster: str, *, reason: str = "") -> MemberView:
        """Resume a cluster: assign jobs to it again (operators)."""
        return await self._change(MemberView, "POST", _path("clusters", cluster, "resume"), reason=reason)

    async def routes(self) -> RoutesView:
        """Return the current routing policy."""
        return await self._read(RoutesView, "/v1/routes")

    async def set_routes(self, policy: RoutingPolicy, *, based_on: int = 0) -> RoutesView | None:
        """Replace the routing policy, for jobs without a cluster (operators). None if the request is still open.

        based_on: version that the policy was derived from; refused if another version applies now.
        """
        return await self._ask(RoutesView, "PUT", "/v1/routes", body=policy, done_by="policy", based_on=based_on or "")

    # Devices of composable fabrics, and scaling

    async def devices(self, *, cluster: str = "") -> Sequence[DeviceView]:
        """Return the devices of fabrics that are attached, or being attached or detached, by node."""
        return await self._rows(DeviceView, "devices", "/v1/devices", cluster=cluster)

    async def fabrics(self, *, cluster: str = "") -> Sequence[FabricView]:
        """Return the composable fabrics: pool, circuit breaker, calls under way, orphans."""
        return await self._rows(FabricView, "fabrics", "/v1/fabrics", cluster=cluster)

    async def composability_requests(self, *, cluster: str = "") -> Sequence[RequestView]:
        """Return the ComposabilityRequests, newest first, also ended ones."""
        return await self._rows(RequestView, "requests", "/v1/composability-requests", cluster=cluster)

    async def composability_request(self, name: str, *, cluster: str = "") -> RequestView:
        """Return a ComposabilityRequest with its devices."""
        return await self._read(RequestView, _path("composability-requests", name), cluster=cluster)

    async def compose(
        self, spec: ComposabilitySpec, *, name: str = "", traceparent: str = "", cluster: str = ""
    ) -> RequestView | None:
        """Attach devices (operators); an existing request of the name gets this specification. Returns the accepted
        request: `resources` reports the progress of each device. None if the request is still open after two
        seconds. name: generated if empty. ConflictError if a job or request is in the way: `problem.holder`."""
        body = ComposabilityBody(spec=spec, **({"name": name} if name else {}))
        headers = {"traceparent": traceparent} if traceparent else {}
        where = "/v1/composability-requests"
        return await self._ask(RequestView, "POST", where, body=body, headers=headers, cluster=cluster)

    async def decompose(self, name: str, *, force: bool = False, reason: str = "", cluster: str = "") -> RequestView:
        """Detach all devices of a request (operators); return it, with `phase` Ended once nothing is attached.

        force: also devices that jobs use. ConflictError.
        """
        where = _path("composability-requests", name)
        return await self._change(RequestView, "DELETE", where, force=force, reason=reason, cluster=cluster)

    async def detach(self, device_uuid: str, *, force: bool = False, reason: str = "", cluster: str = "") -> DeviceView:
        """Detach a device and return it to its pool (operators); its `phase` is detached once it is there.

        force: also if a job uses it. ConflictError.
        """
        where = _path("devices", device_uuid)
        return await self._change(DeviceView, "DELETE", where, force=force, reason=reason, cluster=cluster)

    async def scale_choices(self, *, cluster: str = "") -> Sequence[ScaleChoiceView]:
        """Return the scaler's decisions, newest first, each with the simulated alternatives."""
        return await self._rows(ScaleChoiceView, "choices", "/v1/scale", cluster=cluster)

    # Upgrade campaigns

    async def campaigns(self, *, cluster: str = "") -> Sequence[CampaignView]:
        """Return the active campaigns, then the ended ones, without their nodes."""
        return await self._rows(CampaignView, "campaigns", "/v1/campaigns", cluster=cluster)

    async def campaign(self, name: str, *, cluster: str = "") -> CampaignView:
        """Return a campaign with its nodes."""
        return await self._read(CampaignView, _path("campaigns", name), cluster=cluster)

    async def preview_campaign(self, spec: CampaignSpec, *, cluster: str = "") -> CampaignPreview:
        """Simulate a campaign that starts now, and two ways to drain by hand."""
        where, params = "/v1/campaign-previews", _given(cluster=cluster)
        answer = await self._transport.request("POST", where, body=sent(spec), params=params)
        return CampaignPreview.model_validate_json(answer)

    async def start_campaign(self, spec: CampaignSpec, *, cluster: str = "") -> CampaignView | None:
        """Start a campaign (operators). None if the request is still open after two seconds."""
        return await self._ask(CampaignView, "POST", "/v1/campaigns", body=spec, cluster=cluster)

    async def pause_campaign(self, name: str, *, reason: str = "", cluster: str = "") -> CampaignView:
        """Pause a campaign (operators); upgrades under way complete."""
        where = _path("campaigns", name, "pause")
        return await self._change(CampaignView, "POST", where, reason=reason, cluster=cluster)

    async def resume_campaign(self, name: str, *, reason: str = "", cluster: str = "") -> CampaignView:
        """Resume a paused or stopped campaign (operators); failed nodes are tried again."""
        where = _path("campaigns", name, "resume")
        return await self._change(CampaignView, "POST", where, reason=reason, cluster=cluster)

    async def abort_campaign(self, name: str, *, reason: str = "", cluster: str = "") -> CampaignView:
        """Abort a campaign before all its nodes are upgraded (operators)."""
        where = _path("campaigns", name, "abort")
        return await self._change(CampaignView, "POST", where, reason=reason, cluster=cluster)

    # Usage

    async def stats(self, job_id: str) -> JobUse:
        """Return the GPU usage of a job."""
        return await self._read(JobUse, _path("jobs", job_id, "stats"))

    async def top(
        self,
        *,
        by: TopBy = TopBy.JOB,
        order: TopOrder = TopOrder.GPUS,
        team: str = "",
        limit: int = 20,
        cluster: str = "",
    ) -> Top:
        """Return the current GPU usage, and the state of the nodes' exporters."""
        return await self._read(
            Top, "/v1/usage/top", by=by.value, order=order.value, limit=limit, team=team, cluster=cluster
        )

    async def idle(self, *, team: str = "", limit: int = 20, cluster: str = "") -> Idle:
        """Return the allocated but idle GPUs, by team."""
        return await self._read(Idle, "/v1/usage/idle", limit=limit, team=team, cluster=cluster)

    async def energy(
        self, *, by: EnergyBy = EnergyBy.TEAM, days: int = 30, team: str = "", limit: int = 100, cluster: str = ""
    ) -> Energy:
        """Return what teams or queues used over the last days."""
        return await self._read(
            Energy, "/v1/usage/energy", by=by.value, days=days, limit=limit, team=team, cluster=cluster
        )

    # Access

    async def me(self) -> MeView:
        """Return the token's principal and its remaining rate limits."""
        return await self._read(MeView, "/v1/me")

    async def tokens(self) -> Sequence[TokenView]:
        """Return all tokens (admins)."""
        return await self._rows(TokenView, "tokens", "/v1/tokens")

    async def make_token(self, record: TokenRecord) -> TokenMade:
        """Create a token (admins); it is returned only once."""
        return TokenMade.model_validate_json(await self._transport.request("POST", "/v1/tokens", body=sent(record)))

    async def revoke_token(self, token_id: str) -> None:
        """Revoke a token by its id (admins)."""
        await self._transport.request("DELETE", _path("tokens", token_id))

    async def _read(self, answer: type[Answer], path: str, **options: Option) -> Answer:
        """Read one document. options: sent as parameters unless they are empty."""
        return _parsed(answer, await self._transport.request("GET", path, params=_given(**options)))

    async def _rows(self, row: type[Answer], name: str, path: str, **options: Option) -> Sequence[Answer]:
        """Read a document `{name: [...]}`."""
        listing = _listing(row, name)  # type: ignore[arg-type]  # a class is hashable, whatever its objects are
        return cast("Sequence[Answer]", getattr(await self._read(listing, path, **options), name))

    async def _change(
        self, answer: type[Answer], method: str, path: str, *, body: BaseModel | None = None, **options: Option
    ) -> Answer:
        """Request a change under a key of this call; return the current state of the changed object."""
        content = None if body is None else sent(body)
        found = await self._transport.request(method, path, params=_given(**options), body=content, headers=own_key())
        return _parsed(answer, found)

    async def _ask(
        self,
        answer: type[Answer],
        method: str,
        path: str,
        *,
        body: BaseModel,
        headers: Mapping[str, str] | None = None,
        done_by: str = "cluster",
        **options: Option,
    ) -> Answer | None:
        """Request what the body specifies; None for an answer that only repeats the body, as it is still open.

        done_by: a field that only the answer with the current state has.
        """
        headers = {**own_key(), **(headers or {})}
        found = await self._transport.request(method, path, params=_given(**options), body=sent(body), headers=headers)
        return _parsed(answer, found) if done_by in json.loads(found) else None


@cache
def _listing(row: type[BaseModel | Record], name: str) -> type[BaseModel]:
    fields: Mapping[str, object] = {name: (list[row], ...)}  # type: ignore[valid-type]
    return create_model(f"{row.__name__}List", **fields)  # type: ignore[call-overload, no-any-return]


def _path(*parts: str) -> str:
    """Return the path of a resource, with all parts quoted."""
    return "/".join(("/v1", *(quote(part, safe="") for part in parts)))


def _given(**options: Option) -> dict[str, str | int]:
    """Return the parameters without empty ones and False, which are the API's defaults."""
    said = {name: value for name, value in options.items() if value != "" and value is not False}
    return {name: "true" if value is True else value for name, value in said.items()}


def _parsed(answer: type[Answer], body: bytes) -> Answer:
    return cast("Answer", answer.model_validate_json(body))
