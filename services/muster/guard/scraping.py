"""One API server: its page of metrics, the requests it works on, its HTTP/2 greeting."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from muster.core import Instant
from muster.guard.core.dump import Request, lists_of
from muster.guard.core.look import Replica
from muster.guard.core.pages import MIB, Page, PageReader
from muster.guard.core.rates import MINUTE_S, has_restarted, per_minute, quantile_s
from muster.guard.http2 import streams_max
from muster.guard.limits import DUMP_ROWS_MAX, DUMP_S_MAX, REPLICAS_MAX, SCRAPE_S_MAX, SHARED_S
from muster.kube.connection import KubeConnection
from muster.kube.errors import KubeConfigError, KubeError
from muster.schemas.apiserver import POINTS_MAX

DUMP = "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1"


@dataclass
class _Process:
    """One API server process, as far as it was seen. before: its newest page, and when that was read."""

    name: str
    memory: deque[tuple[Instant, float]] = field(default_factory=lambda: deque(maxlen=POINTS_MAX))
    before: tuple[float, Page] | None = None
    streams: tuple[float, int] | None = None
    newest: Replica | None = None


class ReplicaScraper:
    """name: as reports show it. connection: to this very API server; closed by `close`.

    shared: several API servers stand behind the address, and each new connection may reach another one. They are told
    apart by when they started, and each is shown as it was seen last, for SHARED_S; the connection must be young.
    """

    def __init__(self, name: str, connection: KubeConnection, *, shared: bool = False) -> None:
        self.name = name
        self._connection = connection
        self._shared = shared
        self._processes: dict[int, _Process] = {}
        self._numbered = 0

    async def close(self) -> None:
        """See `KubeConnection.close`."""
        await self._connection.close()

    async def scrape(self, now: Instant) -> tuple[Replica, ...]:
        """Its page, and rates since the one before. What goes wrong is said in `error`. now: of the memory's points.

        One replica; of a shared address all that were seen lately.
        """
        now_s = asyncio.get_running_loop().time()
        try:
            page = await self._page()
        except (KubeError, KubeConfigError) as error:
            return (self._failed(str(error)),)
        process = self._process_of(page)
        process.memory.append((now, page.rss_bytes / MIB))
        before, process.before = process.before, (now_s, page)
        found = Replica(
            process.name, page=page, memory=tuple(process.memory), streams_max=await self._streams_of(process, page)
        )
        process.newest = found if before is None else _with_rates(found, before[1], page, seconds=now_s - before[0])
        self._forget(now_s)
        return tuple(one.newest for one in self._processes.values() if one.newest is not None)

    def _process_of(self, page: Page) -> _Process:
        """Of a private address there is one, however often it is started."""
        key = round(page.started_at_s) if self._shared else 0
        if key not in self._processes:
            self._numbered += 1
            name = f"{self.name} #{self._numbered}" if self._shared else self.name
            self._processes[key] = _Process(name)
        return self._processes[key]

    def _forget(self, now_s: float) -> None:
        """Processes that were not met for long; and the oldest, if there are too many."""
        met_s = {key: one.before[0] for key, one in self._processes.items() if one.before is not None}
        newest = sorted(met_s, key=lambda key: -met_s[key])[:REPLICAS_MAX]
        kept = {key for key in newest if now_s - met_s[key] <= SHARED_S}
        self._processes = {key: one for key, one in self._processes.items() if key in kept}

    def _failed(self, error: str) -> Replica:
        known = next(iter(self._processes.values()), None)
        return Replica(self.name, error=error, memory=tuple(known.memory) if known and not self._shared else ())

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

    async def _streams_of(self, process: _Process, page: Page) -> int:
        """Asked once for each process: it is a flag."""
        if process.streams is None or process.streams[0] != page.started_at_s:
            process.streams = (page.started_at_s, await streams_max(self._connection.url))
        return process.streams[1]


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
