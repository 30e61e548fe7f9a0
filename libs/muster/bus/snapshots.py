"""A leader's parts of checkpoints: taken synchronously, encoded in a thread, uploaded in the background, bounded."""

import asyncio
import logging
from collections import deque

from muster.bus.checkpoint import CheckpointError, Checkpoints, CheckpointUnavailableError, encode_part
from muster.bus.limits import ShellLimits
from muster.bus.metrics import ShellMetrics
from muster.core.fact import Draft
from muster.core.instant import Instant
from muster.schemas.subjects import LogName

_logger = logging.getLogger(__name__)


class Snapshots:
    """Uploads offered snapshots, one at a time. A failure is counted and not retried: the next checkpoint follows."""

    def __init__(
        self, checkpoints: Checkpoints, service: str, log: LogName, metrics: ShellMetrics, limits: ShellLimits
    ) -> None:
        self._checkpoints = checkpoints
        self._service = service
        self._log = log
        self._metrics = metrics
        self._limits = limits
        self._waiting: deque[tuple[int, Instant, list[Draft]]] = deque()
        self._offered = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()

    def offer(self, seq: int, time: Instant, drafts: list[Draft]) -> None:
        """Keep a snapshot for upload; if too many wait, the oldest is given up."""
        if len(self._waiting) >= self._limits.checkpoint_backlog:
            self._waiting.popleft()
            self._metrics.part("skipped")
        self._waiting.append((seq, time, drafts))
        self._settled.clear()
        self._offered.set()

    async def settle(self, timeout_s: float) -> None:
        """Wait until nothing waits for upload; give up after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._settled.wait()
        except TimeoutError:
            self._metrics.part("skipped")

    async def run(self) -> None:
        """Upload until cancelled."""
        while True:
            await self._offered.wait()
            self._offered.clear()
            while self._waiting:
                seq, time, drafts = self._waiting.popleft()
                await self._upload(seq, time, drafts)
            self._settled.set()

    async def _upload(self, seq: int, time: Instant, drafts: list[Draft]) -> None:
        try:
            async with asyncio.timeout(self._limits.checkpoint_timeout_s):
                body = await asyncio.to_thread(encode_part, self._log, self._service, seq=seq, time=time, drafts=drafts)
                await self._checkpoints.upload(self._service, seq=seq, time=time, body=body)
        except (CheckpointUnavailableError, CheckpointError, TimeoutError) as error:
            self._metrics.part("failed")
            _logger.warning("part %s/%d/%s not uploaded: %s", self._log.stream, seq, self._service, error)
            return
        except Exception:  # a defect of a state fact: the next checkpoints are tried all the same
            self._metrics.part("failed")
            _logger.exception("part %s/%d/%s not uploaded", self._log.stream, seq, self._service)
            return
        self._metrics.part("uploaded")
