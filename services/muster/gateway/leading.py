"""Whether the services that decide have a leader: asked now and then, so that readiness says when nobody leads."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from muster.bus.clock import TimeSource
from muster.gateway.background import end_if_cancelled
from muster.gateway.ports import UnreachableError
from muster.gateway.problems import ProblemError

ASKED_EVERY_S = 5.0
SILENT_S_MAX = 30.0
"""A leader that leaves is followed by another within some seconds; after so long nobody leads."""

_log = logging.getLogger(__name__)

AskLeader = Callable[[], Awaitable[object]]


class Leadership:
    """When each leader answered last. leaders: by service, a question that only whoever leads answers."""

    def __init__(self, leaders: Mapping[str, AskLeader], time: TimeSource) -> None:
        self._leaders = dict(leaders)
        self._time = time
        self._answered_s = dict.fromkeys(leaders, time.monotonic_s())

    @property
    def missing(self) -> tuple[str, ...]:
        """Services that nobody has answered for longer than a change of leaders takes."""
        oldest_s = self._time.monotonic_s() - SILENT_S_MAX
        return tuple(name for name, answered_s in self._answered_s.items() if answered_s < oldest_s)

    async def watch(self) -> None:
        """Ask for ever."""
        while True:
            end_if_cancelled()
            await self.ask()
            await asyncio.sleep(ASKED_EVERY_S)

    async def ask(self) -> None:
        """Ask every leader once."""
        await asyncio.gather(*(self._ask(name, ask) for name, ask in self._leaders.items()))

    async def _ask(self, name: str, ask: AskLeader) -> None:
        try:
            await ask()
        except UnreachableError as error:
            _log.info("nobody answers for the %s: %s", name, error)
            return
        except ProblemError as error:
            _log.info("the %s answers with a problem: %s", name, error.problem.detail)
        self._answered_s[name] = self._time.monotonic_s()
