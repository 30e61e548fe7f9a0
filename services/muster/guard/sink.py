"""Looks at the API servers while the guard leads, keeps flow control where it may, and shows the core each look.

Effects are server-side applies of objects with fixed names, so a leader that takes over finds what was written and
writes the same.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from nats.aio.client import Client

from muster.bus.service import LeaderHandle
from muster.core import Fact, Instant
from muster.core.fact import Core
from muster.guard.core.config import GuardConfig
from muster.guard.core.core import GuardCore
from muster.guard.limits import CHANGE_S, REOPEN_S, STOP_S_MAX
from muster.guard.metrics import GuardMetrics
from muster.guard.observer import ClusterObserver
from muster.guard.replicas import Place
from muster.kube.errors import KubeConfigError

_logger = logging.getLogger(__name__)


class ServerWatch:
    """Implements `muster.bus.service.Sink`. version: of Muster, as the API servers are told."""

    def __init__(self, place: Place, config: GuardConfig, *, scrape_s: float, version: str) -> None:
        self._place, self._config, self._scrape_s, self._version = place, config, scrape_s, version
        self._leader = LeaderHandle()
        self._core: GuardCore | None = None
        self._task: asyncio.Task[None] | None = None
        self._metrics = GuardMetrics()
        self._flow_changed = asyncio.Event()

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:  # noqa: ARG002 - the port
        """See `Sink.open`."""
        assert isinstance(core, GuardCore), "these are the guard's looks"
        core.forget()
        self._core, self._leader = core, leader
        self._metrics = GuardMetrics()
        self._metrics.show_state(core.state)
        self._task = asyncio.create_task(self._run(core), name="looks at API servers")
        self._task.add_done_callback(leader.ended)

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """See `Sink.after_fold`."""
        assert self._core is not None, "a sink is opened first"
        self._metrics.show_state(self._core.state)

    async def close(self) -> None:
        """See `Sink.close`."""
        if self._core is not None:
            self._core.forget()
        self._metrics.hide()
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task], timeout=STOP_S_MAX)

    async def _run(self, core: GuardCore) -> None:
        while True:
            try:
                async with ClusterObserver(
                    self._place,
                    self._config,
                    version=self._version,
                    now=self._leader.now,
                    on_flow=self._flow_changed.set,
                ) as observer:
                    await self._watch(core, observer)
            except* KubeConfigError as errors:
                _logger.warning(
                    "the API server's credentials cannot be read, trying again in %g s: %s",
                    REOPEN_S,
                    "; ".join(map(str, errors.exceptions)),
                )
            await asyncio.sleep(REOPEN_S)

    async def _watch(self, core: GuardCore, observer: ClusterObserver) -> None:
        """Looks until the observer fails: every `scrape_s`, and soon after flow control changed."""
        while True:
            self._flow_changed.clear()
            applies = self._config.apply
            look = await (observer.keep(leads=self._leader.leads) if applies else observer.look())
            self._metrics.show_look(look, observer.audit)
            if core.observe(look, self._leader.now()):
                self._leader.wake()
            if (failure := observer.failure()) is not None:
                raise failure
            with suppress(TimeoutError):
                async with asyncio.timeout(self._scrape_s):
                    await self._flow_changed.wait()
                    await asyncio.sleep(CHANGE_S)
