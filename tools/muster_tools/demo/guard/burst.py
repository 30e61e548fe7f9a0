"""Fifty LISTs at once as an ordinary user, and their effect on an API server."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from muster_tools.demo.guard.limits import BURST, CALM_S, POLL_S, READ_BYTES, REQUEST_S_MAX
from muster_tools.local_kubernetes.plane import ControlPlane

KIB_PER_MIB = 1024.0
_RESET_PEAK = "5"  # proc(5): clear_refs


def peak_mib(pid: int) -> float:
    """Return the peak resident memory since `reset_peak`, or since the start (VmHWM). Raises OSError."""
    return _field(pid, "VmHWM") / KIB_PER_MIB


def rss_mib(pid: int) -> float:
    """Return the resident memory (VmRSS). Raises OSError."""
    return _field(pid, "VmRSS") / KIB_PER_MIB


def reset_peak(pid: int) -> None:
    """Reset the peak. Raises OSError."""
    Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)


def _field(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return float(line.split()[1])
    raise OSError(f"process {pid} reports no {name}")


_LEVELS = "/debug/api_priority_and_fairness/dump_priority_levels"
_WAITING, _EXECUTING = 4, 5
_OK, _TOO_MANY = 200, 429
API_SERVER = "kube-apiserver-0"


@dataclass(frozen=True, slots=True)
class Burst:
    """Outcome of a burst of LISTs."""

    lists: int
    answered: int
    rejected: int
    """LISTs rejected with 429."""
    failed: int
    executing: int
    """Maximum concurrency over all levels that are not exempt; `queued` likewise."""
    queued: int
    mib: float
    """Size of one response."""
    idle_mib: float
    """Resident memory of the API server before the burst."""
    peak_mib: float
    """Peak resident memory, counted by the kernel."""
    after_mib: float
    """Resident memory CALM_S after the burst."""
    seconds: float
    """Time until the last response."""
    slowest_s: float


async def burst(plane: ControlPlane, user: str, *, path: str = "/api/v1/secrets", lists: int = BURST) -> Burst:
    """Send `lists` LISTs at once, each on its own connection, as slow clients do. Raises OSError."""
    pid = plane.pids[API_SERVER]
    idle_mib = rss_mib(pid)
    reset_peak(pid)
    outcomes: Counter[int] = Counter()
    times: list[float] = []
    sizes: list[int] = []
    began_s = time.monotonic()
    async with plane.client(user, connections=lists) as client, _Levels(plane) as levels:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(lists):
                tasks.create_task(_list(client, path, outcomes, times, sizes))
        seconds = time.monotonic() - began_s
        peak = peak_mib(pid)
    await asyncio.sleep(CALM_S)
    return Burst(
        lists=lists,
        answered=outcomes[_OK],
        rejected=outcomes[_TOO_MANY],
        failed=lists - outcomes[_OK] - outcomes[_TOO_MANY],
        executing=levels.executing,
        queued=levels.queued,
        mib=max(sizes, default=0) / 2**20,
        idle_mib=idle_mib,
        peak_mib=peak,
        after_mib=rss_mib(pid),
        seconds=seconds,
        slowest_s=max(times, default=0.0),
    )


async def _list(
    client: aiohttp.ClientSession, path: str, outcomes: Counter[int], times: list[float], sizes: list[int]
) -> None:
    began_s, size = time.monotonic(), 0
    try:
        async with client.get(path, timeout=aiohttp.ClientTimeout(total=REQUEST_S_MAX)) as answer:
            async for chunk in answer.content.iter_chunked(READ_BYTES):
                size += len(chunk)
            outcomes[answer.status] += 1
            if answer.status == _OK:
                sizes.append(size)
                times.append(time.monotonic() - began_s)
    except (aiohttp.ClientError, TimeoutError):
        outcomes[0] += 1


class _Levels:
    """Samples flow control as the admin, who is exempt, while the block runs."""

    def __init__(self, plane: ControlPlane) -> None:
        self._client = plane.client(connections=1)
        self._task: asyncio.Task[None] | None = None
        self.executing = self.queued = 0

    async def __aenter__(self) -> "_Levels":
        self._task = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()

    async def _look(self) -> None:
        while True:
            try:
                async with self._client.get(_LEVELS) as answer:
                    self._take((await answer.text()).splitlines()[1:])
            except (aiohttp.ClientError, TimeoutError):
                pass  # the API server is overloaded; the next sample suffices
            await asyncio.sleep(POLL_S)

    def _take(self, rows: Sequence[str]) -> None:
        found = [[column.strip() for column in row.split(",")] for row in rows]
        limited = [row for row in found if len(row) > _EXECUTING and row[0] != "exempt"]
        self.executing = max(self.executing, sum(int(row[_EXECUTING]) for row in limited))
        self.queued = max(self.queued, sum(int(row[_WAITING]) for row in limited))
