"""Decides which reports of clusters with brokers of their own the federation trusts.

A cell can write anything into its own log. Its reports about jobs are trusted only for assignments that it was
given, and unexpected ones only once each: otherwise a cell could end the jobs of another one, or fill FED.
"""

import asyncio
import logging

from nats.aio.client import Client
from prometheus_client import Counter

from muster.bus.jsapi import last_on_subject
from muster.bus.ports import FactRefusedError
from muster.core import Draft
from muster.federation.core import FederationCore
from muster.federation.core.copies import assignment_in, is_asked_back, is_awaited
from muster.federation.core.state import State
from muster.schemas.facts.federation import Assignment, JobReturnRefused
from muster.schemas.facts.job import JobEnded, JobRouted
from muster.schemas.subjects import FED_LOG, fact_subject

SUMMARY_S = 1.0
"""Minimum time between two summaries of one cluster in FED, in seconds; of those in between, the newest is stored."""

ONCE_MAX = 50_000
"""Maximum number of unexpected, trusted reports that are remembered to refuse repetitions; the oldest are dropped."""

_REFUSED = Counter(
    "muster_federation_reports_refused",
    "Refused reports of a cluster: about jobs it was never assigned, repeated, or not storable in FED.",
    ("cluster",),
)
_logger = logging.getLogger(__name__)


class Desk:
    """The newest core of this process, for the copier. A core is created and restored in one step, so it is
    complete."""

    def __init__(self) -> None:
        self._core: FederationCore | None = None
        self._is_there = asyncio.Event()

    def take(self, core: FederationCore) -> FederationCore:
        """Register the core and return it."""
        self._core = core
        self._is_there.set()
        return core

    async def state(self) -> State:
        """Return the state as folded so far; wait until there is a core."""
        await self._is_there.wait()
        assert self._core is not None, "the event is set only after the core"
        return self._core.state


class Believing:
    """Decides by the jobs of the core, and if it may be behind, by FED itself."""

    def __init__(self, client: Client, desk: Desk) -> None:
        self._client = client
        self._desk = desk
        self._once: dict[tuple[str, str, Assignment], None] = {}

    async def __call__(self, draft: Draft) -> bool:
        """Return whether the copy may be stored in FED. Raises ApiError, LogUnavailableError."""
        told = assignment_in(draft)
        if told is None or _is_awaited(await self._desk.state(), draft, told):
            return True
        was_given = await self._was_given(draft.subject_id, told)
        if was_given and self._is_news(draft, told):
            return True
        _REFUSED.labels(told.cluster).inc()
        why = "repeatedly without a request" if was_given else "of a job that it was never assigned"
        _logger.warning("cluster %s reports %s %s", told.cluster, draft.name, why)
        return False

    def _is_news(self, draft: Draft, told: Assignment) -> bool:
        """Return whether the report is not a repetition. Of ends, FED itself accepts only one."""
        if isinstance(draft.payload, JobEnded):
            return True
        word = (draft.subject_id, draft.name, told)
        if word in self._once:
            return False
        self._once[word] = None
        if len(self._once) > ONCE_MAX:
            del self._once[next(iter(self._once))]
        return True

    async def _was_given(self, job_id: str, told: Assignment) -> bool:
        subject = fact_subject(
            FED_LOG, writer="federation", kind="job", subject_id=job_id, name="routed", cluster=told.cluster
        )
        newest = await last_on_subject(self._client, FED_LOG.stream, subject)
        return newest is not None and told.number <= JobRouted.model_validate_json(newest.body).assignment


def _is_awaited(state: State, draft: Draft, told: Assignment) -> bool:
    if isinstance(draft.payload, JobReturnRefused) and not is_asked_back(state, draft.subject_id):
        return False
    return is_awaited(state, draft.subject_id, told)


def refuse(draft: Draft, error: FactRefusedError) -> None:
    """Count and log a report whose copy FED does not accept; it is not copied again."""
    cluster = getattr(draft.payload, "cluster", "")
    _REFUSED.labels(cluster).inc()
    _logger.error("cluster %s reports %s, which cannot be copied: %s", cluster, draft.name, error)


class Summaries:
    """Buffers the newest summary of every cluster, so that summaries cannot fill FED."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Draft, str]] = {}
        self._said_s: dict[str, float] = {}

    def offer(self, draft: Draft, fact_id: str) -> None:
        """Buffer the newest summary of its cluster, to be stored as the fact of this id."""
        self._waiting[draft.subject_id] = (draft, fact_id)

    def due(self, now_s: float) -> list[tuple[Draft, str]]:
        """Return the summaries that are due, and remove them. now_s: on the monotonic clock."""
        turns = [name for name in self._waiting if now_s - self._said_s.get(name, -SUMMARY_S) >= SUMMARY_S]
        self._said_s.update(dict.fromkeys(turns, now_s))
        return [self._waiting.pop(name) for name in turns]
