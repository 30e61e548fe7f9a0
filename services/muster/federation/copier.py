"""Copies what the clusters report (FED_UP) into the federation's log, each once.

`job-ended` expects that its literal subject holds nothing yet, or only the end of an earlier assignment: so a job's
newest assignment ends once in FED whoever copies, an end that comes late and counts for nothing (its cluster was given
up) keeps no other out, and a second copier or a second try does no harm; the id of every copy is a hash of its source.
Reports are copied in bounded groups, and a group is whole before the next begins: so copying goes on one group before
the newest copy, and needs no memory of its own. Reports that were copied long ago are purged, or FED_UP would fill up
and take none any more. A summary that is followed by another at once is left out.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.clock import SystemTime
from muster.bus.declaration import Declaration
from muster.bus.nats_log import NatsLog
from muster.bus.ports import FactRefusedError, LogReader, LogUnavailableError
from muster.bus.requests import Outcome, append_single
from muster.bus.service import Connect
from muster.bus.settings import Settings
from muster.bus.tracing import about
from muster.core import Draft
from muster.federation.core.copies import copy_id, copy_of
from muster.federation.reports import Believing, Desk, Summaries, refuse
from muster.schemas.facts.control import ClusterSummary
from muster.schemas.facts.job import JobEnded
from muster.schemas.subjects import FED_LOG, FED_UP_LOG, fact_subject

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
