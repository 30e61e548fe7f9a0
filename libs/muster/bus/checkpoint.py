"""Checkpoints: the union of every service's state facts after folding exactly one sequence of a log (DESIGN 5.3).

A part is gzip-compressed JSON lines: a header {version, stream, seq, time_ns, service}, then one state fact a line. It
is stored in the object store `checkpoints` as `<stream>/<seq>/<service>`. A checkpoint is valid once the pointer of its
stream names it; the first service that finds all parts moves the pointer, by compare-and-set. Any core can fold a
checkpoint, also one that never ran: its parts are ordinary `state-recorded` facts.
"""

import gzip
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import ValidationError

from muster.bus.limits import CHECKPOINTS_KEPT, POINTER_ATTEMPTS
from muster.core.fact import Draft, Fact
from muster.core.instant import Instant
from muster.schemas import ids
from muster.schemas.base import InstantNs, Wire
from muster.schemas.facts.control import Voided
from muster.schemas.registry import STATE_NAME, STATE_TABLE, StreamRole, fact_type
from muster.schemas.subjects import LogName

VERSION = 1
_COMPRESSION = 3  # most of the size for a fraction of the time
_FOLD_ORDER = {kind: rank for rank, kind in enumerate(("cluster", "queue", "node", "device", "job"))}
"""Referenced objects come first, so that a core finds a job's queue and nodes when it folds the job."""

_logger = logging.getLogger(__name__)


class CheckpointError(Exception):
    """A part cannot be used: of another version, damaged, or not of the checkpoint that it should be of."""


class CheckpointUnavailableError(Exception):
    """The object store did not answer; try again."""


class Recorded(Wire):
    """One complete checkpoint. time_ns: the broker's, of the message at `seq`."""

    seq: int
    time_ns: InstantNs
    services: tuple[str, ...]


class Pointer(Wire):
    """The usable checkpoints of one log, newest first."""

    version: int = VERSION
    checkpoints: tuple[Recorded, ...] = ()


@dataclass(frozen=True, slots=True)
class Voidance:
    """An operator's permission for `service` to skip the message at `seq`, recorded in the message at `said_at`."""

    seq: int
    service: str
    said_at: int

    @classmethod
    def said_by(cls, fact: Fact) -> "Voidance | None":
        """Return what a folded fact voids; None if it has another name."""
        if not isinstance(fact.payload, Voided):
            return None
        return cls(seq=fact.payload.seq, service=fact.payload.service, said_at=fact.seq)


class CheckpointStore(Protocol):
    """Storage of parts and pointers. Every call raises CheckpointUnavailableError if there was no answer."""

    async def put_part(self, stream: str, seq: int, service: str, body: bytes) -> None:
        """Store one part; the same part again replaces it."""
        ...

    async def part(self, stream: str, seq: int, service: str) -> bytes | None:
        """Return one part, None if it is not stored."""
        ...

    async def has_part(self, stream: str, seq: int, service: str) -> bool:
        """Return whether a part is stored."""
        ...

    async def part_seqs(self, stream: str, service: str) -> tuple[int, ...]:
        """Return the sequences of all stored parts of `service`, including those of earlier processes."""
        ...

    async def drop_part(self, stream: str, seq: int, service: str) -> None:
        """Delete one part, if it is there."""
        ...

    async def pointer(self, stream: str) -> tuple[Pointer, int]:
        """Return the pointer and its revision; an empty pointer with revision 0 if there is none."""
        ...

    async def move_pointer(self, stream: str, pointer: Pointer, *, revision: int) -> bool:
        """Store the pointer if its revision is still `revision`; return whether it was."""
        ...


def contributors(role: StreamRole) -> tuple[str, ...]:
    """Return the services whose parts make a checkpoint of such a log: those that write state facts to it."""
    return tuple(sorted({row.writer for row in STATE_TABLE if row.stream is role}))


class _Header(Wire):
    version: int
    stream: str
    seq: int
    time_ns: int
    service: str


def encode_part(log: LogName, service: str, *, seq: int, time: Instant, drafts: Iterable[Draft]) -> bytes:
    """Return the compressed part of `service`. The time grows with the state: do not call it on the event loop."""
    header = _Header(version=VERSION, stream=log.stream, seq=seq, time_ns=time, service=service)
    lines = [header.model_dump_json(), *map(_line, drafts)]
    return gzip.compress("\n".join(lines).encode(), compresslevel=_COMPRESSION, mtime=0)


def _line(draft: Draft) -> str:
    fields = {"kind": draft.kind, "id": draft.subject_id, "cluster": draft.cluster, "trace": draft.trace}
    if draft.causes:
        fields["causes"] = ",".join(draft.causes)
    return f'{json.dumps(fields)[:-1]}, "payload": {draft.payload.model_dump_json()}}}'


def decode_part(log: LogName, service: str, *, seq: int, time: Instant, body: bytes) -> list[Fact]:
    """Return the facts of a part, all at the checkpoint's sequence and time. Raises CheckpointError."""
    try:
        first, *lines = gzip.decompress(body).decode().split("\n")
        header = _Header.model_validate_json(first)
    except (OSError, EOFError, ValueError) as error:
        raise CheckpointError(f"{log.stream}/{seq}/{service}: not a part of a checkpoint: {error}") from error
    if header.version != VERSION:
        raise CheckpointError(f"{log.stream}/{seq}/{service}: version {header.version}, this reader knows {VERSION}")
    if (header.stream, header.seq, header.service) != (log.stream, seq, service):
        raise CheckpointError(
            f"{log.stream}/{seq}/{service}: says that it is {header.stream}/{header.seq}/{header.service}"
        )
    try:
        return [_fact(log, service, seq, time, line) for line in lines]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{log.stream}/{seq}/{service}: a state fact cannot be read: {error}") from error


def _fact(log: LogName, service: str, seq: int, time: Instant, line: str) -> Fact:
    fields = json.loads(line)
    kind, subject_id = fields["kind"], fields["id"]
    row = fact_type(log.role, service, kind, STATE_NAME)
    if row is None:
        raise ValueError(f"{service} writes no state of kind {kind!r}")
    causes = fields.get("causes")
    return Fact(
        id=ids.request_fact_id("state", log.stream, str(seq), service, kind, subject_id),
        seq=seq,
        time=time,
        cluster=log.cluster or fields["cluster"],
        writer=service,
        kind=kind,
        subject_id=subject_id,
        name=STATE_NAME,
        causes=tuple(causes.split(",")) if causes else (),
        trace=fields["trace"],
        payload=row.payload.model_validate(fields["payload"]),
    )


class Checkpoints:
    """The checkpoints of one log."""

    def __init__(self, store: CheckpointStore, log: LogName) -> None:
        self._store = store
        self._log = log
        self._contributors = contributors(log.role)

    def has_part_of(self, service: str) -> bool:
        """Return whether `service` writes state facts to this log."""
        return service in self._contributors

    async def upload(self, service: str, *, seq: int, time: Instant, body: bytes) -> None:
        """Store one part; if it was the last missing part, move the pointer and delete what is too old.

        Raises CheckpointUnavailableError: a later upload still completes the checkpoint.
        """
        stream = self._log.stream
        await self._store.put_part(stream, seq, service, body)
        await self._drop_stranded(service)
        for other in self._contributors:
            if other != service and not await self._store.has_part(stream, seq, other):
                return
        await self._complete(Recorded(seq=seq, time_ns=time, services=self._contributors))

    async def newest(self) -> Recorded | None:
        """Return the newest complete checkpoint: a log may be trimmed up to it. Raises CheckpointUnavailableError."""
        pointer, _ = await self._store.pointer(self._log.stream)
        return pointer.checkpoints[0] if pointer.checkpoints else None

    async def recover(self, service: str, voided: Sequence[Voidance]) -> tuple[Recorded | None, list[Fact]]:
        """Return the newest checkpoint that `service` may use, and its facts in the order in which to fold them.

        A checkpoint between a voided message and its voiding includes the message that the service must skip, so it is
        not used. None: fold the log from its start. Raises CheckpointUnavailableError.
        """
        pointer, _ = await self._store.pointer(self._log.stream)
        for recorded in pointer.checkpoints:
            if any(v.service == service and v.seq <= recorded.seq < v.said_at for v in voided):
                continue
            try:
                return recorded, await self._facts(recorded)
            except CheckpointError as error:
                _logger.warning("checkpoint %s/%d not used: %s", self._log.stream, recorded.seq, error)
        return None, []

    async def _facts(self, recorded: Recorded) -> list[Fact]:
        facts: list[Fact] = []
        for service in recorded.services:
            body = await self._store.part(self._log.stream, recorded.seq, service)
            if body is None:
                raise CheckpointError(f"{self._log.stream}/{recorded.seq}/{service} is gone")
            time = Instant(recorded.time_ns)
            facts += decode_part(self._log, service, seq=recorded.seq, time=time, body=body)
        return sorted(facts, key=lambda fact: _FOLD_ORDER.get(fact.kind, len(_FOLD_ORDER)))

    async def _drop_stranded(self, service: str) -> None:
        """Delete own parts of checkpoints that a newer one overtook before all their parts were stored.

        The parts are listed from the store, since the process that uploaded them may have been killed.
        """
        stream = self._log.stream
        pointer, _ = await self._store.pointer(stream)
        known = {recorded.seq for recorded in pointer.checkpoints}
        newest = max(known, default=0)
        for seq in await self._store.part_seqs(stream, service):
            if seq < newest and seq not in known:
                await self._store.drop_part(stream, seq, service)

    async def _complete(self, recorded: Recorded) -> None:
        stream = self._log.stream
        for _ in range(POINTER_ATTEMPTS):
            pointer, revision = await self._store.pointer(stream)
            if any(known.seq == recorded.seq for known in pointer.checkpoints):
                return
            newest_first = sorted((*pointer.checkpoints, recorded), key=lambda known: -known.seq)
            kept = Pointer(checkpoints=tuple(newest_first[:CHECKPOINTS_KEPT]))
            if await self._store.move_pointer(stream, kept, revision=revision):
                for old in newest_first[CHECKPOINTS_KEPT:]:
                    for service in old.services:
                        await self._store.drop_part(stream, old.seq, service)
                return
        raise CheckpointUnavailableError(
            f"pointer of {stream}: {POINTER_ATTEMPTS} others were faster; is it written in a loop?"
        )


def read_pointer(body: bytes, *, stream: str) -> Pointer:
    """Return a stored pointer. Raises CheckpointError if it is damaged or of another version."""
    try:
        pointer = Pointer.model_validate_json(body)
    except ValidationError as error:
        raise CheckpointError(f"pointer of {stream} cannot be read: {error}") from error
    if pointer.version != VERSION:
        raise CheckpointError(f"pointer of {stream} has version {pointer.version}, this reader knows {VERSION}")
    return pointer
