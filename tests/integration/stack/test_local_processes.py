"""A whole stack whose jobs are processes of this machine: the worked example of an adapter, with real programs."""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from kit.stack.living import TEAM, Harness, job, open_harness, options
from kit.waiting import until, until_async
from muster.client import UnreachableError
from muster.schemas.job import Checkpointing, JobSpec, Phase

pytestmark = [pytest.mark.connected, pytest.mark.asyncio(loop_scope="module")]

BETWEEN = "trap 'exit 0' USR1; while true; do sleep 0.05; done"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    """Two nodes, whose jobs are processes of this machine."""
    directory = Path(tmp_path_factory.mktemp("harness"))
    asked = options(directory / "state", nodes=2)
    local = {"directory": str(directory / "jobs"), "checkpoint_poll_s": 0.1}
    async with open_harness(asked.model_copy(update={"settings": {**asked.settings, "local": local}})) as running:
        yield running


def program(name: str, *words: str, **fields: object) -> JobSpec:
    return job(name, command=("sh", "-c", *words), **fields)


def printed(harness: Harness, job_id: str, *, attempt: int = 1) -> str:
    assert harness.settings.local is not None
    return (harness.settings.local.directory / job_id / str(attempt) / "main-0.log").read_text()


async def answers(harness: Harness) -> bool:
    try:
        await harness.muster.queues()
    except UnreachableError:
        return False
    return True


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_programs_run_and_end_as_they_say(harness: Harness) -> None:
    good = await harness.muster.submit(program("good", "echo $MUSTER_NODE $CUDA_VISIBLE_DEVICES", gpus=2))
    bad = await harness.muster.submit(program("bad", "exit 3"))
    strange = await harness.muster.submit(job("strange", command=("no-such-program",)))
    ended = await harness.ended([good.id, bad.id, strange.id])
    assert [(view.phase, view.exit_code) for view in ended] == [
        (Phase.SUCCEEDED, 0),
        (Phase.FAILED, 3),
        (Phase.FAILED, 127),
    ]
    assert printed(harness, good.id) == f"{ended[0].nodes[0]} 0,1\n"
    assert await harness.violations([good.id, bad.id, strange.id]) == []


async def test_a_program_is_told_to_end_saves_its_work_and_ends_and_nothing_of_it_stays(harness: Harness) -> None:
    saves = "trap 'touch $MUSTER_CHECKPOINT; exit 143' TERM; sleep 300 & echo $!; while true; do sleep 0.05; done"
    often = Checkpointing(interval_s=60.0).model_dump()
    spec = program("saves", saves, checkpointing=often, grace_s=10.0, total_run_time_s=1.0)
    running = await harness.muster.submit(spec)
    (ended,) = await harness.ended([running.id])
    assert ended.phase is Phase.TIMED_OUT
    child = int(printed(harness, running.id).splitlines()[0])
    assert any(fact.name == "checkpointed" for fact in await harness.facts() if fact.subject_id == running.id)
    await until(lambda: not lives(child))


async def test_a_gang_ends_with_the_first_of_its_programs_that_fails(harness: Harness) -> None:
    gang = program("gang", f"test $MUSTER_REPLICA = 0 || exit 5; {BETWEEN}", replicas=3)
    (ended,) = await harness.ended([(await harness.muster.submit(gang)).id])
    assert (ended.phase, ended.exit_code) == (Phase.FAILED, 5)


async def test_what_ran_is_run_anew_when_its_agent_was_killed(harness: Harness) -> None:
    spec = program("anew", f"test $MUSTER_ATTEMPT = 1 || exit 0; echo $$; {BETWEEN}")
    running = await harness.muster.submit(spec)
    await harness.job_that(running.id, lambda view: view.phase is Phase.RUNNING)
    await until(lambda: printed(harness, running.id))
    first = int(printed(harness, running.id))
    assert lives(first)
    await harness.kill("all")
    await until_async(lambda: answers(harness))
    (ended,) = await harness.ended([running.id])
    assert (ended.phase, ended.attempt) == (Phase.SUCCEEDED, 2)
    assert not lives(first)
    assert await harness.violations([running.id]) == []


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@asynccontextmanager
async def started(harness: Harness, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A `muster` command as a user gives it, in a process of its own."""
    before, behind = words, ()
    if "--" in words:
        before, behind = words[: words.index("--")], words[words.index("--") :]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "muster.cli.main", *before, "--state-dir", str(harness.settings.state_dir), *behind,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ended(process: asyncio.subprocess.Process) -> Ended:
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def muster(harness: Harness, *words: str) -> Ended:
    async with started(harness, *words) as process:
        return await ended(process)


OF_TEAM = ("--team", TEAM, "--name", "run")


async def test_run_prints_what_the_program_prints_and_ends_with_its_exit_code(harness: Harness) -> None:
    script = "for i in $(seq 3000); do echo line $i; done; printf 'a\\033[31mred'; exit 7"
    found = await muster(harness, "run", *OF_TEAM, "--gpus", "1", "--env", "X=1", "--", "sh", "-c", script)
    assert found.code == 7
    lines = found.out.splitlines()
    assert lines[:3000] == [f"line {number}" for number in range(1, 3001)]
    assert lines[3000:] == ["a\\x1b[31mred"], "control characters of a job reach no terminal"
    assert "failed with exit code 7" in found.err


async def test_run_writes_the_output_to_a_file_and_starts_in_the_working_directory(
    harness: Harness, tmp_path: Path
) -> None:
    told = tmp_path / "out.txt"
    found = await muster(harness, "run", *OF_TEAM, "--workdir", str(tmp_path), "--output", str(told), "--", "pwd")
    assert (found.code, found.out, told.read_text()) == (0, "", f"{tmp_path}\n")


async def test_ctrl_c_cancels_the_job_of_a_run(harness: Harness) -> None:
    async with started(harness, "run", *OF_TEAM, "--", "sh", "-c", f"echo up; {BETWEEN}") as process:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGINT)
        found = await ended(process)
    assert found.code == 130
    (newest,) = await harness.muster.list(limit=1)
    assert newest.phase is Phase.CANCELLED, found.err


async def test_logs_are_those_of_the_wanted_replica_and_attempt(harness: Harness) -> None:
    script = "echo $MUSTER_ATTEMPT of $MUSTER_REPLICA; test $MUSTER_ATTEMPT = 2"
    twice = program("twice", script, replicas=2, retries=1)
    job_id = (await harness.muster.submit(twice)).id
    (view,) = await harness.ended([job_id])
    assert view.phase is Phase.SUCCEEDED, view
    assert set((await muster(harness, "logs", job_id)).out.splitlines()) >= {"0: 2 of 0", "1: 2 of 1"}
    assert (await muster(harness, "logs", job_id, "--replica", "1", "--attempt", "2")).out == "2 of 1\n"
    assert "2 of" not in (await muster(harness, "logs", job_id, "--previous")).out
    newest = await muster(harness, "logs", job_id, "--follow", "--tail", "1", "--replica", "0", "--timestamps")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z 2 of 0\n", newest.out)


async def test_wait_ends_when_jobs_run_or_have_ended(harness: Harness) -> None:
    running = await harness.muster.submit(program("runs", BETWEEN))
    assert (await muster(harness, "wait", running.id, "--for", "running")).code == 0
    late = await muster(harness, "wait", running.id, "--timeout", "0.1s")
    assert (late.code, "--timeout" in late.err) == (1, True)
    await harness.muster.cancel(running.id)
    assert (await muster(harness, "wait", running.id)).code == 1


async def test_a_job_that_is_no_pod_cannot_be_entered(harness: Harness) -> None:
    running = await harness.muster.submit(program("plain", BETWEEN))
    await harness.job_that(running.id, lambda view: view.phase is Phase.RUNNING)
    found = await muster(harness, "exec", running.id, "--", "true")
    assert (found.code, found.out) == (3, "")
    assert "is not a Kubernetes cluster" in found.err
    await harness.muster.cancel(running.id)
