"""The log as the shell sees it. One contract suite runs against every implementation (nats-server, memory)."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from muster.core.fact import Draft, Fact
from muster.core.instant import Instant
from muster.schemas.subjects import LogName


class LogError(Exception):
    """The log did not carry out a request; subclasses describe the consequences."""


class StaleFenceError(LogError):
    """Refused as a whole (NATS 10071): another leader appended for this service. Fold to the head, decide again."""


class LogFullError(LogError):
    """Refused: the stream reached its size limit (`discard: new`). Nothing was stored; make room or wait."""


class LogUnavailableError(LogError):
    """No answer in time: the outcome of the batch is unknown until the log was folded to its head."""


class Refusal(StrEnum):
    """Why one draft is refused. INVALID: its service may not write such a fact, or it is too large. TOGETHER: what must
    stand with it does not fit in one batch. PERMISSION: the broker does not take its subject from this user. BROKER: it
    is refused again and again while an append without it is stored.
    """

    INVALID = "invalid"
    TOGETHER = "together-too-large"
    PERMISSION = "permission"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Refused:
    """One draft that is refused in every batch. index: among the given drafts."""

    index: int
    reason: Refusal
    detail: str


class DraftsRefusedError(LogError):
    """Single drafts are refused; of their batch nothing was stored. The others can be appended without them."""

    def __init__(self, refused: Sequence[Refused]) -> None:
        super().__init__("; ".join(one.detail for one in refused[:3]))
        self.refused = tuple(refused)


@dataclass(frozen=True, slots=True)
class Batch:
    """Result of one read. facts: in order, without skipped messages (unknown, dead, voided).

    last_seq, time: of the newest message seen, including skipped ones; last_seq stays and time is None if there was
    none. pending: messages in the log after last_seq, as far as the broker reported.
    """

    facts: tuple[Fact, ...]
    last_seq: int
    time: Instant | None
    pending: int


@dataclass(frozen=True, slots=True)
class Appended:
    """Position of a batch: sequences of its first message (the fence record) and of its last."""

    first_seq: int
    last_seq: int


class LogReader(Protocol):
    """Every fact of one log after a sequence, in order, each once, whatever the broker or the network lose."""

    async def read(self, *, limit: int, timeout_s: float) -> Batch:
        """Up to `limit` messages; waits up to `timeout_s` for the first. Control facts (fence, ...) are included."""
        ...

    async def head(self) -> int:
        """Sequence of the newest message stored, asked from the stream's leader; 0 if there is none."""
        ...

    async def close(self) -> None:
        """Stop reading and free what the broker keeps for this reader."""
        ...


class LogAppender(Protocol):
    """Appender of one service to one log. Every batch begins with a fence record that the broker compares."""

    async def start_term(self, *, term: int, holder: str) -> Appended:
        """First append of a new leader: `term-started`, guarded by the newest fence. Raises LogError."""
        ...

    async def append(self, drafts: Sequence[Draft], *, folded_seq: int) -> Appended:
        """Store drafts as facts: all or nothing per batch, `together` never split. Raises LogError.

        folded_seq: what the decision was based on. Split at BATCH_MESSAGES_MAX; returns the last batch. Raises
        DraftsRefusedError where it is known which drafts the refusal is about.
        """
        ...

    async def report_refused(self, draft: Draft, detail: str) -> None:
        """Store a dead letter for a draft that is refused, once however often it is reported.

        Raises LogUnavailableError.
        """
        ...


class Log(Protocol):
    """Factory of the readers and appenders of one log."""

    name: LogName

    async def reader(self, *, after_seq: int) -> LogReader:
        """Return a reader of everything after `after_seq` (0: from the start)."""
        ...

    def appender(self, service: str) -> LogAppender:
        """Return the appender of `service`."""
        ...


@dataclass(slots=True)
class LogCounters:
    """Whole numbers since the process started.

    decoded: messages that became facts. skipped: unknown names. dead: messages that no reader can use;
    dead_unwritten: of these, without an entry because the stream of dead letters is full. gaps: holes found in what
    the broker delivered. recreated: consumers made anew, for whatever reason. appended: facts stored, fence records
    included; batches: in so many commits. stale, full, unavailable: refusals by kind. resolved: commits whose reply was
    lost and that were found stored.
    """

    decoded: int = 0
    skipped: int = 0
    dead: int = 0
    dead_unwritten: int = 0
    gaps: int = 0
    recreated: int = 0
    appended: int = 0
    batches: int = 0
    stale: int = 0
    full: int = 0
    unavailable: int = 0
    resolved: int = 0


class FactRefusedError(LogError):
    """A draft that its service may not write, or that is too large. A defect of the core that made it."""


class TogetherTooLargeError(DraftsRefusedError):
    """Drafts that must stand together do not fit in one batch. A defect of the core: ask for smaller steps."""

    def __init__(self, detail: str, indexes: Sequence[int]) -> None:
        super().__init__([Refused(index, Refusal.TOGETHER, detail) for index in indexes[:1]])


class FenceBrokenError(StaleFenceError):
    """The newest message on a service's fence subject is not a fence of that service, so the service cannot append.

    seq: of that message.
    """

    def __init__(self, stream: str, subject: str, service: str, *, seq: int, why: str) -> None:
        super().__init__(
            f"{stream}: message {seq} on {subject} is no fence of {service} ({why}), so no process can lead it; "
            f"repair it: muster log repair-fence --service {service}"
        )
        self.seq = seq


class FactsMissingError(LogError):
    """The log no longer has facts that a reader must fold (trimmed), or facts that it folded (store lost)."""


class StreamConflictError(LogError):
    """An existing stream cannot be changed safely; the message names the stream and the field."""


class ArchiveError(LogError):
    """An archive cannot be written or read, or its target stream is not empty."""


class TrimRefusedError(LogError):
    """A trim would remove facts that are still needed: too young, or the fence of a live leader."""


class ApiError(LogError):
    """JetStream refused a request. `err_code` is its own number of the error (the HTTP-like `code` is coarser)."""

    def __init__(self, err_code: int, description: str) -> None:
        super().__init__(f"JetStream error {err_code}: {description}")
        self.err_code = err_code
        self.description = description
