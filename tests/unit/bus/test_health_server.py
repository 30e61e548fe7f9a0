"""The health server of a process answers whoever asks, whatever others do at it."""

import socket
import urllib.request
from collections.abc import Iterator

import pytest

from muster.bus.health_server import HealthServer

LOOPBACK = "127.0.0.1"


@pytest.fixture
def server() -> Iterator[HealthServer]:
    server = HealthServer(
        LOOPBACK, 0, lambda: (True, {"services": []}), ready=lambda: (False, {"nobody_leads": [{"log": "LOG_atlas"}]})
    )
    yield server
    server.close()


def test_who_connects_and_says_nothing_keeps_nobody_waiting(server: HealthServer) -> None:
    with socket.create_connection((LOOPBACK, server.port)) as silent:
        silent.sendall(b"GET /met")
        with urllib.request.urlopen(f"http://{LOOPBACK}:{server.port}/healthz", timeout=2) as answer:
            assert answer.status == 200
        server.close()  # neither does it keep the process from ending


def test_who_says_nothing_is_let_go(server: HealthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.bus.health_server._Quiet.timeout", 0.05)
    with socket.create_connection((LOOPBACK, server.port), timeout=5) as silent:
        assert silent.recv(1) == b""
