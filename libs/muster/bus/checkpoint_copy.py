"""A cluster's checkpoints as a centre has them: a copy of the cell's object store, which is only read here.

The log's copy has its original's sequences, so a checkpoint of the original is one of the copy.
"""

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.checkpoint import CheckpointUnavailableError, Pointer
from muster.bus.checkpoint_store import part_name, pointer_in, pointer_subject
from muster.bus.errors import ApiError
from muster.bus.names import copied_checkpoints
from muster.bus.object_reads import has_object, read_object
from muster.bus.ports import LogUnavailableError


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
        return await read_object(self._client, self._stream, part_name(stream, seq, service))

    async def has_part(self, stream: str, seq: int, service: str) -> bool:
        """See `CheckpointStore.has_part`."""
        return await has_object(self._client, self._stream, part_name(stream, seq, service))

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


def _refusal(what: str) -> CheckpointUnavailableError:
    return CheckpointUnavailableError(f"{what}: a copy's checkpoints are made where the log is written")
