"""The services of a process. A service's `app.py` implements `services(settings)`; the shell and the host run them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nats.aio.client import Client

from muster.bus.declaration import Declaration
from muster.bus.settings import Settings
from muster.core.fact import Core, Fact
from muster.core.instant import Instant
from muster.schemas.base import Wire
from muster.schemas.registry import StreamRole


@dataclass(frozen=True, slots=True)
class LeaderHandle:
    """Requests of a sink to its shell, called in the shell's own loop."""

    wake: Callable[[], None] = lambda: None
    """Have the core asked soon whether it has anything to decide."""
    leads: Callable[[], bool] = lambda: True
    """Whether the service leads at this very moment; an effect may start only then."""
    now: Callable[[], Instant] = lambda: Instant(0)
    """Return the time of decisions: never before the newest fact that was folded."""
    fail: Callable[[BaseException], None] = lambda _: None
    """Stop the service with this error, as if `after_fold` had raised it: a task beside the folds failed."""

    def ended(self, task: asyncio.Task[None]) -> None:
        """Stop the service if this task failed, for `add_done_callback`. A cancelled one did not."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)


class Sink(Protocol):
    """Follower of a fold that writes outside the log: a read model, telemetry. Its data is derived, so it may be lost.

    Only the leader's sink is opened and called. A raised error stops the service (crash-only): recovery opens it anew.
    """

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        """Bring the outside up to date with the core, which was recovered to the log's head."""
        ...

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:
        """Handle `facts`, just folded, up to `last_seq`. Also called without facts at the core's wake-up."""
        ...

    async def close(self) -> None:
        """Stop: the service stops or lost its lease."""
        ...


QueryHandler = Callable[[Core, Wire, Instant], Wire]
"""Answers a question from a core's state: pure."""


@dataclass(frozen=True)
class CoreService:
    """A fold with decisions. core: makes a new, empty core, because start-up and recovery are one path.

    queries: by name of `declaration.queries`. sink: makes what follows the folds, None if nothing does. cluster: whose
    log it folds, "" for the one that the settings name. acts_without_term: the sink serves by the lease alone while the
    log is too full for a term to start.
    """

    declaration: Declaration
    role: StreamRole
    core: Callable[[], Core]
    queries: Mapping[str, QueryHandler] = field(default_factory=dict)
    sink: Callable[[], Sink] | None = None
    cluster: str = ""
    acts_without_term: bool = False


class Hosted(Protocol):
    """A service without a core (the gateway): it runs until it is cancelled."""

    declaration: Declaration

    async def run(self, connect: "Connect", settings: Settings) -> None:
        """Serve. A raised error stops the process's service; the supervisor starts it again."""
        ...


class Connect(Protocol):
    """Opens a connection to the bus as `user`: reconnects for ever, and its end is the process's end."""

    async def __call__(self, user: str) -> Client:
        """Return a connected client with that user's rights."""
        ...
