"""Objects of the store of checkpoints, and of copies of it, read from the stream's leader, chunk by chunk.

nats-py reads them by a consumer that delivers where the streams are, which no service can hear there; and it finds an
object's chunks by the subjects of a stream, and a copy has none.
"""

import base64
import json

from nats.aio.client import Client
from pydantic import BaseModel, ConfigDict

from muster.bus import jsapi
from muster.bus.checkpoint import CheckpointError, CheckpointUnavailableError
from muster.bus.errors import ApiError
from muster.bus.names import CHECKPOINTS_BUCKET
from muster.bus.ports import LogUnavailableError
from muster.bus.stored import StoredMessage

CHUNKS_MAX = 1 << 15
"""Of one object: at 128 KiB each as much as the store may hold."""
META = f"$O.{CHECKPOINTS_BUCKET}.M.{{}}"  # where an object's description stands, its name encoded (ADR-20)


class _Object(BaseModel):
    """How an object store describes an object (ADR-20), as far as it is needed here."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    nuid: str = ""
    size: int = 0
    chunks: int = 0
    deleted: bool = False


def meta_subject(name: str) -> str:
    """Where the description of an object stands."""
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
