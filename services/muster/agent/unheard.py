"""Ends what the federation may give to another cluster when the log is too full to say so.

Around the sink that works the cluster, so that it holds for all of them: pods end before that looks for its orders. An
agent that is started anew meanwhile does so, too, as it acts by its lease before a term of its own stands in the log.
"""

import logging
from collections.abc import Sequence

from nats.aio.client import Client

from muster.agent.core.core import AgentCore
from muster.bus.service import LeaderHandle, Sink
from muster.core import Core, Fact, Instant

_logger = logging.getLogger(__name__)


class Unheard:
    """Implements `muster.bus.service.Sink`. inner: the one that works the cluster."""

    def __init__(self, inner: Sink) -> None:
        self._inner = inner
        self._core: AgentCore | None = None
        self._leader: LeaderHandle | None = None
        self._told = False

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:
        """See `Sink`."""
        assert isinstance(core, AgentCore), "the agent's sink follows the agent's core"
        self._core, self._leader = core, leader
        await self._inner.open(core, connection, leader)

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:
        """See `Sink`."""
        if self._core is not None and self._leader is not None and self._leader.leads():
            self._tell(self._core.end_unheard(now))
        await self._inner.after_fold(facts, last_seq=last_seq, now=now)

    async def close(self) -> None:
        """See `Sink`."""
        self._core = self._leader = None
        await self._inner.close()

    def _tell(self, ended: int) -> None:
        """Once, as long as it lasts."""
        if ended and not self._told:
            _logger.error("out of contact and the log takes nothing: %d jobs are ended, and the log hears later", ended)
        self._told = bool(ended)
