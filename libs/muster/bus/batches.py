"""Conversion of drafts to messages: the batches of a draft, and their encoding. Pure; every log uses it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from muster.bus.ports import DraftsRefusedError, FactRefusedError, Refusal, Refused, TogetherTooLargeError
from muster.core.fact import Draft
from muster.schemas import envelope, ids
from muster.schemas.base import FACT_BYTES_MAX
from muster.schemas.facts.control import Fence
from muster.schemas.record import FactBody
from muster.schemas.registry import FactType, fact_type
from muster.schemas.subjects import FENCE, LogName, fact_subject, fence_subject, token

BATCH_MESSAGES_MAX = 900
"""Fence record included; the broker's own limit is 1,000 (10199)."""
BATCH_BYTES_MAX = 16 * 1024 * 1024
"""Bodies of one batch: the broker and the connection hold it in memory until the commit."""
HEADERS_BYTES_MAX = 32 * 1024
"""Headers of one message: half of what a stream takes (10097)."""
SUBJECT_BYTES_MAX = 3500
"""The broker closes a connection whose command, with the reply subject, is longer than 4,096 bytes."""
SPAN_DIGITS = slice(36, 52)
TRACE_FLAGS = slice(52, None)
TRACEPARENT_LENGTH = 55

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message to be stored."""

    subject: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """Return the fact's id."""
        return self.headers[envelope.HEADER_ID]


def split(drafts: Sequence[Draft], sizes: Sequence[int] | None = None) -> list[range]:
    """Indexes of the drafts of each batch: in order, as full as may be, drafts of one `together` in one batch.

    sizes: bodies in bytes, if those should count. A batch's fence record is counted. No drafts: one empty batch.
    Raises TogetherTooLargeError.
    """
    room = BATCH_MESSAGES_MAX - 1
    batches: list[range] = []
    start, end, weight = 0, 0, 0
    for block in _blocks(drafts):
        block_weight = sum(sizes[block.start : block.stop]) if sizes is not None else 0
        if len(block) > room or (block_weight > BATCH_BYTES_MAX and len(block) > 1):
            raise TogetherTooLargeError(
                f"{len(block)} drafts of {block_weight} bytes must stand together (key "
                f"{drafts[block.start].together!r}); one batch holds {room} drafts and {BATCH_BYTES_MAX} bytes",
                [index for index in block if drafts[index].together],
            )
        if block.stop - start > room or weight + block_weight > BATCH_BYTES_MAX:
            if end > start:
                batches.append(range(start, end))
            start, weight = block.start, 0
        end, weight = block.stop, weight + block_weight
    return [*batches, range(start, end)]


def first_blocks(drafts: Sequence[Draft], most: int) -> Sequence[Draft]:
    """Return the first drafts, about `most`: at least one, and nothing that must stand together is split."""
    end = 0
    for block in _blocks(drafts):
        if end and block.stop > most:
            break
        end = block.stop
    return drafts[:end]


def write_each(drafts: Sequence[Draft], write: Callable[[int, Draft], T]) -> list[T]:
    """Write every draft. Raises DraftsRefusedError for all that `write` raises FactRefusedError for."""
    written: list[T] = []
    refused: list[Refused] = []
    for index, draft in enumerate(drafts):
        try:
            written.append(write(index, draft))
        except FactRefusedError as error:
            refused.append(Refused(index, Refusal.INVALID, str(error)))
    if refused:
        raise DraftsRefusedError(refused)
    return written


def _blocks(drafts: Sequence[Draft]) -> list[range]:
    """Runs of drafts that nothing may be cut out of: from the first to the last of a key, overlaps joined."""
    last_of = {draft.together: index for index, draft in enumerate(drafts) if draft.together}
    blocks: list[range] = []
    start = end = 0
    for index, draft in enumerate(drafts):
        if index >= end:
            if index > start:
                blocks.append(range(start, end))
            start, end = index, index + 1
        if draft.together:
            end = max(end, last_of[draft.together] + 1)
    if drafts:
        blocks.append(range(start, end))
    return blocks


def own_span(trace: str, fact_id: str) -> str:
    """Return the job's traceparent with this fact's own span; "" if it is not a valid traceparent."""
    if len(trace) != TRACEPARENT_LENGTH:
        return ""
    return f"{trace[: SPAN_DIGITS.start]}{ids.span_id(fact_id)}{trace[TRACE_FLAGS]}"


class Writer:
    """Writes the facts of one service in one log."""

    def __init__(self, log: LogName, service: str) -> None:
        self.log = log
        self.service = service
        self.fence_subject = fence_subject(log, service)
        self._rows: dict[tuple[str, str], FactType] = {}

    def row(self, draft: Draft) -> FactType:
        """Return the draft's row in the table of facts. Raises FactRefusedError if this service has none for it."""
        row = self._rows.get((draft.kind, draft.name))
        if row is None:
            row = fact_type(self.log.role, self.service, draft.kind, draft.name)
            if row is None:
                raise FactRefusedError(
                    f"{self.service} is not the writer of {draft.kind} {draft.name} in {self.log.stream}; "
                    "the table of facts says who is"
                )
            self._rows[draft.kind, draft.name] = row
        if draft.cluster and token(draft.cluster) != draft.cluster:
            raise FactRefusedError(
                f"{draft.kind} {draft.name}: cluster {draft.cluster!r} is not one subject token; a cluster's name has "
                "lower-case letters, digits and hyphens"
            )
        if not isinstance(draft.payload, row.payload):
            raise FactRefusedError(
                f"{draft.kind} {draft.name}: body is {type(draft.payload).__name__}, not {row.payload.__name__}"
            )
        return row

    def write(self, draft: Draft, fact_id: str) -> Outgoing:
        """Return the draft as a message. Raises FactRefusedError."""
        row = self.row(draft)
        subject = self.subject(draft)
        headers = envelope.headers(
            row,
            id=fact_id,
            scope=self.log.scope,
            writer=self.service,
            causes=draft.causes,
            trace=own_span(draft.trace, fact_id),
        )
        if len(subject) > SUBJECT_BYTES_MAX:
            raise FactRefusedError(
                f"{draft.kind} {draft.name}: subject of {len(subject)} bytes, at most {SUBJECT_BYTES_MAX} are allowed"
            )
        size = len(headers.get(envelope.HEADER_CAUSES, "").encode())
        if size > HEADERS_BYTES_MAX:
            raise FactRefusedError(f"{subject}: causes of {size} bytes, at most {HEADERS_BYTES_MAX} are allowed")
        return Outgoing(subject, headers, _body(subject, draft.payload))

    def subject(self, draft: Draft) -> str:
        """Return the subject that the draft would be stored under."""
        return fact_subject(
            self.log,
            writer=self.service,
            kind=draft.kind,
            subject_id=draft.subject_id,
            name=draft.name,
            cluster=draft.cluster,
        )

    def fence(self, record: Fence, fact_id: str) -> Outgoing:
        """Return the fence record that begins a batch."""
        row = fact_type(self.log.role, self.service, "log", FENCE)
        assert row is not None, "every service may write fences"
        headers = envelope.headers(row, id=fact_id, scope=self.log.scope, writer=self.service, causes=(), trace="")
        return Outgoing(self.fence_subject, headers, _body(self.fence_subject, record))


def _body(subject: str, payload: FactBody) -> bytes:
    body = payload.model_dump_json().encode()
    if len(body) > FACT_BYTES_MAX:
        raise FactRefusedError(f"{subject}: body of {len(body)} bytes, at most {FACT_BYTES_MAX} are allowed")
    return body
