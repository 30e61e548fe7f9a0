"""The stack of a benchmark is stopped whenever it was started, also when the benchmark is given up meanwhile."""

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from kit.waiting import until
from muster.stack import control
from muster_tools.bench.fresh_stack import Progress, Say, fresh_stack, run_in_fresh_directory


async def test_a_stack_that_was_still_starting_when_all_was_cancelled_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def detach(_options: object) -> None:
        begun.set()
        may_end.wait()
        done.append("started")

    monkeypatch.setattr(control, "detach", detach)
    monkeypatch.setattr(control, "down", lambda _directory: done.append("stopped"))

    async def use() -> None:
        async with fresh_stack(tmp_path, {}, split=False, say=lambda _words: None):
            pytest.fail("it never started")

    using = asyncio.create_task(use())
    await until(begun.is_set)
    using.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await using

    assert done == ["started", "stopped"]


def test_a_benchmark_that_is_told_to_end_stops_its_stack() -> None:
    used: list[Path] = []

    async def measure(directory: Path, _say: Say, _reached: Progress) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            used.append(directory)

    with pytest.raises(SystemExit) as ended:
        run_in_fresh_directory(measure, total=1)

    assert ended.value.code == 128 + signal.SIGTERM
    (directory,) = used
    assert not directory.exists()
