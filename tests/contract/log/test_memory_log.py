"""The log in memory keeps the promises of a log."""

import pytest

from contract.log.suite import CLUSTER, LogContract
from kit.memory_log import MemoryLog
from muster.bus.ports import LogCounters
from muster.core.instant import Instant
from muster.schemas.subjects import cluster_log


class MemoryBench:
    """A log in memory whose clock ticks at every look."""

    def __init__(self) -> None:
        self._ticks = 0
        self.log = MemoryLog(cluster_log(CLUSTER), clock=self._tick)
        self._limited: MemoryLog | None = None

    def _tick(self) -> Instant:
        self._ticks += 1
        return Instant(self._ticks)

    def other(self) -> MemoryLog:
        return self.log

    async def full_after(self, messages: int) -> MemoryLog:
        self.log.messages_max = messages
        return self.log

    async def put(self, subject: str, headers: dict[str, str] | None, body: bytes) -> int:
        return self.log.put(subject, headers, body)

    async def purge(self, up_to_seq: int) -> None:
        self.log.purge(up_to_seq)

    async def dead(self) -> list[int]:
        return list(self.log.dead)

    @property
    def counters(self) -> LogCounters:
        return self.log.counters


@pytest.fixture
def bench() -> MemoryBench:
    return MemoryBench()


class TestMemoryLog(LogContract):
    """See `LogContract`."""
