"""Choice of ports: the usual port if it is free, else another one, and the same one again after a restart."""

import secrets
import socket
from collections.abc import Mapping

LOOPBACK = "127.0.0.1"
USUAL_PORTS: Mapping[str, int] = {
    "nats": 4222, "monitor": 8222, "websocket": 9222, "redis": 6379, "http": 8080, "metrics": 9464,
    "fabric": 8070, "dcgm": 9400,
}  # fmt: skip

FIRST, LAST = 10_000, 32_000
"""Below the kernel's ephemeral range, whose ports may be taken by outgoing connections."""
TRIES_MAX = 64


def is_free(port: int, *, host: str = LOOPBACK) -> bool:
    """Return whether the port is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def free_port(*, host: str = LOOPBACK) -> int:
    """Return a port that was free a moment ago; the caller must handle its loss.

    The port is one of thousands, so that two stacks that start together seldom choose the same.
    """
    for _ in range(TRIES_MAX):
        port = FIRST + secrets.randbelow(LAST - FIRST)
        if is_free(port, host=host):
            return port
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def choose_ports(wanted: Mapping[str, int], *, host: str = LOOPBACK) -> dict[str, int]:
    """Return a free port per name: the preferred one or, if that is taken, any free one.

    0 prefers any port. All returned ports differ.
    """
    chosen: dict[str, int] = {}
    for name, port in wanted.items():
        candidate = port
        while not candidate or candidate in chosen.values() or not is_free(candidate, host=host):
            candidate = free_port(host=host)
        chosen[name] = candidate
    return chosen
