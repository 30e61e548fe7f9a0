"""Children are started in order, started again when they die, and never outlive their supervisor."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from kit.waiting import until
from muster.stack.process import BoundedLog, Command
from muster.stack.supervisor import (
    RESTART_S_MAX,
    RESTART_S_MIN,
    Child,
    ChildNotReadyError,
    Supervisor,
    restart_pause_s,
)

LIVE = "print('alive', flush=True); import signal; signal.pause()"
DEAF = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True)\nwhile 1: signal.pause()"
)


def python(name: str, code: str) -> Command:
    return Command(name, (sys.executable, "-S", "-c", code))


@pytest.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(logs_dir=tmp_path / "logs", run_dir=tmp_path)
    yield supervisor
    await supervisor.stop()


def says(path: Path, text: str) -> Callable[[], bool]:
    return lambda: path.exists() and text in path.read_text()


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def pid_of(supervisor: Supervisor, name: str) -> int:
    return next(state.pid for state in supervisor.states() if state.name == name) or 0


async def test_a_killed_child_is_started_again(supervisor: Supervisor) -> None:
    await supervisor.start(Child(python("worker", LIVE)))
    await until(lambda: pid_of(supervisor, "worker") > 0)
    first = pid_of(supervisor, "worker")
    os.kill(first, signal.SIGKILL)
    await until(lambda: pid_of(supervisor, "worker") not in (0, first))
    assert supervisor.states()[0].restarts == 1


async def test_a_child_that_ends_well_is_started_again_too(supervisor: Supervisor) -> None:
    await supervisor.start(Child(python("worker", "pass")))
    await until(lambda: supervisor.states()[0].restarts >= 2)


async def test_a_program_that_is_missing_is_tried_again(supervisor: Supervisor) -> None:
    await supervisor.start(Child(Command("worker", ("/nowhere/at/all",))))
    await until(lambda: supervisor.states()[0].restarts >= 2)


async def test_stopping_ends_every_child_and_its_pid_file(supervisor: Supervisor, tmp_path: Path) -> None:
    await supervisor.start(Child(python("a", LIVE)), Child(python("b", LIVE)))
    await until(lambda: all(state.pid for state in supervisor.states()))
    pids = [state.pid for state in supervisor.states()]
    assert (tmp_path / "a.pid").read_text() == str(pids[0])
    await supervisor.stop()
    assert not any(is_running(pid) for pid in pids if pid)
    assert not (tmp_path / "a.pid").exists()


async def test_a_child_that_ignores_sigterm_is_killed(supervisor: Supervisor, tmp_path: Path) -> None:
    await supervisor.start(Child(python("deaf", DEAF), grace_s=0.1))
    await until(says(tmp_path / "logs/deaf.log", "deaf"))
    pid = pid_of(supervisor, "deaf")
    await supervisor.stop()
    assert not is_running(pid)


async def test_a_child_that_is_just_starting_is_ended_too(tmp_path: Path) -> None:
    before = psutil.Process().children()
    supervisor = Supervisor(logs_dir=tmp_path / "logs", run_dir=tmp_path)
    await supervisor.start(Child(python("worker", LIVE)))
    await supervisor.stop()
    assert psutil.Process().children() == before


async def test_the_next_group_waits_until_this_one_is_ready(supervisor: Supervisor, tmp_path: Path) -> None:
    asked = 0

    async def third_time() -> bool:
        nonlocal asked
        asked += 1
        return asked == 3

    await supervisor.start(Child(python("first", LIVE), third_time))
    assert asked == 3


async def test_a_child_that_never_gets_ready_is_told_with_its_last_words(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    log = tmp_path / "logs/broken.log"
    code = "print('no such cluster', flush=True); import signal; signal.pause()"

    async def never() -> bool:
        await until(says(log, "no such cluster"))
        return False

    with pytest.raises(ChildNotReadyError, match="no such cluster"):
        await supervisor.start(Child(python("broken", code), never, ready_s_max=1))


async def test_nothing_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
from pathlib import Path
from muster.stack.process import Command
from muster.stack.supervisor import Child, Supervisor
async def main():
    supervisor = Supervisor(logs_dir=Path({str(tmp_path)!r}), run_dir=Path({str(tmp_path)!r}))
    await supervisor.start(Child(Command("worker", (sys.executable, "-S", "-c", {LIVE!r}))))
    while not supervisor.states()[0].pid:
        await asyncio.sleep(0.01)
    print(supervisor.states()[0].pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    worker = int(await process.stdout.readline())
    try:
        await until(says(tmp_path / "worker.log", "alive"))
        process.kill()
        await process.wait()
        await until(lambda: not is_running(worker))
    finally:
        if is_running(worker):
            os.kill(worker, signal.SIGKILL)


def test_pauses_double_up_to_a_bound() -> None:
    pauses = [restart_pause_s(deaths) for deaths in range(1, 100)]
    assert pauses[0] == RESTART_S_MIN
    assert pauses[1] == 2 * RESTART_S_MIN
    assert pauses[-1] == max(pauses) == RESTART_S_MAX


def test_a_log_never_grows_beyond_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    log = BoundedLog(path, bytes_max=100)
    for number in range(50):
        log.write(f"line {number:04}\n".encode())
    log.close()
    older = tmp_path / "x.log.1"
    assert path.stat().st_size <= 100
    assert older.stat().st_size <= 100
    assert path.read_text().endswith("line 0049\n")
    assert sorted(tmp_path.iterdir()) == [path, older]
