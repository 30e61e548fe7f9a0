"""Copies the reports of clusters (FED_UP) into the federation's log, each once. `job-ended` expects that its literal
subject is empty, or has only the end of an earlier assignment. So the newest assignment of a job ends once in FED,
however many copiers there are: a late end of a lost cluster does not block another end, and a second copier or retry
does no harm; the id of every copy is a hash of its source. Reports are copied in bounded groups, and each group is
complete before the next begins: after a restart, copying continues one group before the newest copy, without a state
of its own. Reports that were copied long ago are purged, so that FED_UP does not fill up. A summary that is soon
followed by another is left out. `CopyTrimmer` trims a center's copies of clusters' logs, so that they do not fill
up. A copy is trimmed up to the older of the cluster's kept checkpoints, except facts younger than
`federation.copies_keep_s`. It needs no archive, as the cell keeps the original. Facts that the center still needs
stay: reports for the federation, and events for webhooks. A copy that is nearly full keeps only what a start and the
federation need: if it accepted no more, the whole center would stop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.checkpoint import CheckpointError, CheckpointUnavailableError
from muster.bus.checkpoint_store import CopiedCheckpoints
from muster.bus.clock import SystemTime
from muster.bus.declaration import Declaration
from muster.bus.nats_log import NatsLog
from muster.bus.ports import ApiError, FactRefusedError, LogError, LogReader, LogUnavailableError
from muster.bus.requests import Outcome, append_single
from muster.bus.service import Connect
from muster.bus.settings import Settings
from muster.bus.tracing import about
from muster.core import Draft
from muster.core.instant import NS_PER_S, Instant
from muster.federation.core.copies import copy_id, copy_of
from muster.federation.reports import Believing, Desk, Summaries, refuse
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.job import JobEnded
from muster.schemas.subjects import FED_LOG, FED_UP_LOG, cluster_log, fact_subject

SERVICE = "federation"
GROUP_MAX = 64
"""Maximum number of reports copied at once, and of messages read again after a restart."""

KEPT = 4_096
"""Reports kept in FED_UP, copied or not, and how many more there may be before the oldest are purged. Never none: the
broker finds the position of its source by the newest one.
"""

READ_TIMEOUT_S = 1.0
RETRY_S = 0.5
"""Delay between two attempts while FED is full or unavailable, in seconds. Attempts do not end: no report is lost."""

Store = Callable[[Draft, str], Awaitable[Outcome]]
"""Store a draft as the fact of this id."""

Believes = Callable[[Draft], Awaitable[bool]]
"""Return whether a report is trusted. Raises LogUnavailableError if that cannot be decided now."""

_logger = logging.getLogger(__name__)


class Copier:
    """The copier as a hosted service (`bus.service.Hosted`): runs until it is cancelled."""

    def __init__(self, declaration: Declaration, *, kept: int = KEPT, desk: Desk | None = None) -> None:
        """Create the copier. desk: decides whether to trust a report; None: all are trusted."""
        assert kept > GROUP_MAX, "a restart looks at one group again"
        self.declaration = declaration
        self._kept = kept
        self._desk = desk

    async def run(self, connect: Connect, settings: Settings) -> None:  # noqa: ARG002 - the port's signature
        """Copy until cancelled. Raises LogError, or a group of them, if the bus refuses permanently; the supervisor
        restarts it."""
        client = await connect(SERVICE)
        log = NatsLog(client, FED_UP_LOG)
        start = await _start(client)
        reader = await log.reader(after_seq=start)
        purged = start
        time, summaries = SystemTime(), Summaries()
        believes = Believing(client, self._desk) if self._desk is not None else _everybody

        async def store(draft: Draft, fact_id: str) -> Outcome:
            if isinstance(draft.payload, JobEnded):
                return await _store_end(client, draft, draft.payload, fact_id)
            stored = await append_single(client, FED_LOG, service=SERVICE, draft=draft, fact_id=fact_id)
            return stored.outcome

        try:
            while True:
                copied = await copy_group(reader, store, believes=believes, summaries=summaries)
                for draft, fact_id in summaries.due(time.monotonic_s()):
                    await _keep(draft, fact_id, store, RETRY_S)
                if copied - purged >= 2 * self._kept:
                    purged = copied - self._kept
                    await jsapi.call(client, f"STREAM.PURGE.{FED_UP_LOG.stream}", {"seq": purged + 1})
        finally:
            await reader.close()


async def _everybody(_: Draft) -> bool:
    """Trust every report: the clusters' services use the same broker as the federation, with their own permissions."""
    return True


async def copy_group(
    reader: LogReader,
    store: Store,
    *,
    believes: Believes = _everybody,
    summaries: Summaries | None = None,
    retry_s: float = RETRY_S,
) -> int:
    """Copy the next reports, at most `GROUP_MAX`, and return the sequence of the last one.

    All of them are stored then, except those that FED never accepts, which do not block the others. summaries:
    buffer of summaries; None: they are copied like all others. Raises an ExceptionGroup of permanent refusals.
    """
    batch = await reader.read(limit=GROUP_MAX, timeout_s=READ_TIMEOUT_S)
    copies = [(draft, copy_id(FED_UP_LOG.stream, report.seq)) for report in batch.facts if (draft := copy_of(report))]
    if summaries is not None:
        for draft, fact_id in copies:
            if isinstance(draft.payload, ClusterSummary):
                summaries.offer(draft, fact_id)
        copies = [one for one in copies if not isinstance(one[0].payload, ClusterSummary)]
    async with asyncio.TaskGroup() as tasks:
        for draft, fact_id in copies:
            tasks.create_task(_copy(draft, fact_id, store, believes, retry_s))
    return batch.last_seq


async def _copy(draft: Draft, fact_id: str, store: Store, believes: Believes, retry_s: float) -> None:
    while True:
        try:
            is_believed = await believes(draft)
            break
        except LogUnavailableError as error:
            _logger.warning("%s of %s waits: %s", draft.name, draft.subject_id, error, extra=about(draft.trace))
            await asyncio.sleep(retry_s)
    if is_believed:
        await _keep(draft, fact_id, store, retry_s)


async def _keep(draft: Draft, fact_id: str, store: Store, retry_s: float) -> None:
    """Store one copy, however long FED is full or unavailable; refuse one that FED never accepts."""
    try:
        while (outcome := await store(draft, fact_id)) not in (Outcome.STORED, Outcome.EXISTS):
            _logger.warning(
                "FED is %s: %s of %s waits", outcome.value, draft.name, draft.subject_id, extra=about(draft.trace)
            )
            await asyncio.sleep(retry_s)
    except FactRefusedError as error:
        refuse(draft, error)


async def _store_end(client: Client, draft: Draft, ended: JobEnded, fact_id: str) -> Outcome:
    """Store an end of a job; return EXISTS also for an end of an earlier assignment, which is obsolete."""
    stored = await append_single(client, FED_LOG, service=SERVICE, draft=draft, fact_id=fact_id, expect_new=True)
    if stored.outcome is not Outcome.EXISTS or ended.assignment == 1:
        return stored.outcome
    subject = fact_subject(FED_LOG, writer=SERVICE, kind="job", subject_id=draft.subject_id, name=draft.name)
    known = await jsapi.last_on_subject(client, FED_LOG.stream, subject)
    if known is None or JobEnded.model_validate_json(known.body).assignment >= ended.assignment:
        return Outcome.EXISTS
    stored = await append_single(client, FED_LOG, service=SERVICE, draft=draft, fact_id=fact_id, expect_last=known.seq)
    # another end was stored in between, or another copier was faster: try again
    return Outcome.UNAVAILABLE if stored.outcome is Outcome.EXISTS and not stored.seq else stored.outcome


async def _start(client: Client) -> int:
    """Return the sequence after which to copy: one group before the newest copy, at least the start of FED_UP."""
    pattern = fact_subject(FED_LOG, writer=SERVICE, kind="job", subject_id="*", name="job-ended")
    newest = await jsapi.last_on_subject(client, FED_LOG.stream, pattern)
    copied = JobEnded.model_validate_json(newest.body).source_seq if newest is not None else 0
    info = await jsapi.stream_info(client, FED_UP_LOG.stream)
    first = info.state.first_seq if info is not None else 0
    return max(copied - GROUP_MAX, first - 1, 0)


LOOK_S = 600.0
"""Interval between two checks of the copies, in seconds."""

NEARLY_FULL = 0.8
"""Share of its size limit from which a copy counts as nearly full."""


@dataclass(frozen=True, slots=True)
class Standing:
    """State of a copy, in sequences."""

    first: int  # its oldest message; 0 for none
    checkpoint: int  # the older of the kept checkpoints; 0 for none
    told: int | None  # up to there every webhook was sent; None: all of it
    filled: float  # share of its size limit
    reported: bool  # the federation has copied every report


def bound(standing: Standing) -> int:
    """Return the sequence up to which the copy may be trimmed, whatever its age; 0 for none."""
    if not standing.reported:
        return 0
    is_full = standing.filled >= NEARLY_FULL
    up_to = standing.checkpoint if standing.told is None or is_full else min(standing.checkpoint, standing.told)
    return up_to if up_to >= standing.first else 0


async def newest_before(time_of: Callable[[int], Awaitable[Instant]], *, first: int, last: int, before: Instant) -> int:
    """Return the newest sequence from `first` to `last` that is older than `before`, by bisection; 0 for none."""
    if first > last or await time_of(first) >= before:
        return 0
    low, high = first, last
    while low < high:
        middle = (low + high + 1) // 2
        if await time_of(middle) < before:
            low = middle
        else:
            high = middle - 1
    return low


class CopyTrimmer:
    """The trimmer of a center as a hosted service (`bus.service.Hosted`): runs until it is cancelled."""

    def __init__(self, declaration: Declaration, *, look_s: float = LOOK_S) -> None:
        self.declaration = declaration
        self._look_s = look_s

    async def run(self, connect: Connect, settings: Settings) -> None:
        """Check every copy periodically; a copy that cannot be checked now is checked later."""
        client = await connect(SERVICE)
        while True:
            for cluster in settings.clusters:
                try:
                    up_to = await trim_copy(
                        client, cluster, keep_s=settings.federation.copies_keep_s, now=Instant(SystemTime().wall())
                    )
                except (LogError, ApiError, CheckpointError, CheckpointUnavailableError) as error:
                    _logger.info("the copy of %s cannot be checked now: %s", cluster, error)
                    continue
                if up_to:
                    _logger.info("the copy of %s was trimmed and begins at %d", cluster, up_to + 1)
            await asyncio.sleep(self._look_s)


async def trim_copy(client: Client, cluster: str, *, keep_s: float, now: Instant) -> int:
    """Trim facts that are older than `keep_s` and no longer needed; return the last trimmed sequence, 0 for none.

    Raises ApiError, LogUnavailableError, CheckpointError, CheckpointUnavailableError.
    """
    stream = cluster_log(cluster).stream
    standing = await _standing(client, cluster)
    up_to = bound(standing)
    if up_to and standing.filled < NEARLY_FULL:

        async def time_of(seq: int) -> Instant:
            found = await jsapi.message_at(client, stream, seq)
            return found.time if found is not None else Instant(0)  # it was trimmed already

        before = Instant(now - round(keep_s * NS_PER_S))
        up_to = await newest_before(time_of, first=standing.first, last=up_to, before=before)
    if up_to:
        await jsapi.call(client, f"STREAM.PURGE.{stream}", {"seq": up_to + 1})
    return up_to


async def _standing(client: Client, cluster: str) -> Standing:
    stream = cluster_log(cluster).stream
    info = await jsapi.stream_info(client, stream)
    reports = await jsapi.stream_info(client, FED_UP_LOG.stream)
    if info is None or reports is None or not info.state.messages:
        return Standing(first=0, checkpoint=0, told=None, filled=0.0, reported=False)
    pointer, _ = await CopiedCheckpoints(client, cluster).pointer(stream)
    told = [
        one.ack_floor.stream_seq
        for one in await jsapi.consumers(client, stream)
        if one.config.durable_name and (one.num_pending or one.num_ack_pending)
    ]
    bytes_max = info.config.get("max_bytes")
    return Standing(
        first=info.state.first_seq,
        checkpoint=min((one.seq for one in pointer.checkpoints), default=0),
        told=min(told, default=None),
        filled=info.state.bytes / bytes_max if isinstance(bytes_max, int) and bytes_max > 0 else 0.0,
        reported=any(source.name == stream and not source.lag for source in reports.sources),
    )
