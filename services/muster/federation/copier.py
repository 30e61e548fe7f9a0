"""Copies what the clusters report (FED_UP) into the federation's log, each once.

`job-ended` expects that its literal subject holds nothing yet, or only the end of an earlier assignment: so a job's
newest assignment ends once in FED whoever copies, an end that comes late and counts for nothing (its cluster was given
up) keeps no other out, and a second copier or a second try does no harm; the id of every copy is a hash of its source.
Reports are copied in bounded groups, and a group is whole before the next begins: so copying goes on one group before
the newest copy, and needs no memory of its own. Reports that were copied long ago are purged, or FED_UP would fill up
and take none any more. A summary that is followed by another at once is left out.

`CopyTrimmer` forgets the beginning of the centre's copies of clusters' logs, which would fill up and take no more. A
copy is trimmed as its original may be: up to the older of the cluster's kept checkpoints, and nothing that is younger
than `federation.copies_keep_s`. It needs no archive, as the original is the cell's to keep. What the centre has yet to
take from it stays: reports for the federation, and events that a webhook has yet to be told. A copy that is nearly full
keeps what a start and the federation need, and nothing else: if it took no more, the whole centre would stand still.
"""

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
"""Reports copied at once, and messages that are looked at again after a restart."""

KEPT = 4_096
"""Reports left in FED_UP, copied or not, and how many more there may be before the oldest are purged. Never none: the
broker finds by the newest one where its source goes on."""

READ_TIMEOUT_S = 1.0
RETRY_S = 0.5
"""Between two tries while FED is full or away. It is tried for ever: a report is not lost, only late."""

Store = Callable[[Draft, str], Awaitable[Outcome]]
"""Stores a draft as the fact of this id."""

Believes = Callable[[Draft], Awaitable[bool]]
"""Whether a report may be so. Raises LogUnavailableError: nobody knows now."""

_logger = logging.getLogger(__name__)


class Copier:
    """The hosted piece (`bus.service.Hosted`): runs until it is cancelled."""

    def __init__(self, declaration: Declaration, *, kept: int = KEPT, desk: Desk | None = None) -> None:
        """desk: whom to ask whether a cluster can know what it reports; None: all are believed."""
        assert kept > GROUP_MAX, "a restart looks at one group again"
        self.declaration = declaration
        self._kept = kept
        self._desk = desk

    async def run(self, connect: Connect, settings: Settings) -> None:  # noqa: ARG002 - the port's signature
        """Copy for ever. Raises LogError, or a group of them, where the bus refuses for good; the supervisor starts it
        again.
        """
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
    """The clusters' services run beside the federation, with rights of their own on the same broker."""
    return True


async def copy_group(
    reader: LogReader,
    store: Store,
    *,
    believes: Believes = _everybody,
    summaries: Summaries | None = None,
    retry_s: float = RETRY_S,
) -> int:
    """Copy the next reports, at most `GROUP_MAX`; every one of them stands when it returns the last one's sequence,
    less those that FED never takes: one of these stops no other.

    summaries: where those wait; None: they are copied like all the others. Raises an ExceptionGroup of what the broker
    refused for good; nobody goes on then.
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
    """Store one copy, however long FED is full or away. One that FED never takes is refused."""
    try:
        while (outcome := await store(draft, fact_id)) not in (Outcome.STORED, Outcome.EXISTS):
            _logger.warning(
                "FED is %s: %s of %s waits", outcome.value, draft.name, draft.subject_id, extra=about(draft.trace)
            )
            await asyncio.sleep(retry_s)
    except FactRefusedError as error:
        refuse(draft, error)


async def _store_end(client: Client, draft: Draft, ended: JobEnded, fact_id: str) -> Outcome:
    """EXISTS also for an end of an earlier assignment than one that has ended: nobody waits for it."""
    stored = await append_single(client, FED_LOG, service=SERVICE, draft=draft, fact_id=fact_id, expect_new=True)
    if stored.outcome is not Outcome.EXISTS or ended.assignment == 1:
        return stored.outcome
    subject = fact_subject(FED_LOG, writer=SERVICE, kind="job", subject_id=draft.subject_id, name=draft.name)
    known = await jsapi.last_on_subject(client, FED_LOG.stream, subject)
    if known is None or JobEnded.model_validate_json(known.body).assignment >= ended.assignment:
        return Outcome.EXISTS
    stored = await append_single(client, FED_LOG, service=SERVICE, draft=draft, fact_id=fact_id, expect_last=known.seq)
    # another end came between, or another copier was faster: look again
    return Outcome.UNAVAILABLE if stored.outcome is Outcome.EXISTS and not stored.seq else stored.outcome


async def _start(client: Client) -> int:
    """The sequence after which copying goes on: one group before the newest copy, never before what FED_UP has."""
    pattern = fact_subject(FED_LOG, writer=SERVICE, kind="job", subject_id="*", name="job-ended")
    newest = await jsapi.last_on_subject(client, FED_LOG.stream, pattern)
    copied = JobEnded.model_validate_json(newest.body).source_seq if newest is not None else 0
    info = await jsapi.stream_info(client, FED_UP_LOG.stream)
    first = info.state.first_seq if info is not None else 0
    return max(copied - GROUP_MAX, first - 1, 0)


LOOK_S = 600.0
"""Between two looks at the copies."""

NEARLY_FULL = 0.8
"""Of what a copy may hold."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a copy stands, in sequences. first: that it holds, 0 if none. checkpoint: the older of those kept,
    0 if there is none. told: up to there every webhook was told; None: all of it. filled: part of what it may hold.
    reported: the federation has taken every report.
    """

    first: int
    checkpoint: int
    told: int | None
    filled: float
    reported: bool


def bound(standing: Standing) -> int:
    """Up to where the copy may be forgotten, whatever its age; 0: nothing."""
    if not standing.reported:
        return 0
    is_full = standing.filled >= NEARLY_FULL
    up_to = standing.checkpoint if standing.told is None or is_full else min(standing.checkpoint, standing.told)
    return up_to if up_to >= standing.first else 0


async def newest_before(time_of: Callable[[int], Awaitable[Instant]], *, first: int, last: int, before: Instant) -> int:
    """The newest sequence from `first` to `last` that is older than `before`; 0 if none is. Halves what is left."""
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
    """The hosted piece (`bus.service.Hosted`) of a centre: runs until it is cancelled."""

    def __init__(self, declaration: Declaration, *, look_s: float = LOOK_S) -> None:
        self.declaration = declaration
        self._look_s = look_s

    async def run(self, connect: Connect, settings: Settings) -> None:
        """Look at every copy, now and then. What cannot be looked at now is looked at later."""
        client = await connect(SERVICE)
        while True:
            for cluster in settings.clusters:
                try:
                    up_to = await trim_copy(
                        client, cluster, keep_s=settings.federation.copies_keep_s, now=Instant(SystemTime().wall())
                    )
                except (LogError, ApiError, CheckpointError, CheckpointUnavailableError) as error:
                    _logger.info("the copy of %s cannot be looked at now: %s", cluster, error)
                    continue
                if up_to:
                    _logger.info("the copy of %s begins at %d now", cluster, up_to + 1)
            await asyncio.sleep(self._look_s)


async def trim_copy(client: Client, cluster: str, *, keep_s: float, now: Instant) -> int:
    """Forget what is older than `keep_s` and needed by nobody; the last sequence that was forgotten, 0 if none was.

    Raises ApiError, LogUnavailableError, CheckpointError, CheckpointUnavailableError.
    """
    stream = cluster_log(cluster).stream
    standing = await _standing(client, cluster)
    up_to = bound(standing)
    if up_to and standing.filled < NEARLY_FULL:

        async def time_of(seq: int) -> Instant:
            found = await jsapi.message_at(client, stream, seq)
            return found.time if found is not None else Instant(0)  # it is gone: somebody else was faster

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
