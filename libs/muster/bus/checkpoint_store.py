"""Checkpoints in NATS: parts as objects of the bucket `checkpoints`; the pointer as an object without chunks, whose
metadata message is written with an expected last sequence, since the object store itself has no compare-and-set.
"""

import base64
import json
from collections.abc import Awaitable
from typing import TypeVar

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.object_store import ObjectStore
from pydantic import BaseModel, ConfigDict

from muster.bus import jsapi
from muster.bus.checkpoint import CheckpointError, CheckpointUnavailableError, Pointer, read_pointer
from muster.bus.decode import StoredMessage
from muster.bus.names import CHECKPOINTS_BUCKET, copied_checkpoints, store_stream
from muster.bus.ports import ApiError, LogUnavailableError

CHUNKS_MAX = 1 << 15
"""Maximum chunks of one object: at 128 KiB each as much as the store may hold."""
META = f"$O.{CHECKPOINTS_BUCKET}.M.{{}}"  # where an object's description stands, its name encoded (ADR-20)
STORE_TIMEOUT_S = 5.0
_STREAM = store_stream(CHECKPOINTS_BUCKET)
_POINTER_FIELD = "muster-pointer"
T = TypeVar("T")


# Objects are read from the stream's leader, chunk by chunk. nats-py reads them by a consumer that delivers where the
# streams are, which no service can hear there; and it finds an object's chunks by the subjects of a stream, and a copy
# has none.


class _Object(BaseModel):
    """Description of an object in an object store (ADR-20), with only the fields that are used here."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    nuid: str = ""
    size: int = 0
    chunks: int = 0
    deleted: bool = False


def meta_subject(name: str) -> str:
    """Return the subject of an object's description."""
    return META.format(base64.urlsafe_b64encode(name.encode()).decode())


async def has_object(client: Client, stream: str, name: str) -> bool:
    """Return whether there is such an object. Raises CheckpointUnavailableError."""
    return await _described(client, stream, name) is not None


async def read_object(client: Client, stream: str, name: str) -> bytes | None:
    """Return an object; None if there is none.

    Raises CheckpointUnavailableError; CheckpointError if some of it is gone.
    """
    described = await _described(client, stream, name)
    if described is None:
        return None
    body, after = bytearray(), 0
    for _ in range(min(described.chunks, CHUNKS_MAX)):
        chunk = await _next_chunk(client, stream, described.nuid, after)
        if chunk is None:
            break
        body += chunk.body
        after = chunk.seq
    if len(body) != described.size:
        raise CheckpointError(f"{stream}: {len(body)} of {described.size} bytes of {name} are here")
    return bytes(body)


async def _described(client: Client, stream: str, name: str) -> _Object | None:
    try:
        found = await jsapi.last_on_subject(client, stream, meta_subject(name))
    except (LogUnavailableError, ApiError) as error:
        raise CheckpointUnavailableError(str(error)) from error
    described = _Object.model_validate(json.loads(found.body)) if found is not None else None
    return described if described is not None and not described.deleted else None


async def _next_chunk(client: Client, stream: str, nuid: str, after_seq: int) -> StoredMessage | None:
    subject = f"$O.{CHECKPOINTS_BUCKET}.C.{nuid}"
    try:
        return await jsapi.next_on_subject(client, stream, subject, after_seq=after_seq)
    except (LogUnavailableError, ApiError) as error:
        raise CheckpointUnavailableError(str(error)) from error


class NatsCheckpoints:
    """`CheckpointStore` on a connection whose user may read, and for parts write, the bucket."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._objects: ObjectStore | None = None

    async def put_part(self, stream: str, seq: int, service: str, body: bytes) -> None:
        """Store a part of a checkpoint."""
        objects = await self._bucket()
        await _answered(objects.put(part_name(stream, seq, service), body))

    async def part(self, stream: str, seq: int, service: str) -> bytes | None:
        """Return a part of a checkpoint."""
        return await read_object(self._client, _STREAM, part_name(stream, seq, service))

    async def has_part(self, stream: str, seq: int, service: str) -> bool:
        """Return whether a part is stored."""
        return await has_object(self._client, _STREAM, part_name(stream, seq, service))

    async def part_seqs(self, stream: str, service: str) -> tuple[int, ...]:
        """Return the sequences of the stored parts, from the stream's leader."""
        try:
            info = await jsapi.stream_info(self._client, _STREAM, subjects=META.format("*"))
        except (LogUnavailableError, ApiError) as error:
            raise CheckpointUnavailableError(str(error)) from error
        parts = (_object_name(subject).split("/") for subject in (info.state.subjects if info else ()))
        return tuple(int(part[1]) for part in parts if (part[0], part[-1]) == (stream, service))

    async def drop_part(self, stream: str, seq: int, service: str) -> None:
        """Delete a part of a checkpoint, with the deletion marker that the object store would keep."""
        name = part_name(stream, seq, service)
        if not await self.has_part(stream, seq, service):
            return
        await _answered((await self._bucket()).delete(name))
        try:
            await jsapi.call(self._client, f"STREAM.PURGE.{_STREAM}", {"filter": meta_subject(name)})
        except (LogUnavailableError, ApiError) as error:
            raise CheckpointUnavailableError(str(error)) from error

    async def pointer(self, stream: str) -> tuple[Pointer, int]:
        """Return the pointer to the checkpoints, from the stream's leader. Raises also CheckpointError."""
        try:
            found = await jsapi.last_on_subject(self._client, _STREAM, pointer_subject(stream))
        except (LogUnavailableError, ApiError) as error:
            raise CheckpointUnavailableError(str(error)) from error
        if found is None:
            return Pointer(), 0
        return pointer_in(found.body, stream=stream), found.seq

    async def move_pointer(self, stream: str, pointer: Pointer, *, revision: int) -> bool:
        """Replace the pointer to the checkpoints."""
        info = {
            "name": _pointer_name(stream),
            "bucket": CHECKPOINTS_BUCKET,
            "nuid": "",
            "size": 0,
            "chunks": 0,
            "metadata": {_POINTER_FIELD: pointer.model_dump_json()},
        }
        headers = {"Nats-Expected-Last-Subject-Sequence": str(revision), "Nats-Rollup": "sub"}
        try:
            answer = await jsapi.ask(
                self._client,
                pointer_subject(stream),
                json.dumps(info).encode(),
                headers=headers,
                timeout_s=STORE_TIMEOUT_S,
            )
            jsapi.check(answer.data)
        except ApiError as error:
            if error.err_code in jsapi.WRONG_LAST_SEQUENCE:
                return False
            raise CheckpointUnavailableError(str(error)) from error
        except LogUnavailableError as error:
            raise CheckpointUnavailableError(str(error)) from error
        return True

    async def _bucket(self) -> ObjectStore:
        if self._objects is None:
            context = self._client.jetstream(timeout=STORE_TIMEOUT_S)
            self._objects = await _answered(context.object_store(CHECKPOINTS_BUCKET))
        return self._objects


def pointer_in(body: bytes, *, stream: str) -> Pointer:
    """Return the pointer in its object's description. Raises CheckpointError if it is damaged or of another version."""
    text = json.loads(body).get("metadata", {}).get(_POINTER_FIELD, "")
    return read_pointer(text.encode(), stream=stream)


def part_name(stream: str, seq: int, service: str) -> str:
    """Return the object name of a part."""
    return f"{stream}/{seq}/{service}"


def _pointer_name(stream: str) -> str:
    return f"{stream}/pointer"


def pointer_subject(stream: str) -> str:
    """Return the subject of a log's pointer."""
    return meta_subject(_pointer_name(stream))


def _object_name(meta_subject: str) -> str:
    return base64.urlsafe_b64decode(meta_subject.rpartition(".")[2]).decode()


async def _answered(request: Awaitable[T]) -> T:
    """Raise CheckpointUnavailableError for every failure of the broker or the connection, except not-found errors."""
    try:
        return await request
    except nats.js.errors.NotFoundError:
        raise
    except (nats.errors.Error, nats.js.errors.Error, OSError, TimeoutError) as error:
        raise CheckpointUnavailableError(f"{type(error).__name__}: {error}") from error


class CopiedCheckpoints:
    """Read-only `CheckpointStore` of a copied log: a center's copy of the cell's object store.

    The log's copy has its original's sequences, so a checkpoint of the original is one of the copy.
    """

    def __init__(self, client: Client, cluster: str) -> None:
        self._client = client
        self._stream = copied_checkpoints(cluster)

    async def pointer(self, stream: str) -> tuple[Pointer, int]:
        """Return the pointer to the checkpoints. Raises also CheckpointError. Checkpoints beyond the facts of the
        copy are left out until it has caught up."""
        try:
            found = await jsapi.last_on_subject(self._client, self._stream, pointer_subject(stream))
            log = await jsapi.stream_info(self._client, stream)
        except (LogUnavailableError, ApiError) as error:
            raise CheckpointUnavailableError(str(error)) from error
        if found is None or log is None:
            return Pointer(), 0
        known = pointer_in(found.body, stream=stream).checkpoints
        return Pointer(checkpoints=tuple(one for one in known if one.seq <= log.state.last_seq)), found.seq

    async def part(self, stream: str, seq: int, service: str) -> bytes | None:
        """Return a part of a checkpoint. Raises also CheckpointError if it is incomplete."""
        return await read_object(self._client, self._stream, part_name(stream, seq, service))

    async def has_part(self, stream: str, seq: int, service: str) -> bool:
        """Return whether a part is stored."""
        return await has_object(self._client, self._stream, part_name(stream, seq, service))

    async def part_seqs(self, stream: str, service: str) -> tuple[int, ...]:
        """Return no sequences: no part was stored from here."""
        raise _refusal(f"{service} on {stream}")

    async def put_part(self, stream: str, seq: int, service: str, body: bytes) -> None:  # noqa: ARG002 - the port's
        """Raises CheckpointUnavailableError."""
        raise _refusal(f"{stream}/{seq}/{service}")

    async def drop_part(self, stream: str, seq: int, service: str) -> None:
        """Raises CheckpointUnavailableError."""
        raise _refusal(f"{stream}/{seq}/{service}")

    async def move_pointer(self, stream: str, pointer: Pointer, *, revision: int) -> bool:  # noqa: ARG002 - the port's
        """Raises CheckpointUnavailableError."""
        raise _refusal(stream)


def _refusal(what: str) -> CheckpointUnavailableError:
    return CheckpointUnavailableError(f"{what}: a copy's checkpoints are made where the log is written")
