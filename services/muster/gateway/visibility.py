"""What a principal sees of other teams' jobs: one place, between what the gateway reads and every handler.

`AppContext.seen_by` puts it in front of the read side, so that a handler never holds what its caller may not see.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from pydantic import JsonValue

from muster.bus.gateway_settings import AccessSettings, OtherTeams
from muster.gateway.authorise import Principal
from muster.gateway.feed import FedFact, Position
from muster.gateway.ports import JobFilter, Known, NodeShape, Page, ReadView
from muster.gateway.problems import ProblemError, not_found
from muster.gateway.views import Views
from muster.schemas.queries import DryRunAnswer, WhyAnswer
from muster.schemas.views import FactView, JobView

SPEC = "task_groups"
"""A field that every specification of a job has, and nothing else that a fact carries."""
MASK = "of-another-team"
STEPS_MAX = 20
"""Pages that are looked at for one page of visible jobs."""
_OF_JOB = "/v1/jobs/{job_id}"
READABLE = frozenset(
    {
        "/v1/me", "/v1/queues", "/v1/events", "/v1/jobs", _OF_JOB, f"{_OF_JOB}/events", f"{_OF_JOB}/why",
        f"{_OF_JOB}/stats", f"{_OF_JOB}/telemetry", f"{_OF_JOB}/output",
    }
)  # fmt: skip
"""Routes for a principal that sees nothing of other teams: each answers from a read side that hides their jobs.

A route that is added is closed to such a principal until it stands here.
"""
T = TypeVar("T")
_JOB_ID = re.compile(r"\b[A-Z2-7]{26}\b")


class Facts(Protocol):
    """Facts as they come (`feed.Feed`)."""

    @property
    def version(self) -> int:
        """Grows whenever there may be more."""
        ...

    def position(self) -> Position:
        """Everything so far. Raises ProblemError (503)."""
        ...

    async def after(self, position: Position) -> list[FedFact]:
        """What came after `position`, which moves on. Raises UnreachableError."""
        ...

    async def changed(self, *, since: int, timeout_s: float) -> bool:
        """Wait until there may be more."""
        ...

    async def newest(self, count: int) -> list[FedFact]:
        """The newest facts, oldest first. Raises UnreachableError."""
        ...


@dataclass(frozen=True, slots=True)
class Sight:
    """What one principal sees. teams: whose jobs it sees in full."""

    others: OtherTeams
    teams: frozenset[str] = frozenset()

    @property
    def is_full(self) -> bool:
        """Return whether nothing is withheld."""
        return self.others == "all"

    @property
    def hides_jobs(self) -> bool:
        """Return whether jobs of other teams do not exist for the principal."""
        return self.others == "nothing"

    def may_read(self, path: str) -> bool:
        """Return whether a route may be read at all. path: its template."""
        return not self.hides_jobs or path in READABLE

    def shows(self, team: str) -> bool:
        """Return whether a job of this team exists for the principal."""
        return not self.hides_jobs or team in self.teams

    def text(self, text: str, *, own: str) -> str:
        """Return a text about a visible job without the ids of other jobs, where those are hidden."""
        if not self.hides_jobs:
            return text
        return _JOB_ID.sub(lambda found: found[0] if found[0] == own else MASK, text)

    def why(self, answer: WhyAnswer, job_id: str) -> WhyAnswer:
        """Return why a visible job waits, without naming hidden ones."""
        if not self.hides_jobs:
            return answer
        return WhyAnswer.model_validate_json(self.text(answer.model_dump_json(), own=job_id))

    def dry_run(self, answer: DryRunAnswer) -> DryRunAnswer:
        """Return what would happen to a job, without naming hidden ones."""
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
            return ""  # it was cut, so nobody knows where the command ends
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
"""Of the gateway itself."""
NO_SIGHT = Sight("nothing")
"""Of who did not say who it is."""


def sight_of(principal: Principal | None, access: AccessSettings) -> Sight:
    """Return what a principal sees; a principal sees the jobs of its own teams in full, whatever its role."""
    if principal is None:
        return NO_SIGHT
    return Sight(access.of(principal.role).other_teams, principal.teams)


@dataclass(frozen=True, slots=True)
class VisibleView:
    """The read model as one principal sees it (`ports.ReadView`)."""

    whole: ReadView
    sight: Sight

    async def job(self, job_id: str) -> Known:
        """See `ReadView.job`."""
        known = await self.whole.job(job_id)
        return known if known.row is None else Known(self.sight.row(known.row), known.fed_seq)

    async def jobs(self, wanted: JobFilter, *, limit: int, cursor: str) -> Page:
        """See `ReadView.jobs`. Hidden jobs are no rows, so a page may be short and still have a next one."""
        rows: list[bytes] = []
        for _ in range(STEPS_MAX):
            page = await self.whole.jobs(wanted, limit=limit - len(rows), cursor=cursor)
            rows += _shown(self.sight.row(row) for row in page.rows)
            cursor = page.next_cursor
            if len(rows) == limit or not cursor:
                break
        return Page(tuple(rows), cursor)

    async def trail(self, job_id: str) -> tuple[bytes, ...]:
        """See `ReadView.trail`. Of a hidden job nothing, as of one that there never was."""
        if self.sight.hides_jobs:
            row = (await self.whole.job(job_id)).row
            if row is None or self.sight.row(row) is None:
                return ()
        return tuple(map(self.sight.body, await self.whole.trail(job_id)))

    async def logs_of(self, job_id: str) -> frozenset[str] | None:
        """See `ReadView.logs_of`."""
        return await self.whole.logs_of(job_id)

    async def nodes(self) -> tuple[bytes, ...]:
        """See `ReadView.nodes`."""
        return await self.whole.nodes()

    async def queues(self) -> tuple[bytes, ...]:
        """See `ReadView.queues`."""
        return await self.whole.queues()

    async def reservations(self) -> tuple[bytes, ...]:
        """See `ReadView.reservations`."""
        return await self.whole.reservations()

    async def shapes(self) -> Sequence[NodeShape] | None:
        """See `ReadView.shapes`."""
        return await self.whole.shapes()


@dataclass(frozen=True, slots=True)
class VisibleFacts:
    """Facts as they come, as one principal sees them (`Facts`)."""

    whole: Facts
    sight: Sight

    @property
    def version(self) -> int:
        """See `Facts.version`."""
        return self.whole.version

    def position(self) -> Position:
        """See `Facts.position`."""
        return self.whole.position()

    async def after(self, position: Position) -> list[FedFact]:
        """See `Facts.after`."""
        return _shown(map(self.sight.fact, await self.whole.after(position)))

    async def changed(self, *, since: int, timeout_s: float) -> bool:
        """See `Facts.changed`."""
        return await self.whole.changed(since=since, timeout_s=timeout_s)

    async def newest(self, count: int) -> list[FedFact]:
        """See `Facts.newest`."""
        return _shown(map(self.sight.fact, await self.whole.newest(count)))


@dataclass(frozen=True, slots=True)
class VisibleViews(Views):
    """Where a job is looked for; a hidden one is answered like one that there never was."""

    sight: Sight = NO_SIGHT

    async def job(self, job_id: str) -> bytes:
        """See `Views.job`."""
        try:
            row = self.sight.row(await Views.job(self, job_id))
        except ProblemError as error:
            if error.problem.status != 410 or not self.sight.hides_jobs:
                raise
            row = None  # it ended long ago, and nobody knows whose it was
        if row is None:
            raise not_found("job", job_id)
        return row
