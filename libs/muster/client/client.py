"""`Muster`: everything that the HTTP API offers, typed."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from muster.client.batches import BatchMethods
from muster.client.bodies import done, own_key, sent
from muster.client.campaigns import CampaignMethods
from muster.client.conditions import ConditionMethods
from muster.client.devices import DeviceMethods
from muster.client.errors import StateDirError
from muster.client.facts import TypedFact
from muster.client.http import Door, Retry
from muster.client.members import MemberMethods
from muster.client.nodes import NodeMethods
from muster.client.tokens import FixedToken, TokenSource
from muster.client.usage import UsageMethods
from muster.client.watch import follow
from muster.schemas.access import Endpoints, MeView, TokenMade, TokenRecord, TokenView
from muster.schemas.apiserver import ApiServerReport, ClusterView
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import TERMINAL_PHASES, JobSpec, Phase, PriorityChange
from muster.schemas.queries import DryRunAnswer, WhyAnswer
from muster.schemas.views import JobView, QueueView, ReservationView

PAGE_MAX = 1_000
_TERMINAL_NAMES = frozenset(phase.value for phase in TERMINAL_PHASES)


class _Jobs(BaseModel):
    jobs: list[JobView]
    next_cursor: str = ""


class _Queues(BaseModel):
    queues: list[QueueView]


class _Tree(BaseModel):
    queues: list[QueueSpec]


class _Reservations(BaseModel):
    reservations: list[ReservationView]


class _Clusters(BaseModel):
    clusters: list[ClusterView]


class _Facts(BaseModel):
    facts: list[TypedFact]


class _Tokens(BaseModel):
    tokens: list[TokenView]


class Muster(BatchMethods, CampaignMethods, ConditionMethods, DeviceMethods, MemberMethods, NodeMethods, UsageMethods):
    """A conversation with one stack; use it as an async context manager.

    Every method raises RefusedError (Muster said no; `problem` says why) or UnreachableError (no answer, also after
    retries). Retries send the same idempotency key, so nothing happens twice.
    """

    def __init__(
        self, url: str, token: str | TokenSource, *, retry: Retry | None = None, ca_file: Path | None = None
    ) -> None:
        tokens = FixedToken(token) if isinstance(token, str) else token
        self._door = Door(url, tokens, retry or Retry(), ca_file=ca_file)

    @classmethod
    def from_state_dir(
        cls,
        state_dir: Path,
        *,
        token: str | TokenSource | None = None,
        retry: Retry | None = None,
        ca_file: Path | None = None,
    ) -> Self:
        """The stack that runs from this directory. token, ca_file: None: the directory's own. Raises StateDirError."""
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
        await self._door.close()

    async def submit(self, spec: JobSpec, *, idempotency_key: str | None = None, traceparent: str = "") -> JobView:
        """Submit a job. The same key and specification again are the same job; without a key one is drawn."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else own_key()
        if traceparent:
            headers["traceparent"] = traceparent
        body = await self._door.ask("POST", "/v1/jobs", body=sent(spec), headers=headers)
        return JobView.model_validate_json(body)

    async def dry_run(self, spec: JobSpec) -> DryRunAnswer:
        """What would happen to the job if it came now; a job that can never run is an answer with `refused`."""
        body = await self._door.ask("POST", "/v1/jobs", params={"dry_run": "true"}, body=sent(spec))
        return DryRunAnswer.model_validate_json(body)

    async def get(self, job_id: str) -> JobView:
        """One job."""
        return JobView.model_validate_json(await self._door.ask("GET", _job(job_id)))

    async def list(
        self,
        *,
        team: str = "",
        queue: str = "",
        phase: Phase | None = None,
        live_only: bool = False,
        limit: int = 100,
    ) -> Sequence[JobView]:
        """Newest jobs first, at most `limit`; reads as many pages as that takes."""
        wanted: dict[str, str | int] = {"team": team, "queue": queue, "phase": phase.value if phase else ""}
        if live_only:
            wanted["live"] = "true"
        params = {name: value for name, value in wanted.items() if value}
        found: list[JobView] = []
        while len(found) < limit:
            params["limit"] = min(PAGE_MAX, limit - len(found))
            page = _Jobs.model_validate_json(await self._door.ask("GET", "/v1/jobs", params=params))
            found.extend(page.jobs)
            if not page.next_cursor:
                break
            params["cursor"] = page.next_cursor
        return found

    async def cancel(self, job_id: str, *, reason: str = "") -> JobView:
        """Ask that a job end; the job as it is now. ConflictError if it has ended."""
        params = {"reason": reason} if reason else None
        return JobView.model_validate_json(await self._door.ask("DELETE", _job(job_id), params=params))

    async def hold(self, job_id: str, *, reason: str = "") -> JobView:
        """Ask that a waiting job is passed over; the job as it is now. ConflictError if it ended or has its places.

        It keeps its place in line and loses any reservation. `held` of `get` says when it is so.
        """
        return await self._ask_of_job(job_id, "/hold", reason=reason)

    async def release(self, job_id: str, *, reason: str = "") -> JobView:
        """Ask that a held job may be started again; the job as it is now. ConflictError if it has ended."""
        return await self._ask_of_job(job_id, "/release", reason=reason)

    async def prioritise(self, job_id: str, priority: int, *, reason: str = "") -> JobView:
        """Ask that a job has this priority, 0 to 1000; the job as it is now. ConflictError if it has ended."""
        change = PriorityChange(priority=priority, reason=reason)
        return await self._ask_of_job(job_id, "/priority", body=sent(change))

    async def _ask_of_job(self, job_id: str, part: str, *, reason: str = "", body: bytes | None = None) -> JobView:
        params = {"reason": reason} if reason else None
        found = await self._door.ask("POST", _job(job_id, part), params=params, body=body, headers=own_key())
        return JobView.model_validate_json(found)

    async def why(self, job_id: str) -> WhyAnswer:
        """Why a job is where it is."""
        return WhyAnswer.model_validate_json(await self._door.ask("GET", _job(job_id, "/why")))

    async def events(self, *, job_id: str = "", team: str = "", limit: int = 100) -> Sequence[TypedFact]:
        """The newest facts, oldest first: of one job, of one team's jobs, or of everything."""
        if job_id:
            found = _Facts.model_validate_json(await self._door.ask("GET", _job(job_id, "/events"))).facts
            return found[-limit:]
        params: dict[str, str | int] = {"limit": limit, **({"team": team} if team else {})}
        return _Facts.model_validate_json(await self._door.ask("GET", "/v1/events", params=params)).facts

    def watch(
        self, job_id: str = "", *, team: str = "", after: Mapping[str, int] | None = None, newest: int = 0
    ) -> AsyncIterator[TypedFact]:
        """Facts as they come, each once, over reconnects.

        Of one job: all of them from its first, until it has ended. Else: from now on, without end; newest: begin with
        so many (at most 2,000) of those that were. after: by stream name, the sequence up to which facts are known
        already (`fact.stream`, `fact.seq`).
        """
        cursor = ",".join(f"{stream}:{seq}" for stream, seq in sorted((after or {}).items()))
        if job_id:
            return follow(self._door, _job(job_id, "/events"), params={}, after=cursor, ends=_TERMINAL_NAMES)
        params: dict[str, str | int] = {**({"team": team} if team else {}), **({"limit": newest} if newest else {})}
        return follow(self._door, "/v1/events", params=params, after=cursor, ends=frozenset())

    async def queues(self, *, shares: bool = False) -> Sequence[QueueView]:
        """All queues. shares: with `share` and `used_share`, which only the scheduler can tell (0 while it is away)."""
        params = {"shares": "true"} if shares else None
        return _Queues.model_validate_json(await self._door.ask("GET", "/v1/queues", params=params)).queues

    async def set_queue(self, spec: QueueSpec) -> QueueView | None:
        """Make or change a queue (operators): as it is now; None if after two seconds it is only asked for."""
        where = f"/v1/queues/{quote(spec.name, safe='')}"
        return done(QueueView, await self._door.ask("PUT", where, body=sent(spec), headers=own_key()))

    async def set_queues(self, specs: Sequence[QueueSpec]) -> Sequence[QueueView]:
        """Make or change at most 256 queues, those above before those below: all of them, or none (operators).

        Those that are as it was asked; after two seconds some may be only asked for.
        """
        body = _Tree(queues=list(specs)).model_dump_json(exclude_unset=True).encode()
        return _Queues.model_validate_json(
            await self._door.ask("PUT", "/v1/queues", body=body, headers=own_key())
        ).queues

    async def reservations(self) -> Sequence[ReservationView]:
        """Advance reservations that are booked."""
        return _Reservations.model_validate_json(await self._door.ask("GET", "/v1/reservations")).reservations

    async def reserve(self, spec: ReservationSpec) -> ReservationView | None:
        """Keep nodes or GPUs from a moment on (operators); one of the same name is replaced.

        The reservation as it is booked; None if after two seconds it is only asked for.
        """
        body = await self._door.ask("POST", "/v1/reservations", body=sent(spec), headers=own_key())
        return done(ReservationView, body)

    async def end_reservation(self, name: str, *, reason: str = "") -> None:
        """End a reservation (operators); NotFoundError if there is none of that name."""
        params = {"reason": reason} if reason else None
        where = f"/v1/reservations/{quote(name, safe='')}"
        await self._door.ask("DELETE", where, params=params, headers=own_key())

    async def clusters(self) -> Sequence[ClusterView]:
        """What the clusters are, what they can do, and how full they are."""
        return _Clusters.model_validate_json(await self._door.ask("GET", "/v1/clusters")).clusters

    async def apiserver(self, *, cluster: str = "") -> ApiServerReport:
        """How a cluster's API servers are, and what the guard advises; `guarded` is false where there are none.

        cluster: "" is the first one.
        """
        params = {"cluster": cluster} if cluster else None
        return ApiServerReport.model_validate_json(await self._door.ask("GET", "/v1/apiserver", params=params))

    async def me(self) -> MeView:
        """Whose token this is, and what is left of its limits."""
        return MeView.model_validate_json(await self._door.ask("GET", "/v1/me"))

    async def tokens(self) -> Sequence[TokenView]:
        """All tokens (admins)."""
        return _Tokens.model_validate_json(await self._door.ask("GET", "/v1/tokens")).tokens

    async def make_token(self, record: TokenRecord) -> TokenMade:
        """Make a token (admins); it is shown this once."""
        return TokenMade.model_validate_json(await self._door.ask("POST", "/v1/tokens", body=sent(record)))

    async def revoke_token(self, token_id: str) -> None:
        """Revoke a token by its id (admins)."""
        await self._door.ask("DELETE", f"/v1/tokens/{quote(token_id, safe='')}")


def _job(job_id: str, part: str = "") -> str:
    """Path of a job, whatever somebody gives as its id."""
    return f"/v1/jobs/{quote(job_id, safe='')}{part}"
