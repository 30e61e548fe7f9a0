"""Ports on loopback that no other process of tests takes between our choice and the moment that a server listens.

The usual "bind to 0 and close" is a race between everybody who does it, and stacks choose a dozen ports seconds before
they use them. So every worker of pytest has a range of its own, below the kernel's for outgoing connections and below
that of control planes (`muster_tools.local_kubernetes.ports`), and goes round in it.
"""

import os
from collections.abc import Callable

from muster.stack.ports import is_free

FIRST, LAST = 10_000, 20_000
STRIDE = 97
"""Between the starting points of two sessions of pytest side by side, which share the range."""


class NoPortsError(OSError):
    """Every port of the range is taken."""


class PortRange:
    """One worker's share of the range. index: of so many workers. seed: where it begins to look. free: as it says."""

    def __init__(
        self, *, index: int = 0, workers: int = 1, seed: int = 0, free: Callable[[int], bool] = is_free
    ) -> None:
        self._is_free = free
        self.size = (LAST - FIRST) // workers
        self.first = FIRST + index * self.size
        self._next = seed * STRIDE % self.size

    def take(self) -> int:
        """A port that is free, and was not given for as long as possible. Raises NoPortsError."""
        for _ in range(self.size):
            port = self.first + self._next
            self._next = (self._next + 1) % self.size
            if self._is_free(port):
                return port
        raise NoPortsError(f"none of the {self.size} ports from {self.first} on is free")


def _of_this_worker() -> PortRange:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return PortRange(index=int(worker), workers=workers, seed=os.getpid())


_RANGE = _of_this_worker()


def own_port() -> int:
    """One port. Raises NoPortsError."""
    return _RANGE.take()


def own_ports(*names: str) -> dict[str, int]:
    """A port for each of these names. Raises NoPortsError."""
    return {name: own_port() for name in names}
