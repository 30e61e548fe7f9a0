"""One API server: its page of metrics, the requests it works on, its HTTP/2 greeting."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from muster.core import Instant
from muster.guard.core.dump import Request, lists_of
from muster.guard.core.look import Replica
from muster.guard.core.pages import MIB, Page, PageReader
from muster.guard.core.rates import MINUTE_S, has_restarted, per_minute, quantile_s
from muster.guard.http2 import streams_max
from muster.guard.limits import DUMP_ROWS_MAX, DUMP_S_MAX, SCRAPE_S_MAX
from muster.kube.connection import KubeConnection
from muster.kube.errors import KubeConfigError, KubeError
from muster.schemas.apiserver import POINTS_MAX

DUMP = "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1"


class ReplicaScraper:
    """name: as reports show it. connection: to this very API server; closed by `close`."""

    def __init__(self, name: str, connection: KubeConnection) -> None:
        self.name = name
        self._connection = connection
        self._before: tuple[float, Page] | None = None
        self._streams: tuple[float, int] | None = None
        self._memory: deque[tuple[Instant, float]] = deque(maxlen=POINTS_MAX)
        self.failures = 0

    async def close(self) -> None:
        """See `KubeConnection.close`."""
        await self._connection.close()

    async def scrape(self, now: Instant) -> Replica:
        """Its page, and rates since the one before. What goes wrong is said in `error`. now: of the memory's points."""
        now_s = asyncio.get_running_loop().time()
        try:
            page = await self._page()
        except (KubeError, KubeConfigError) as error:
            self.failures += 1
            return Replica(self.name, error=str(error), memory=tuple(self._memory))
        self._memory.append((now, page.rss_bytes / MIB))
        before, self._before = self._before, (now_s, page)
        found = Replica(self.name, page=page, memory=tuple(self._memory), streams_max=await self._streams_of(page))
        return found if before is None else _with_rates(found, before[1], page, seconds=now_s - before[0])

    async def requests(self) -> Sequence[Request]:
        """LISTs that it works on now. Raises KubeError, KubeConfigError."""
        found: list[Request] = []
        async with self._connection.lines(DUMP, timeout_s=DUMP_S_MAX) as lines:
            async for batch in lines.batches():
                found.extend(lists_of(line.decode(errors="replace") for line in batch))
                if len(found) >= DUMP_ROWS_MAX:
                    break
        return found

    async def _page(self) -> Page:
        reader = PageReader()
        async with self._connection.lines("/metrics", timeout_s=SCRAPE_S_MAX) as lines:
            async for batch in lines.batches():
                reader.feed(batch)
        return reader.page()

    async def _streams_of(self, page: Page) -> int:
        """Asked once for each process: it is a flag."""
        if self._streams is None or self._streams[0] != page.started_at_s:
            self._streams = (page.started_at_s, await streams_max(self._connection.url))
        return self._streams[1]


def _with_rates(found: Replica, before: Page, page: Page, *, seconds: float) -> Replica:
    restarted = has_restarted(before, page)
    whole = {"requests": page.requests, "cpu": page.cpu_s}
    singles = per_minute(
        {"requests": before.requests, "cpu": before.cpu_s}, whole, seconds=seconds, restarted=restarted
    )
    return replace(
        found,
        per_minute=per_minute(before.lists, page.lists, seconds=seconds, restarted=restarted),
        rejected_per_minute=per_minute(before.rejected, page.rejected, seconds=seconds, restarted=restarted),
        waits_s_p99=quantile_s(per_minute(before.waits, page.waits, seconds=seconds, restarted=restarted)),
        requests_per_s=singles.get("requests", 0.0) / MINUTE_S,
        cpu_cores=singles.get("cpu", 0.0) / MINUTE_S,
    )
