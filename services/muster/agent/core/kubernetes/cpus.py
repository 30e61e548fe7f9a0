"""Cores of a node by socket, without reserved CPUs: the whole cores near a GPU.

Linux numbers the first thread of every core, socket after socket, then the second threads in the same order: with two
sockets of 32 cores and two threads each, CPUs 0-31 and 64-95 are the first socket's.
"""

from collections.abc import Iterable
from dataclasses import dataclass

CPUS_MAX = 8_192
"""CPUs of one node; Linux' own limit."""


class CpuSetError(ValueError):
    """An invalid CPU set or layout; the message names it."""


@dataclass(frozen=True, slots=True)
class CpuLayout:
    """Logical CPUs of a node, evenly over `sockets`, with `threads` per core."""

    cpus: int
    sockets: int = 1
    threads: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.cpus <= CPUS_MAX or self.sockets < 1 or self.threads < 1:
            raise CpuSetError(
                f"{self.cpus} CPUs, {self.sockets} sockets, {self.threads} threads: each must be at least 1"
            )
        if self.cpus % (self.sockets * self.threads):
            raise CpuSetError(f"{self.cpus} CPUs do not divide into {self.sockets} sockets of {self.threads} threads")

    def socket_of(self, cpu: int) -> int:
        """Return the socket of a logical CPU, from 0."""
        cores = self.cpus // self.threads
        return (cpu % cores) // (cores // self.sockets)


def read_cpu_set(text: str) -> frozenset[int]:
    """Parse a CPU list as the kernel writes it: "0-1,64-65". Raises CpuSetError."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or not (last.isdecimal() if dash else True):
            raise CpuSetError(f"reserved_cpus: {part!r} must be a CPU or a range of CPUs, as in 0-1,64-65")
        low, high = int(first), int(last or first)
        if not low <= high < CPUS_MAX:
            raise CpuSetError(f"reserved_cpus: {part!r} must go from a lower to a higher CPU below {CPUS_MAX}")
        found.update(range(low, high + 1))
    return frozenset(found)


def socket_cpu_milli(layout: CpuLayout, *, reserved: Iterable[int], cpu_milli: int) -> tuple[int, ...]:
    """Return the thousandths of cores per socket for jobs: `NodeJoined.socket_cpu_milli`.

    Reserved CPUs that the node lacks are ignored. If the sockets have more than `cpu_milli` together, each gives up the
    same part.
    """
    free = [layout.cpus // layout.sockets * 1000] * layout.sockets
    for cpu in frozenset(reserved):
        if 0 <= cpu < layout.cpus:
            free[layout.socket_of(cpu)] -= 1000
    total = sum(free)
    if total <= max(cpu_milli, 0):
        return tuple(free)
    return tuple(milli * max(cpu_milli, 0) // total for milli in free)
