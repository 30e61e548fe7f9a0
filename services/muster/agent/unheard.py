"""End jobs that federation may give to another cluster while the log is too full to record it.

It wraps the sink of any backend, so that pods end before that sink takes its orders. A restarted agent does so, too,
because it acts by its lease before its own term is in the log.
"""

import logging
from collections.abc import Sequence

from nats.aio.client import Client

from muster.agent.core.core import AgentCore
from muster.bus.service import LeaderHandle, Sink
from muster.core import Core, Fact, Instant

_logger = logging.getLogger(__name__)


class Unheard:
    """A sink around `inner`, the sink that works the cluster."""

    def __init__(self, inner: Sink) -> None:
        self._inner = inner
        self._core: AgentCore | None = None
        self._leader: LeaderHandle | None = None
        self._told = False

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        """Open the inner sink."""
        assert isinstance(core, AgentCore), "the agent's sink follows the agent's core"
        self._core, self._leader = core, leader
        await self._inner.open(core, connection, leader)

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:
        """End jobs out of contact, then call the inner sink."""
        if self._core is not None and self._leader is not None and self._leader.leads():
            self._tell(self._core.end_unheard(now))
        await self._inner.after_fold(facts, last_seq=last_seq, now=now)

    async def close(self) -> None:
        """Close the inner sink."""
        self._core = self._leader = None
        await self._inner.close()

    def _tell(self, ended: int) -> None:
        """Log once until the condition ends."""
        if ended and not self._told:
            _logger.error("out of contact and the log is full: %d jobs were ended and are recorded later", ended)
        self._told = bool(ended)
