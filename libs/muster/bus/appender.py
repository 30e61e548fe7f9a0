"""Appending for one service: atomic batches, each begun by a fence record that the broker compares (DESIGN 5.2, 5.4).

The fence is one literal subject per service. A batch expects that subject's last sequence, so the first append of a
new leader makes every later append of the old one fail whole, by the broker and not by a clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import nats.errors
from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.batches import HEADERS_BYTES_MAX, Outgoing, Writer, split, write_each
from muster.bus.connection import RefusedSubjects, WatchingClient
from muster.bus.dead import bury_refused
from muster.bus.decode import Dead, StoredMessage, read_stored
from muster.bus.ports import (
    ApiError,
    Appended,
    DraftsRefusedError,
    FactRefusedError,
    FenceBrokenError,
    LogCounters,
    LogFullError,
    LogUnavailableError,
    Refusal,
    Refused,
    StaleFenceError,
)
from muster.bus.requests import EXPECTED_LAST_ON_SUBJECT, Single, publish
from muster.core.fact import Draft, Fact
from muster.core.instant import Instant
from muster.schemas import ids
from muster.schemas.envelope import HEADER_ID
from muster.schemas.facts.control import Fence, TermStarted
from muster.schemas.ids import request_fact_id
from muster.schemas.subjects import LogName, fact_subject, fence_subject

REPAIR_TIMEOUT_S = 5.0
COMMIT_TIMEOUT_S = 5.0
BATCH_ID = "Nats-Batch-Id"
BATCH_SEQUENCE = "Nats-Batch-Sequence"
BATCH_COMMIT = "Nats-Batch-Commit"


@dataclass(frozen=True, slots=True)
class NewestFence:
    """A fence as stored in its log."""

    seq: int
    fence: Fence
    time: Instant


async def newest_fence(client: Client, log: LogName, service: str) -> NewestFence | None:
    """Return the service's newest fence, from the stream's leader; None if there is none.

    The broker guards appends by the sequence of the last message on the fence's subject. If that message is not a
    fence, the current term is unknown, so the message is reported by its sequence and no term is guessed.
    Raises FenceBrokenError, LogUnavailableError, ApiError.
    """
    subject = fence_subject(log, service)
    stored = await jsapi.last_on_subject(client, log.stream, subject)
    if stored is None:
        return None
    found = read_stored(log, stored)
    if isinstance(found, Fact) and isinstance(found.payload, Fence):
        return NewestFence(stored.seq, found.payload, stored.time)
    why = found.error if isinstance(found, Dead) else "it is another fact"
    raise FenceBrokenError(log.stream, subject, service, seq=stored.seq, why=why)


async def repair_fence(reading: Client, writing: Client, log: LogName, service: str) -> Single | None:
    """Put a valid fence after a message that is none; None if the newest fence is in order.

    Only if nothing was stored on the fence's subject since: `EXISTS` means look again. The fence has the term of the
    newest `term-started` that the log still holds, 0 if it holds none: a leader's own term is larger.
    Raises LogUnavailableError, ApiError.
    """
    try:
        await newest_fence(reading, log, service)
    except FenceBrokenError as error:
        broken_seq = error.seq
    else:
        return None
    record = Fence(term=await _newest_term(reading, log, service), folded_seq=broken_seq)
    message = Writer(log, service).fence(record, request_fact_id("repair-fence", log.stream, service, str(broken_seq)))
    return await publish(writing, message, expect_last=broken_seq, timeout_s=REPAIR_TIMEOUT_S)


async def _newest_term(client: Client, log: LogName, service: str) -> int:
    subject = fact_subject(log, writer=service, kind="log", subject_id=service, name="term-started")
    stored = await jsapi.last_on_subject(client, log.stream, subject)
    found = None if stored is None else read_stored(log, stored)
    return found.payload.term if isinstance(found, Fact) and isinstance(found.payload, TermStarted) else 0


class NatsAppender:
    """Appends facts of `service` to one log (`ports.LogAppender`). Used by one task at a time."""

    def __init__(self, client: Client, log: LogName, service: str, counters: LogCounters) -> None:
        self._client = client
        self._log = log
        self._writer = Writer(log, service)
        self._counters = counters
        self._refused = client.refused if isinstance(client, WatchingClient) else RefusedSubjects()
        self._term = 0
        self._fence_seq: int | None = None  # of our newest fence record; None after an error: ask the broker
        self._committed_seq = 0

    async def start_term(self, *, term: int, holder: str) -> Appended:
        """Append `term-started`, guarded by the newest fence. Raises StaleFenceError also if a later term has begun.

        And FenceBrokenError if the newest fence is none.
        """
        service = self._writer.service
        newest = await newest_fence(self._client, self._log, service)
        if newest is not None and newest.fence.term > term:
            self._counters.stale += 1
            raise StaleFenceError(f"term {term}: term {newest.fence.term} has begun at {newest.seq}")
        fence_seq = 0 if newest is None else newest.seq
        self._term, self._fence_seq = term, fence_seq
        draft = Draft("log", service, "term-started", TermStarted(term=term, holder=holder))
        return await self._append_batch([self._writer.write(draft, self._id(fence_seq, 0))], fence_seq, ordinal=0)

    async def append(self, drafts: Sequence[Draft], *, folded_seq: int) -> Appended:
        """Store drafts as facts. No drafts: the fence record alone.

        Raises LogError: StaleFenceError (also after a lost reply, until the log was folded to that commit),
        LogFullError, LogUnavailableError, DraftsRefusedError. The batches before the refused one stand.
        """
        if folded_seq < self._committed_seq:
            raise StaleFenceError(f"own facts up to {self._committed_seq} are not folded yet, only up to {folded_seq}")
        await self._expect_own_fence(folded_seq)
        messages = write_each(drafts, lambda index, draft: self._written(draft, self._id(folded_seq, index)))
        batches = split(drafts, [len(message.body) for message in messages])
        appended = Appended(0, 0)
        for ordinal, batch in enumerate(batches):
            sending = messages[batch.start : batch.stop]
            self._refused.forget()
            try:
                appended = await self._append_batch(sending, folded_seq, ordinal=ordinal)
            except LogUnavailableError as error:
                refused = self._not_taken(sending, batch.start)
                if not refused:
                    raise
                raise DraftsRefusedError(refused) from error
        return appended

    async def report_refused(self, draft: Draft, detail: str) -> None:
        """Store a dead letter for a refused draft. A full DEAD is counted and logged."""
        await bury_refused(self._client, self._counters, self._writer, draft, detail)

    def _written(self, draft: Draft, fact_id: str) -> Outgoing:
        """Return the draft as a message that the broker has room for. Raises FactRefusedError."""
        message, most = self._writer.write(draft, fact_id), self._client.max_payload
        if len(message.body) + HEADERS_BYTES_MAX > most:
            raise FactRefusedError(
                f"{message.subject}: body of {len(message.body)} bytes; max_payload of the broker is {most}, of which "
                f"{HEADERS_BYTES_MAX} are for headers"
            )
        return message

    def _not_taken(self, messages: Sequence[Outgoing], start: int) -> list[Refused]:
        user = self._writer.service
        return [
            Refused(
                start + index,
                Refusal.PERMISSION,
                f"{messages[index].subject}: the broker does not let {user} publish there",
            )
            for index in self._refused.among(message.subject for message in messages)
        ]

    def _id(self, folded_seq: int, index: int) -> str:
        return ids.fact_id(
            scope=self._log.scope, service=self._writer.service, term=self._term, folded_seq=folded_seq, index=index
        )

    async def _expect_own_fence(self, folded_seq: int) -> None:
        """After an error: what was lost may have been stored, so look before writing on what was folded before it."""
        if self._fence_seq is not None:
            return
        newest = await newest_fence(self._client, self._log, self._writer.service)
        if newest is None or newest.fence.term != self._term or newest.seq > folded_seq:
            self._counters.stale += 1
            raise StaleFenceError(f"newest fence is {newest!r}; own term {self._term}, {folded_seq} folded")
        self._fence_seq = newest.seq

    async def _append_batch(self, messages: Sequence[Outgoing], folded_seq: int, *, ordinal: int) -> Appended:
        """Append one atomic batch. Fence records count from -1 downwards, so that they never share an index with a
        draft."""
        fence_seq, self._fence_seq = self._fence_seq, None
        assert fence_seq is not None
        record = Fence(term=self._term, folded_seq=folded_seq)
        batch = [self._writer.fence(record, self._id(folded_seq, -1 - ordinal)), *messages]
        try:
            ack = await self._commit(batch, fence_seq)
            appended = Appended(ack.seq - len(batch) + 1, ack.seq)
        except ApiError as error:
            appended = await self._resolve(error, batch)
        except LogUnavailableError:
            self._counters.unavailable += 1
            raise
        self._fence_seq, self._committed_seq = appended.first_seq, appended.last_seq
        self._counters.appended += len(batch)
        self._counters.batches += 1
        return appended

    async def _commit(self, batch: Sequence[Outgoing], fence_seq: int) -> jsapi.PubAck:
        """Send the batch; only its last message asks for an answer, so that a batch costs one round trip."""
        if not self._client.is_connected:  # else nats-py would keep the batch and send it whenever it can again
            raise LogUnavailableError(f"{self._log.stream}: not connected to the bus")
        last = len(batch)
        for index, message in enumerate(batch, 1):
            headers = {**message.headers, BATCH_ID: batch[0].id, BATCH_SEQUENCE: str(index)}
            if index == 1:
                headers[EXPECTED_LAST_ON_SUBJECT] = str(fence_seq)
            if index < last:
                await self._publish(message, headers)
                continue
            headers[BATCH_COMMIT] = "1"
            reply = await jsapi.ask(
                self._client,
                message.subject,
                message.body,
                headers=headers,
                timeout_s=COMMIT_TIMEOUT_S,
                stop=self._refused.watch(message.subject),
            )
        ack = jsapi.PubAck.model_validate_json(jsapi.check(reply.data))
        assert ack.count == last, f"{ack.count} of {last} messages of an atomic batch were stored"
        return ack

    async def _publish(self, message: Outgoing, headers: dict[str, str]) -> None:
        try:
            await self._client.publish(message.subject, message.body, headers=headers)
        except (nats.errors.Error, OSError) as error:
            raise LogUnavailableError(f"{self._log.stream}: {type(error).__name__} while sending a batch") from error

    async def _resolve(self, error: ApiError, batch: Sequence[Outgoing]) -> Appended:
        """Map a refusal to its outcome. A duplicate may be our own batch, stored although its answer was lost."""
        if error.err_code == jsapi.DUPLICATE_IN_BATCH:
            stored = await self._stored(batch)
            if stored is not None:
                self._counters.resolved += 1
                return stored
        if error.err_code in jsapi.WRONG_LAST_SEQUENCE or error.err_code == jsapi.DUPLICATE_IN_BATCH:
            self._counters.stale += 1
            raise StaleFenceError(f"{self._writer.fence_subject}: {error.description}") from error
        if error.err_code in jsapi.STORAGE_ERRORS:
            self._counters.full += 1
            raise LogFullError(f"{self._log.stream}: {error.description}") from error
        if error.err_code in jsapi.BATCH_LOST:
            self._counters.unavailable += 1
            raise LogUnavailableError(f"{self._log.stream}: {error.description}") from error
        raise error

    async def _stored(self, batch: Sequence[Outgoing]) -> Appended | None:
        """Return the position of the batch, if exactly its messages are stored from the newest fence on."""
        stream = self._log.stream
        fence = await jsapi.last_on_subject(self._client, stream, self._writer.fence_subject)
        if fence is None:
            return None
        found: StoredMessage | None = None
        for offset, message in enumerate(batch):
            found = await jsapi.message_at(self._client, stream, fence.seq + offset)
            if found is None or found.headers.get(HEADER_ID) != message.id or found.body != message.body:
                return None
        if found is None or BATCH_COMMIT not in found.headers:
            return None
        return Appended(fence.seq, fence.seq + len(batch) - 1)
