"""Hide other teams' jobs from a principal, between the read side of the gateway and all handlers.

`AppContext.seen_by` wraps the read side, so that a handler never holds what its caller may not see.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from pydantic import JsonValue
from typing_extensions import override

from muster.bus.gateway_settings import AccessSettings, OtherTeams
from muster.gateway.authorise import Principal
from muster.gateway.feed import FedFact, Position
from muster.gateway.ports import JobFilter, Known, NodeShape, Page, ReadView
from muster.gateway.problems import ProblemError, not_found
from muster.gateway.views import Views
from muster.schemas.queries import DryRunAnswer, WhyAnswer
from muster.schemas.views import FactView, JobView

SPEC = "task_groups"
"""A field that every specification of a job has, and that no other object in a fact has."""
MASK = "of-another-team"
STEPS_MAX = 20
"""Maximum number of pages that are read to fill one page of visible jobs."""
_OF_JOB = "/v1/jobs/{job_id}"
READABLE = frozenset(
    {
        "/v1/me", "/v1/queues", "/v1/events", "/v1/jobs", _OF_JOB, f"{_OF_JOB}/events", f"{_OF_JOB}/why",
        f"{_OF_JOB}/stats", f"{_OF_JOB}/telemetry", f"{_OF_JOB}/output", f"{_OF_JOB}/pods",
    }
)  # fmt: skip
"""Routes for a principal that sees nothing of other teams: each answers from a read side that hides their jobs.

A new route is closed to such a principal until it is listed here.
"""
T = TypeVar("T")
_JOB_ID = re.compile(r"\b[A-Z2-7]{26}\b")


class Facts(Protocol):
    """A feed of facts (`feed.Feed`)."""

    @property
    def version(self) -> int:
        """Return a number that grows whenever there may be new facts."""
        ...

    def position(self) -> Position:
        """Return the position after all facts so far. Raises ProblemError (503)."""
        ...

    async def after(self, position: Position) -> list[FedFact]:
        """Return the facts after `position`, and advance `position`. Raises UnreachableError."""
        ...

    async def changed(self, *, since: int, timeout_s: float) -> bool:
        """Wait until there may be new facts."""
        ...

    async def newest(self, count: int) -> list[FedFact]:
        """Return the newest facts, oldest first. Raises UnreachableError."""
        ...


@dataclass(frozen=True, slots=True)
class Sight:
    """Visibility of one principal."""

    others: OtherTeams
    teams: frozenset[str] = frozenset()
    """Teams whose jobs the principal sees in full."""

    @property
    def is_full(self) -> bool:
        """Return whether nothing is hidden."""
        return self.others == "all"

    @property
    def hides_jobs(self) -> bool:
        """Return whether jobs of other teams are hidden from the principal."""
        return self.others == "nothing"

    def may_read(self, path: str) -> bool:
        """Return whether the principal may read a route. path: the route's template."""
        return not self.hides_jobs or path in READABLE

    def shows(self, team: str) -> bool:
        """Return whether the principal sees jobs of this team."""
        return not self.hides_jobs or team in self.teams

    def text(self, text: str, *, own: str) -> str:
        """Return a text about a visible job; replace the ids of hidden jobs."""
        if not self.hides_jobs:
            return text
        return _JOB_ID.sub(lambda found: found[0] if found[0] == own else MASK, text)

    def why(self, answer: WhyAnswer, job_id: str) -> WhyAnswer:
        """Return why a visible job waits, without the names of hidden jobs."""
        if not self.hides_jobs:
            return answer
        return WhyAnswer.model_validate_json(self.text(answer.model_dump_json(), own=job_id))

    def dry_run(self, answer: DryRunAnswer) -> DryRunAnswer:
        """Return what would happen to a job, without the names of hidden jobs."""
        if not self.hides_jobs:
            return answer
        return DryRunAnswer.model_validate_json(self.text(answer.model_dump_json(), own=""))

    def row(self, row: bytes) -> bytes | None:
        """Return an encoded job as it is shown; None if it is hidden."""
        if not self.hides_jobs:
            return row
        job = JobView.model_validate_json(row)
        return self.text(row.decode(), own=job.id).encode() if self.shows(job.team) else None

    def fact(self, fact: FedFact) -> FedFact | None:
        """Return a fact as it is shown; None if it is hidden."""
        if self.is_full:
            return fact
        if not self.shows(fact.team):
            return None
        return replace(fact, body=self.body(fact.body))

    def body(self, body: bytes) -> bytes:
        """Return an encoded `FactView` without command and environment of other teams' jobs."""
        may_hold_spec = SPEC.encode() in body
        if self.is_full or not (may_hold_spec or self.hides_jobs):
            return body
        fact = FactView.model_validate_json(body)
        told = self._without_private(fact.body) if may_hold_spec else fact.body
        own = fact.subject_id if fact.kind == "job" else ""
        return replace(fact, body=self.text(told, own=own)).encoded()

    def _without_private(self, payload: str) -> str:
        try:
            value: JsonValue = json.loads(payload)
        except ValueError:
            return ""  # the payload was cut, so the end of the command is unknown
        for spec in _specs(value):
            if spec.get("team") not in self.teams:
                spec["command"] = []
                pod = spec.get("pod")
                if isinstance(pod, dict):
                    pod.update({"env": {}, "secret_env": []})
        return json.dumps(value, separators=(",", ":"))


def _specs(value: JsonValue) -> Iterator[dict[str, JsonValue]]:
    if isinstance(value, dict):
        if SPEC in value:
            yield value
        for inner in value.values():
            yield from _specs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _specs(inner)


def _shown(found: Iterable[T | None]) -> list[T]:
    return [one for one in found if one is not None]


FULL_SIGHT = Sight("all")
"""The view of the gateway itself."""
NO_SIGHT = Sight("nothing")
"""The view of an unauthenticated client."""


def sight_of(principal: Principal | None, access: AccessSettings) -> Sight:
    """Return what a principal sees; whatever its role, it sees the jobs of its own teams in full."""
    if principal is None:
        return NO_SIGHT
    return Sight(access.of(principal.role).other_teams, principal.teams)


@dataclass(frozen=True, slots=True)
class VisibleView:
    """The read model as one principal sees it (`ports.ReadView`)."""

    whole: ReadView
    sight: Sight

    async def job(self, job_id: str) -> Known:
        """Return a job's row; its row is None if the job is hidden."""
        known = await self.whole.job(job_id)
        return known if known.row is None else Known(self.sight.row(known.row), known.fed_seq)

    async def jobs(self, wanted: JobFilter, *, limit: int, cursor: str) -> Page:
        """Return a page of visible jobs. A page may be short and still have a next page."""
        rows: list[bytes] = []
        for _ in range(STEPS_MAX):
            page = await self.whole.jobs(wanted, limit=limit - len(rows), cursor=cursor)
            rows += _shown(self.sight.row(row) for row in page.rows)
            cursor = page.next_cursor
            if len(rows) == limit or not cursor:
                break
        return Page(tuple(rows), cursor)

    async def trail(self, job_id: str) -> tuple[bytes, ...]:
        """Return all kept facts of a job, encoded, by time; empty if the job is hidden."""
        if self.sight.hides_jobs:
            row = (await self.whole.job(job_id)).row
            if row is None or self.sight.row(row) is None:
                return ()
        return tuple(map(self.sight.body, await self.whole.trail(job_id)))

    async def logs_of(self, job_id: str) -> frozenset[str] | None:
        """Return the streams that `trail` reads for the job; None means all."""
        return await self.whole.logs_of(job_id)

    async def nodes(self) -> tuple[bytes, ...]:
        """Return all nodes, encoded, by name."""
        return await self.whole.nodes()

    async def queues(self) -> tuple[bytes, ...]:
        """Return all queues, encoded, by name."""
        return await self.whole.queues()

    async def reservations(self) -> tuple[bytes, ...]:
        """Return all booked reservations, encoded, by name."""
        return await self.whole.reservations()

    async def shapes(self) -> Sequence[NodeShape] | None:
        """Return the distinct node shapes; None while the read model was never written."""
        return await self.whole.shapes()


@dataclass(frozen=True, slots=True)
class VisibleFacts:
    """A feed of facts as one principal sees it (`Facts`)."""

    whole: Facts
    sight: Sight

    @property
    def version(self) -> int:
        """Return a number that grows whenever there may be new facts."""
        return self.whole.version

    def position(self) -> Position:
        """Return the position after all facts so far."""
        return self.whole.position()

    async def after(self, position: Position) -> list[FedFact]:
        """Return the visible facts after `position`, and advance `position`."""
        return _shown(map(self.sight.fact, await self.whole.after(position)))

    async def changed(self, *, since: int, timeout_s: float) -> bool:
        """Wait until there may be new facts."""
        return await self.whole.changed(since=since, timeout_s=timeout_s)

    async def newest(self, count: int) -> list[FedFact]:
        """Return the newest visible facts, oldest first."""
        return _shown(map(self.sight.fact, await self.whole.newest(count)))


@dataclass(frozen=True, slots=True)
class VisibleViews(Views):
    """Looks a job up for one principal; a hidden job is answered like a job that does not exist."""

    sight: Sight = NO_SIGHT

    @override
    async def job(self, job_id: str) -> bytes:
        try:
            row = self.sight.row(await Views.job(self, job_id))
        except ProblemError as error:
            if error.problem.status != 410 or not self.sight.hides_jobs:
                raise
            row = None  # the job ended long ago, and its team is unknown
        if row is None:
            raise not_found("job", job_id)
        return row
