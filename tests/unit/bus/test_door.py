"""The door of a process answers whoever asks, whatever others do at it."""

import socket
import urllib.request
from collections.abc import Iterator

import pytest

from muster.bus.health import Door

LOOPBACK = "127.0.0.1"


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door(
        LOOPBACK, 0, lambda: (True, {"services": []}), ready=lambda: (False, {"nobody_leads": [{"log": "LOG_atlas"}]})
    )
    yield door
    door.close()


def test_who_connects_and_says_nothing_keeps_nobody_waiting(door: Door) -> None:
    with socket.create_connection((LOOPBACK, door.port)) as silent:
        silent.sendall(b"GET /met")
        with urllib.request.urlopen(f"http://{LOOPBACK}:{door.port}/healthz", timeout=2) as answer:
            assert answer.status == 200
        door.close()  # neither does it keep the process from ending


def test_who_says_nothing_is_let_go(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.bus.health._Quiet.timeout", 0.05)
    with socket.create_connection((LOOPBACK, door.port), timeout=5) as silent:
        assert silent.recv(1) == b""
