"""A process of the plane is waited for, and says why it did not come up."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kit.waiting import until
from muster_tools.local_kubernetes.child import Child, Command
from muster_tools.local_kubernetes.errors import NotReadyError, PortTakenError

FOREVER = "import signal; signal.pause()"
DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
while True:
    signal.pause()
"""
PARENT = """
import asyncio, sys
from pathlib import Path
from muster_tools.local_kubernetes.child import Child, Command

toy = Child(Command("toy", (sys.executable, "-c", "import signal; signal.pause()")), Path(sys.argv[1]), None)
toy.launch()
print(toy.pid, flush=True)
sys.stdin.read()
"""


def child(script: str, directory: Path, *, ready: bool = True) -> Child:
    async def is_ready() -> bool:
        return ready

    return Child(Command("toy", (sys.executable, "-c", script)), directory / "toy.log", is_ready)


async def test_it_starts_stops_and_starts_again(tmp_path: Path) -> None:
    toy = child(FOREVER, tmp_path)

    await toy.start()
    first = toy.pid
    await toy.stop()
    assert toy.pid is None
    assert toy.usage() is None
    await toy.start()

    assert toy.pid not in {None, first}
    assert toy.usage() is not None
    await toy.kill()
    assert toy.pid is None


async def test_one_that_ends_early_is_told_with_its_last_words(tmp_path: Path) -> None:
    toy = child("raise SystemExit('the store is gone')", tmp_path, ready=False)

    with pytest.raises(NotReadyError, match=r"toy ended before it was ready(.|\n)*the store is gone"):
        await toy.start()


async def test_a_port_that_is_taken_can_be_told_from_other_failures(tmp_path: Path) -> None:
    toy = child("raise SystemExit('listen tcp 127.0.0.1:1: bind: address already in use')", tmp_path, ready=False)

    with pytest.raises(PortTakenError):
        await toy.start()


async def test_one_that_is_never_ready_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster_tools.local_kubernetes.bounds.READY_S_MAX", 0.1)
    toy = child(FOREVER, tmp_path, ready=False)

    with pytest.raises(NotReadyError, match=r"not ready within 0\.1 s"):
        await toy.start()
    await toy.kill()


async def test_one_that_does_not_listen_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster_tools.local_kubernetes.bounds.STOP_S_MAX", 0.2)
    log = tmp_path / "toy.log"

    async def is_deaf() -> bool:
        return log.exists() and "deaf" in log.read_text()

    toy = Child(Command("toy", (sys.executable, "-c", DEAF)), log, is_deaf)
    await toy.start()
    pid = toy.pid
    await toy.stop()

    assert pid is not None
    assert not psutil.pid_exists(pid)


async def test_the_end_of_a_plane_waits_for_no_loop(tmp_path: Path) -> None:
    toy = child(FOREVER, tmp_path)
    await toy.start()

    toy.abandon()
    toy.reap()

    assert toy.pid is None


async def test_it_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
        (sys.executable, "-c", PARENT, str(tmp_path / "toy.log")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        parent.kill()

    await until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
