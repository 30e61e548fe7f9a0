"""What the federation takes of what clusters report, where these stand on brokers of their own.

A cell can write whatever it likes into its own log. Of jobs it is believed only what concerns assignments that it was
given, and of what nobody waits for, each word once: else one could end the jobs of another, or fill FED.
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
"""At least so long between two summaries of one cluster in FED; of those between the newest is taken."""

ONCE_MAX = 50_000
"""Words that nobody waited for and were believed, whose repetition is not; those longest ago are forgotten."""

_REFUSED = Counter(
    "muster_federation_reports_refused",
    "What a cluster reported of jobs that it was never given, or said again, and nobody believed, or FED never takes.",
    ("cluster",),
)
_logger = logging.getLogger(__name__)


class Desk:
    """The newest core of this process, for who copies beside it. It knows every job of the checkpoint that it began
    with: a core is made and restored in one step.
    """

    def __init__(self) -> None:
        self._core: FederationCore | None = None
        self._is_there = asyncio.Event()

    def take(self, core: FederationCore) -> FederationCore:
        """The core itself."""
        self._core = core
        self._is_there.set()
        return core

    async def state(self) -> State:
        """As folded so far. Waits until there is a core."""
        await self._is_there.wait()
        assert self._core is not None, "whoever sets the event has given it a core"
        return self._core.state


class Believing:
    """Judges reports by the jobs that the core knows, and where it may be behind, by FED itself."""

    def __init__(self, client: Client, desk: Desk) -> None:
        self._client = client
        self._desk = desk
        self._once: dict[tuple[str, str, Assignment], None] = {}

    async def __call__(self, draft: Draft) -> bool:
        """Whether the copy may stand in FED. Raises ApiError, LogUnavailableError."""
        told = assignment_in(draft)
        if told is None or _is_awaited(await self._desk.state(), draft, told):
            return True
        was_given = await self._was_given(draft.subject_id, told)
        if was_given and self._is_news(draft, told):
            return True
        _REFUSED.labels(told.cluster).inc()
        why = "again, though nobody asked" if was_given else "of a job that it was never given"
        _logger.warning("cluster %s reports %s %s", told.cluster, draft.name, why)
        return False

    def _is_news(self, draft: Draft, told: Assignment) -> bool:
        """Whether it was not said before. Of ends FED itself takes one."""
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
    """Count and log a report whose copy FED does not take; it is copied no more."""
    cluster = getattr(draft.payload, "cluster", "")
    _REFUSED.labels(cluster).inc()
    _logger.error("cluster %s reports %s, which cannot be copied: %s", cluster, draft.name, error)


class Summaries:
    """Of every cluster the newest that waits, so that none can fill FED with them."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Draft, str]] = {}
        self._said_s: dict[str, float] = {}

    def offer(self, draft: Draft, fact_id: str) -> None:
        """The newest of its cluster, to be stored as the fact of this id."""
        self._waiting[draft.subject_id] = (draft, fact_id)

    def due(self, now_s: float) -> list[tuple[Draft, str]]:
        """Those whose turn it is; they wait no more. now_s: on the monotonic clock."""
        turns = [name for name in self._waiting if now_s - self._said_s.get(name, -SUMMARY_S) >= SUMMARY_S]
        self._said_s.update(dict.fromkeys(turns, now_s))
        return [self._waiting.pop(name) for name in turns]
