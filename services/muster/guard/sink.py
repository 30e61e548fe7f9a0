"""Looks at the API servers while the guard leads, keeps flow control where it may, and wakes the core with each look.

Implements the core's port `Servers` and the shell's `Sink`. Effects are server-side applies of objects with fixed
names, so a leader that takes over finds what was written and writes the same. Moments are those of the shell, carried
on by the loop's clock; no wall clock is read.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from nats.aio.client import Client

from muster.bus.service import Seat
from muster.core import Fact, Instant
from muster.core.fact import Core
from muster.core.instant import after
from muster.guard.core.config import GuardConfig
from muster.guard.core.core import GuardCore
from muster.guard.core.look import Look
from muster.guard.limits import CHANGE_S, REOPEN_S, STOP_S_MAX
from muster.guard.lookout import Lookout
from muster.guard.metrics import GuardMetrics
from muster.guard.replicas import Place
from muster.kube.errors import KubeConfigError

_AT_ONCE = Instant(0)
_logger = logging.getLogger(__name__)


class ServerWatch:
    """One instance serves a service's cores, one after the other."""

    def __init__(self, place: Place, config: GuardConfig, *, scrape_s: float, version: str) -> None:
        self._place, self._config, self._scrape_s, self._version = place, config, scrape_s, version
        self._look: Look | None = None
        self._is_new = self._is_opened = False
        self._seat = Seat()
        self._core: GuardCore | None = None
        self._task: asyncio.Task[None] | None = None
        self._metrics = GuardMetrics()
        self._flow_changed = asyncio.Event()
        self._now, self._now_at_s = Instant(0), 0.0

    def look(self) -> Look | None:
        """See `Servers.look`."""
        return self._look

    def observe(self) -> Look | None:
        """See `Servers.observe`."""
        self._is_new = False
        return self._look

    def next_change(self) -> Instant | None:
        """See `Servers.next_change`; also at once when a term begins, or a task has ended: `after_fold` is wanted."""
        ended = self._task is not None and self._task.done()
        return _AT_ONCE if self._is_new or self._is_opened or ended else None

    async def open(self, core: Core, connection: Client, seat: Seat) -> None:  # noqa: ARG002 - the port
        """See `Sink.open`."""
        assert isinstance(core, GuardCore), "these are the guard's looks"
        await self.close()
        self._core, self._seat, self._is_opened = core, seat, True
        self._metrics = GuardMetrics()

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """See `Sink.after_fold`: the first one says what time it is."""
        self._is_opened = False
        self._now, self._now_at_s = now, asyncio.get_running_loop().time()
        if self._task is None:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(lambda _: self._seat.wake())
        elif self._task.done():
            self._task.result()  # a defect stops the service: recovery opens this anew
        assert self._core is not None, "a sink is opened first"
        self._metrics.show_state(self._core.state)

    async def close(self) -> None:
        """See `Sink.close`."""
        self._look, self._is_new, self._is_opened = None, False, False
        self._metrics.hide()
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task], timeout=STOP_S_MAX)

    async def _run(self) -> None:
        while True:
            try:
                async with Lookout(
                    self._place,
                    self._config,
                    version=self._version,
                    now=self._moment,
                    on_flow=self._flow_changed.set,
                ) as lookout:
                    await self._watch(lookout)
            except* KubeConfigError as errors:
                _logger.warning(
                    "the API server's credentials cannot be read, trying again in %g s: %s",
                    REOPEN_S,
                    "; ".join(map(str, errors.exceptions)),
                )
            await asyncio.sleep(REOPEN_S)

    async def _watch(self, lookout: Lookout) -> None:
        """Looks until the lookout fails: every `scrape_s`, and soon after flow control changed."""
        while True:
            self._flow_changed.clear()
            applies = self._config.apply
            look = await (lookout.keep(leads=self._seat.leads) if applies else lookout.look())
            self._look, self._is_new = look, True
            self._metrics.show_look(look, lookout.audit)
            self._seat.wake()
            if (failure := lookout.failure()) is not None:
                raise failure
            with suppress(TimeoutError):
                async with asyncio.timeout(self._scrape_s):
                    await self._flow_changed.wait()
                    await asyncio.sleep(CHANGE_S)

    def _moment(self) -> Instant:
        return after(self._now, asyncio.get_running_loop().time() - self._now_at_s)
