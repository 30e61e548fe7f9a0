"""Keeps one service of a process going: what fails recovers anew after a bounded wait, and the others go on.

A service whose core cannot fold a fact stands still and says so, until an operator lets it skip that fact: to start it
again before would only fail again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from muster.bus.checkpoint import Voidance
from muster.bus.clock import Clock
from muster.bus.fold import PoisonedError
from muster.bus.limits import RESTART_BACKOFF_S, RESTART_CALM_S, VOIDED_POLL_S
from muster.bus.ports import LogError
from muster.bus.shell import UnrecoverableError
from muster.bus.traceparent import about

_logger = logging.getLogger(__name__)


@dataclass
class Condition:
    """How one service of the process is. stopped: why it stands still, "" while it runs or is about to."""

    service: str
    log: str
    stopped: str = ""
    failures: int = 0


Life = Callable[[], Awaitable[None]]
"""One life of a service: returns never, or by an error."""


@dataclass(frozen=True)
class Supervision:
    """How to keep a service going. voided: what operators let services skip. alone: nothing else is hosted here, so
    standing still is the process's end and its exit code says so. on_poison: told True, and False when it goes on.
    """

    condition: Condition
    clock: Clock
    alone: bool = False
    voided: Callable[[], Awaitable[tuple[Voidance, ...]]] | None = None
    on_poison: Callable[[bool], None] = lambda _: None
    on_restart: Callable[[], None] = lambda: None


async def supervise(live: Life, how: Supervision) -> None:
    """Run `live` again and again. Raises PoisonedError or UnrecoverableError if it is alone; else it never returns."""
    first_s, longest_s = RESTART_BACKOFF_S
    wait_s = 0.0
    condition = how.condition
    while True:
        started_s = how.clock.monotonic_s()
        try:
            await live()
            _logger.error("%s returned; a service runs until it is cancelled", condition.service)
            condition.stopped = "returned"
        except PoisonedError as error:
            _logger.critical("%s stands still: %s", condition.service, error, extra=about(error.trace))
            if how.alone:
                raise
            await _until_voided(error, how)
            wait_s = 0.0
            continue
        except UnrecoverableError as error:
            _logger.critical("%s stands still: %s", condition.service, error)
            condition.stopped = str(error)
            if how.alone:
                raise
        except Exception as error:
            _logger.exception("%s failed and recovers anew", condition.service)
            condition.stopped = f"{type(error).__name__}: {error}"
        condition.failures += 1
        how.on_restart()
        calm = how.clock.monotonic_s() - started_s > RESTART_CALM_S
        wait_s = first_s if calm else min(longest_s, max(first_s, 2 * wait_s))
        await asyncio.sleep(wait_s)
        condition.stopped = ""


async def _until_voided(poisoned: PoisonedError, how: Supervision) -> None:
    how.condition.stopped = str(poisoned)
    how.on_poison(True)
    assert how.voided is not None, "only a service that folds can be poisoned"
    while True:
        await asyncio.sleep(VOIDED_POLL_S)
        try:
            voided = await how.voided()
        except LogError as error:
            _logger.warning("%s: cannot read what was voided: %s", poisoned.service, error)
            continue
        if any(said.service == poisoned.service and said.seq == poisoned.seq for said in voided):
            _logger.warning("%s goes on: %d was voided for it", poisoned.service, poisoned.seq)
            how.condition.stopped = ""
            how.on_poison(False)
            return
