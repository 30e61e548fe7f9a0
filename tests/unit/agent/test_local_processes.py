"""Programs of the local adapter: when they have ended, and what becomes of what they leave behind."""

import errno
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kit.waiting import until
from muster.agent.core.local.attempt import Key, StartProcess
from muster.agent.local import processes
from muster.agent.local.processes import NOT_STARTED, SIGNALLED, Processes
from muster.core import Instant
from muster.schemas.job import JobSpec, PodOptions, SecretVariable, Slot, TaskGroup

JOB = "J" * 26
SOON_S = 10.0
"""A loaded machine has started and ended a shell by then; what these programs leave behind lasts far longer."""


@dataclass
class Ends:
    """What is told of programs."""

    codes: list[tuple[int, str]] = field(default_factory=list)
    printed: bytes = b""
    refuses: bool = False

    def exited(self, _key: Key, _slot: Slot, code: int, words: str) -> None:
        self.codes.append((code, words))

    async def said(self, _order: StartProcess, data: bytes) -> None:
        if self.refuses:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.printed += data


async def run(
    script: str,
    directory: Path,
    ends: Ends,
    *,
    pod: PodOptions | None = None,
    secrets: Path | None = None,
    workdir: str = "",
) -> None:
    """A shell runs the script until it has ended."""
    spec = JobSpec(
        name="x",
        team="t",
        command=("sh", "-c", script),
        task_groups=(TaskGroup(gpus=0),),
        pod=pod or PodOptions(),
        workdir=workdir,
    )
    slot = Slot(group=0, replica=0, node="n0")
    own = Processes(directory, dict(os.environ), lambda _: None, ends.exited, ends.said, secrets=secrets)
    own.work(StartProcess(key=(JOB, 1), slot=slot, spec=spec, at=Instant(1)))
    try:
        await until(lambda: ends.codes, patience_s=SOON_S)
    finally:
        await own.close()


def is_there(pid: int) -> bool:
    """Not as a zombie, of which nothing runs."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    return False


async def test_a_program_has_ended_though_what_it_left_behind_holds_its_output(tmp_path: Path) -> None:
    ends = Ends()
    await run("sleep 600 & echo $!; exit 3", tmp_path, ends)
    assert ends.codes == [(3, "")]
    left_behind = int(ends.printed)
    await until(lambda: not is_there(left_behind), patience_s=SOON_S)


async def test_who_went_out_of_its_group_holds_the_end_up_for_a_moment_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "DRAIN_S", 0.1)
    ends = Ends()
    try:
        await run("setsid sleep 600 & echo $!; sleep 0.2; exit 0", tmp_path, ends)
        assert ends.codes == [(0, "")]
        assert is_there(int(ends.printed))
    finally:
        with suppress(ProcessLookupError, ValueError):
            os.kill(int(ends.printed), signal.SIGKILL)


async def test_all_that_it_printed_is_kept(tmp_path: Path) -> None:
    ends = Ends()
    await run("head -c 300000 /dev/zero; kill -9 $$", tmp_path, ends)
    assert ends.codes == [(SIGNALLED + signal.SIGKILL, "")]
    (log,) = (tmp_path / JOB / "1").glob("*.log")
    assert (len(ends.printed), log.stat().st_size) == (300_000, 300_000)


async def test_a_program_starts_in_its_working_directory(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    ends = Ends()
    await run("pwd", tmp_path / "jobs", ends, workdir=str(there))
    assert (ends.codes, ends.printed.decode().strip()) == ([(0, "")], str(there.resolve()))


async def test_a_working_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    ends = Ends()
    await run("pwd", tmp_path, ends, workdir="/no/such/place")
    assert ends.codes == [(NOT_STARTED, "sh cannot be started in /no/such/place: No such file or directory")]


async def test_a_program_whose_output_cannot_be_kept_is_ended(tmp_path: Path) -> None:
    ends = Ends(refuses=True)
    await run("echo hello; sleep 600", tmp_path, ends)
    ((_, words),) = ends.codes
    assert words.endswith("No space left on device")


async def test_nothing_of_a_pipe_stays_open(tmp_path: Path) -> None:
    before = open_files()
    for _ in range(3):
        await run("echo hello", tmp_path, Ends())
    await until(lambda: open_files() <= before, patience_s=SOON_S)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_variables_of_a_job_come_from_its_specification_and_from_files(tmp_path: Path) -> None:
    secret = tmp_path / "secrets" / "t" / "hub" / "token"
    secret.parent.mkdir(parents=True)
    secret.write_text("from-file")
    secret.chmod(0o600)
    named = SecretVariable(variable="TOKEN", secret="hub", key="token")
    pod = PodOptions(env={"EPOCHS": "3", "MUSTER_JOB": "mine"}, secret_env=(named,))
    ends = Ends()
    script = 'test "$MUSTER_JOB" != mine && test "$EPOCHS" = 3 && test "$TOKEN" = from-file'
    await run(script, tmp_path, ends, pod=pod, secrets=tmp_path / "secrets")
    assert ends.codes == [(0, "")]


async def test_a_job_that_names_a_file_that_is_not_there_does_not_start(tmp_path: Path) -> None:
    pod = PodOptions(secret_env=(SecretVariable(variable="TOKEN", secret="hub", key="token"),))
    ends = Ends()
    await run("exit 0", tmp_path, ends, pod=pod, secrets=tmp_path)
    ((code, words),) = ends.codes
    assert (code, "cannot be read" in words) == (NOT_STARTED, True)
