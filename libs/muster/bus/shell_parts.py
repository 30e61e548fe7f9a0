"""What a shell works with, as it sees it: its log, and everything that stands beside it."""

from dataclasses import dataclass, field
from typing import Protocol

from nats.aio.client import Client

from muster.bus.checkpoint import Checkpoints, Voidance
from muster.bus.clock import Clock
from muster.bus.lease import Leases
from muster.bus.limits import ShellLimits
from muster.bus.ports import LogAppender, LogReader
from muster.bus.tracing import NoTracing, Tracing
from muster.schemas.subjects import LogName


class WakeableReader(LogReader, Protocol):
    """A reader that can be told to return at once."""

    def wake(self) -> None:
        """Let a waiting read return."""
        ...


class ServiceLog(Protocol):
    """One log, as the shell of one service sees it."""

    name: LogName

    @property
    def is_copy(self) -> bool:
        """Whether the log is only followed here, and written elsewhere."""
        ...

    async def reader(self, *, after_seq: int) -> WakeableReader:
        """Everything after a sequence. Raises LogError."""
        ...

    def appender(self, service: str) -> LogAppender:
        """The pen of `service`."""
        ...

    async def voided(self) -> tuple[Voidance, ...]:
        """What operators let services skip. Raises LogError."""
        ...

    async def first_seq(self) -> int:
        """Sequence of the oldest message, 1 if nothing was ever trimmed. Raises LogError."""
        ...

    async def newest_term(self, service: str) -> int:
        """Term of the service's newest fence, 0 if there is none. Raises LogError: FenceBrokenError if it is none."""
        ...


@dataclass(frozen=True)
class ShellParts:
    """What a shell works with. connection: for the sink, the service's own."""

    log: ServiceLog
    leases: Leases
    checkpoints: Checkpoints
    holder: str
    clock: Clock
    connection: Client | None = None
    tracing: Tracing = field(default_factory=NoTracing)
    limits: ShellLimits = field(default_factory=ShellLimits)
