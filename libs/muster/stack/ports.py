"""Where things listen: the usual port if it is free, another one if not, and the same one again after a restart."""

import secrets
import socket
from collections.abc import Mapping

LOOPBACK = "127.0.0.1"
USUAL_PORTS: Mapping[str, int] = {
    "nats": 4222, "monitor": 8222, "websocket": 9222, "redis": 6379, "http": 8080, "metrics": 9464,
    "fabric": 8070, "dcgm": 9400,
}  # fmt: skip

FIRST, LAST = 10_000, 32_000
"""Below the kernel's own range: a port from there may be an outgoing connection's before anybody listens on it."""
TRIES_MAX = 64


def is_free(port: int, *, host: str = LOOPBACK) -> bool:
    """Whether somebody could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def free_port(*, host: str = LOOPBACK) -> int:
    """A port that was free a moment ago; who listens there must cope with having lost it.

    Any of thousands, so that two stacks that start together seldom meet.
    """
    for _ in range(TRIES_MAX):
        port = FIRST + secrets.randbelow(LAST - FIRST)
        if is_free(port, host=host):
            return port
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def choose_ports(wanted: Mapping[str, int], *, host: str = LOOPBACK) -> dict[str, int]:
    """A free port per name: the wanted one (last start's, or the usual one) or, if that is taken, any free one.

    0 wants any. All answers differ.
    """
    chosen: dict[str, int] = {}
    for name, port in wanted.items():
        candidate = port
        while not candidate or candidate in chosen.values() or not is_free(candidate, host=host):
            candidate = free_port(host=host)
        chosen[name] = candidate
    return chosen
