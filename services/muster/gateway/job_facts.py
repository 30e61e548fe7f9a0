"""Facts about one job as they come, of the logs that may tell of it: the federation's and that of the job's cluster."""

from collections.abc import Iterable

from muster.bus.clock import TimeSource
from muster.gateway.feed import FedFact, Position
from muster.gateway.ports import ReadView
from muster.gateway.visibility import Facts
from muster.schemas.views import FactView

LOOK_EVERY_S = 10.0
"""So often it is asked whose facts are the job's, where nothing is told of it."""
DOUBT_EVERY_S = 0.5
"""The same after facts of a log that is not the job's: the federation's row may be behind that log."""
DOUBT_S_MAX = 30.0
"""For so long after such a fact."""


class JobFacts:
    """Implements `Facts` for one job. Any cluster can write facts about any job; those of others are left out.

    When the federation names another cluster, all that is kept of that cluster's facts about the job is returned.
    """

    def __init__(self, whole: Facts, view: ReadView, job_id: str, *, time: TimeSource, told: Position) -> None:
        """Follow `whole`. told: by stream, the sequence up to which the listener has the job's facts."""
        self._whole = whole
        self._view = view
        self._job_id = job_id
        self._time = time
        self._told = dict(told)
        self._logs: frozenset[str] = frozenset()
        self._found: list[FedFact] = []
        self._look_at_s = self._doubt_until_s = float("-inf")

    @property
    def version(self) -> int:
        """See `Facts.version`."""
        return self._whole.version

    def position(self) -> Position:
        """See `Facts.position`."""
        return self._whole.position()

    async def after(self, position: Position) -> list[FedFact]:
        """See `Facts.after`. What was found before the read model failed is returned by a later call."""
        self._found += [fact for fact in await self._whole.after(position) if self._is_about_it(fact)]
        now_s = self._time.monotonic_s()
        if not self._found and now_s < self._look_at_s:
            return []
        self._look_at_s = now_s + DOUBT_EVERY_S  # if the read model does not answer
        logs = await self._view.logs_of(self._job_id)
        if logs is None:
            self._look_at_s = float("inf")
            taken, self._found = self._found, []
            return taken
        kept = await self._kept() if logs - self._logs else []
        found, self._found, self._logs = self._found, [], logs
        if any(fact.stream not in logs for fact in found):
            self._doubt_until_s = now_s + DOUBT_S_MAX
        self._look_at_s = now_s + (DOUBT_EVERY_S if now_s < self._doubt_until_s else LOOK_EVERY_S)
        return self._new(fact for fact in (*kept, *found) if fact.stream in logs)

    async def changed(self, *, since: int, timeout_s: float) -> bool:
        """See `Facts.changed`."""
        due_s = max(0.0, self._look_at_s - self._time.monotonic_s())
        return await self._whole.changed(since=since, timeout_s=min(timeout_s, due_s))

    async def newest(self, count: int) -> list[FedFact]:
        """See `Facts.newest`."""
        return [fact for fact in await self._whole.newest(count) if self._is_about_it(fact)]

    async def _kept(self) -> list[FedFact]:
        bodies = await self._view.trail(self._job_id)
        views = ((FactView.model_validate_json(body), body) for body in bodies)
        return [FedFact(view.stream, view.seq, "", body, self._job_id) for view, body in views]

    def _new(self, facts: Iterable[FedFact]) -> list[FedFact]:
        """Return each fact once: what is kept may come again as what is told."""
        new: list[FedFact] = []
        for fact in facts:
            if fact.seq > self._told.get(fact.stream, 0):
                self._told[fact.stream] = fact.seq
                new.append(fact)
        return new

    def _is_about_it(self, fact: FedFact) -> bool:
        """Return whether it is one of the job's own facts, or one of another kind that serves the job."""
        job_id = self._job_id
        return fact.job_id == job_id or (job_id.encode() in fact.body and fact.view.subject_id == job_id)
