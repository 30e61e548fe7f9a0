"""Memory and processor time of every process while workloads are placed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from muster_tools.bench.kubernetes import bounds
from muster_tools.local_kubernetes.child import Usage

Source = Callable[[], Mapping[str, Usage]]


class Samples:
    """The most memory that each process had, and what processor time it took, since `begin`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._began = dict(source())
        self._peak_mib: dict[str, float] = {}
        self._cpu_s: dict[str, float] = {}

    def begin(self) -> None:
        """Forget what was so far: the measurement begins here."""
        self._began = dict(self._source())
        self._peak_mib.clear()
        self._cpu_s.clear()

    def look(self) -> None:
        """Take one sample."""
        for name, usage in self._source().items():
            self._peak_mib[name] = max(self._peak_mib.get(name, 0.0), usage.rss_mib)
            before = self._began.get(name)
            self._cpu_s[name] = usage.cpu_s - (before.cpu_s if before is not None else 0.0)

    @property
    def peak_mib(self) -> dict[str, float]:
        """By process."""
        return {name: round(value, 1) for name, value in self._peak_mib.items()}

    @property
    def cpu_s(self) -> dict[str, float]:
        """By process."""
        return {name: round(value, 2) for name, value in self._cpu_s.items()}


@asynccontextmanager
async def sampling(source: Source) -> AsyncIterator[Samples]:
    """Look every SAMPLE_S while the block runs, and once more at its end."""
    samples = Samples(source)

    async def keep_looking() -> None:
        while True:
            samples.look()
            await asyncio.sleep(bounds.SAMPLE_S)

    looking = asyncio.create_task(keep_looking())
    try:
        yield samples
        samples.look()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
