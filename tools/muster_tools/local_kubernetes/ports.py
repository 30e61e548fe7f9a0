"""Ports on loopback that stay ours while a process is down.

They lie below the range from which the kernel takes ports of outgoing connections: a client that keeps trying to reach
a stopped API server could otherwise be given that very port, and connect to itself.
"""

import socket
from collections.abc import Callable

LOOPBACK = "127.0.0.1"
FIRST, LAST = 20_000, 32_000
STRIDE = 97
"""Between the starting points of two seeds, so that planes of two processes seldom look at the same ports."""


class NoPortsError(OSError):
    """Every port of the range is taken."""


def is_free(port: int) -> bool:
    """Return whether the port is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def free_ports(count: int, *, seed: int, free: Callable[[int], bool] = is_free) -> tuple[int, ...]:
    """Different free ports; another seed starts to look elsewhere. Raises NoPortsError."""
    size = LAST - FIRST
    found: list[int] = []
    for step in range(size):
        if len(found) == count:
            break
        port = FIRST + (seed * STRIDE + step) % size
        if free(port):
            found.append(port)
    if len(found) < count:
        raise NoPortsError(f"{count} free ports wanted, {len(found)} found between {FIRST} and {LAST}")
    return tuple(found)
