"""Checkpoints in memory."""

from muster.bus.checkpoint import Pointer


class MemoryCheckpoints:
    """`CheckpointStore` in memory, with the same semantics as the one on NATS."""

    def __init__(self) -> None:
        self.parts: dict[tuple[str, int, str], bytes] = {}
        self._pointers: dict[str, tuple[Pointer, int]] = {}

    async def put_part(self, stream: str, seq: int, service: str, body: bytes) -> None:
        """See `CheckpointStore.put_part`."""
        self.parts[stream, seq, service] = body

    async def part(self, stream: str, seq: int, service: str) -> bytes | None:
        """See `CheckpointStore.part`."""
        return self.parts.get((stream, seq, service))

    async def has_part(self, stream: str, seq: int, service: str) -> bool:
        """See `CheckpointStore.has_part`."""
        return (stream, seq, service) in self.parts

    async def part_seqs(self, stream: str, service: str) -> tuple[int, ...]:
        """See `CheckpointStore.part_seqs`."""
        return tuple(seq for of, seq, writer in self.parts if (of, writer) == (stream, service))

    async def drop_part(self, stream: str, seq: int, service: str) -> None:
        """See `CheckpointStore.drop_part`."""
        self.parts.pop((stream, seq, service), None)

    async def pointer(self, stream: str) -> tuple[Pointer, int]:
        """See `CheckpointStore.pointer`."""
        return self._pointers.get(stream, (Pointer(), 0))

    async def move_pointer(self, stream: str, pointer: Pointer, *, revision: int) -> bool:
        """See `CheckpointStore.move_pointer`."""
        if self._pointers.get(stream, (Pointer(), 0))[1] != revision:
            return False
        self._pointers[stream] = (pointer, revision + 1)
        return True
