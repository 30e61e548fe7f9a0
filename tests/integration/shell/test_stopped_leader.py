"""A leader that is stopped in mid-decision, taken over, and continued: what it then appends is refused."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.stack.hosted import HostedServices
from kit.toys import Releasing, scheduler
from kit.waiting import until

pytestmark = pytest.mark.connected
SCRIPT = Path(__file__).with_name("stopped_leader.py")


@contextmanager
def other_process(harness: HostedServices, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A leader in a process of its own; its words go to `said`."""
    paths = (str(directory / "deciding"), str(directory / "go-on"))
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[2])}
    argv = (sys.executable, str(SCRIPT), harness.settings.model_dump_json(), *paths)
    with (directory / "said").open("wb") as said:
        process = subprocess.Popen(argv, stderr=said, env=environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait(10)


async def test_a_leader_stopped_in_mid_decision_is_refused_after_the_take_over(
    harness: HostedServices, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    with other_process(harness, tmp_path) as process:
        await harness.join("slow")
        await until((tmp_path / "deciding").exists)
        process.send_signal(signal.SIGSTOP)
        heir = (await harness.host(scheduler())).shells[0]
        await until(lambda: heir.leading and heir.core.released == {"slow"})  # type: ignore[attr-defined]
        (tmp_path / "go-on").touch()
        process.send_signal(signal.SIGCONT)
        await until(lambda: b"append not stored" in said.read_bytes())
        await until(lambda: b"steps down" in said.read_bytes())
        process.send_signal(signal.SIGTERM)
        await until(lambda: process.poll() is not None)
        assert process.returncode == 0
    assert b"wrong last sequence" in said.read_bytes()
    assert [fact.subject_id for fact in await harness.facts("released")] == ["slow"]
    assert heir.leading
    assert isinstance(heir.core, Releasing)
