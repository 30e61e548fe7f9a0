"""A cluster's checkpoints as a centre has them: a copy of the cell's object store, which is only read here.

The log's copy has its original's sequences, so a checkpoint of the original is one of the copy. nats-py finds an
object's chunks by the subjects of a stream, and a copy has none; so chunks are read one by one, from the leader.
"""

import json

from nats.aio.client import Client
from pydantic import BaseModel, ConfigDict

from muster.bus import jsapi
from muster.bus.checkpoint import CheckpointError, CheckpointUnavailableError, Pointer
from muster.bus.checkpoint_store import meta_subject, part_name, pointer_in, pointer_subject
from muster.bus.errors import ApiError
from muster.bus.names import CHECKPOINTS_BUCKET, copied_checkpoints
from muster.bus.ports import LogUnavailableError

CHUNKS_MAX = 1 << 15
"""Of one part: at 128 KiB each as much as the cell's store may hold."""


class _Object(BaseModel):
    """How an object store describes an object (ADR-20), as far as it is needed here."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    nuid: str = ""
    size: int = 0
    chunks: int = 0
    deleted: bool = False


class CopiedCheckpoints:
    """`CheckpointStore` of a copied log. It stores nothing: checkpoints are made where the log is written."""

    def __init__(self, client: Client, cluster: str) -> None:
        self._client = client
        self._stream = copied_checkpoints(cluster)

    async def pointer(self, stream: str) -> tuple[Pointer, int]:
        """See `CheckpointStore.pointer`. Those of facts that the copy does not have yet are left out: they are usable
        when it has caught up. Raises also CheckpointError.
        """
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
        """See `CheckpointStore.part`. Raises also CheckpointError, if some of it is gone."""
        described = await self._described(part_name(stream, seq, service))
        if described is None:
            return None
        body, after = bytearray(), 0
        for _ in range(min(described.chunks, CHUNKS_MAX)):
            chunk = await self._next_chunk(described.nuid, after)
            if chunk is None:
                break
            body += chunk.body
            after = chunk.seq
        if len(body) != described.size:
            raise CheckpointError(f"{stream}/{seq}/{service}: {len(body)} of {described.size} bytes are here")
        return bytes(body)

    async def has_part(self, stream: str, seq: int, service: str) -> bool:
        """See `CheckpointStore.has_part`."""
        return await self._described(part_name(stream, seq, service)) is not None

    async def part_seqs(self, stream: str, service: str) -> tuple[int, ...]:
        """See `CheckpointStore.part_seqs`: none of them was stored from here."""
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

    async def _described(self, name: str) -> _Object | None:
        try:
            found = await jsapi.last_on_subject(self._client, self._stream, meta_subject(name))
        except (LogUnavailableError, ApiError) as error:
            raise CheckpointUnavailableError(str(error)) from error
        described = _Object.model_validate(json.loads(found.body)) if found is not None else None
        return described if described is not None and not described.deleted else None

    async def _next_chunk(self, nuid: str, after_seq: int) -> jsapi.StoredMessage | None:
        subject = f"$O.{CHECKPOINTS_BUCKET}.C.{nuid}"
        try:
            return await jsapi.next_on_subject(self._client, self._stream, subject, after_seq=after_seq)
        except (LogUnavailableError, ApiError) as error:
            raise CheckpointUnavailableError(str(error)) from error


def _refusal(what: str) -> CheckpointUnavailableError:
    return CheckpointUnavailableError(f"{what}: a copy's checkpoints are made where the log is written")
