"""Run processes of one machine in their own process groups; none outlives its agent.

A program gets SIGTERM, and after its grace SIGKILL, with its whole group. It has ended when its own process has, even
if others still hold its output; the rest of its group is killed then. The kernel kills it when the agent dies (Linux),
so an attempt never runs beside its successor. A program has a command, variables and a folder. Variables from secrets
are read from files that only their owner may read, so that their values are in no fact.
"""

import asyncio
import ctypes
import logging
import os
import signal
import stat
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from muster.agent.core.local.attempt import Key, Order, StartProcess, StopProcess
from muster.schemas.job import SecretVariable, Slot

PROCESSES_MAX = 1_024
CHUNK_BYTES = 16 * 1024
DRAIN_S = 2.0
"""To read remaining output after the end of a program; a process outside its group may keep the output open."""
NOT_STARTED = 127  # exit code of shells for a missing command
SIGNALLED = 128
_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_logger = logging.getLogger(__name__)

Began = Callable[[StartProcess], None]
Exited = Callable[[Key, Slot, int, str], None]
Said = Callable[[StartProcess, bytes], Awaitable[None]]


PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH")
"""Variables of the agent that programs get. No others: they may hold credentials."""
CHECKPOINT_FILE = "checkpoint"


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run; `argv` is empty if the job has no command."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    output: Path
    """File for its output."""
    workdir: Path
    """Working directory of its command."""


def checkpoint_file(directory: Path, job_id: str) -> Path:
    """Return the file that a job writes or touches when it saved its work; the same for all attempts."""
    return directory / job_id / CHECKPOINT_FILE


def program_of(
    order: StartProcess, *, directory: Path, environment: Mapping[str, str], secrets: Mapping[str, str] | None = None
) -> Program:
    """Return the program of one slot; `secrets` are the job's variables from files."""
    job_id, attempt = order.key
    slot, group = order.slot, order.spec.task_groups[order.slot.group]
    folder = directory / job_id / str(attempt)
    told = {
        "MUSTER_JOB": job_id,
        "MUSTER_ATTEMPT": str(attempt),
        "MUSTER_GROUP": group.name,
        "MUSTER_REPLICA": str(slot.replica),
        "MUSTER_NODE": slot.node,
        "MUSTER_CHECKPOINT": str(checkpoint_file(directory, job_id)),
        "MUSTER_RESUMED_S": f"{order.resumed_s:.0f}",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, slot.devices or slot.places)),
    }
    kept = {name: environment[name] for name in PASSED_ON if name in environment}
    output = folder / f"{group.name}-{slot.replica}.log"
    own = {**order.spec.pod.env, **(secrets or {})}
    argv = group.command or order.spec.command
    return Program(argv, {**kept, **own, **told}, folder, output, Path(order.spec.workdir or folder))


BYTES_MAX = 65_536
"""Size of one secret file."""
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SecretFileError(Exception):
    """A secret file that a job names cannot be used. The message never contains its content."""


def read_secrets(asked: Sequence[SecretVariable], *, directory: Path | None, team: str) -> Mapping[str, str]:
    """Return the variables, each read from `directory`/team/secret/key. Raises SecretFileError.

    Jobs can only use files of their own team. One line break at the end of a file is dropped.
    """
    return {one.variable: _read(one, directory=directory, team=team) for one in asked}


def _read(one: SecretVariable, *, directory: Path | None, team: str) -> str:
    named = f"pod.secret_env: {one.variable} from secret {one.secret!r}, key {one.key!r}"
    if directory is None:
        raise SecretFileError(f"{named}: this cluster has no secrets; set local.secrets to a directory")
    parts = (team, one.secret, one.key)
    if any(part in (".", "..") or "/" in part or "\0" in part for part in parts):
        raise SecretFileError(f"{named}: must be file names without a slash")
    path = directory.joinpath(*parts)
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as file:
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _FOR_OTHERS:
                raise SecretFileError(f"{named}: {path} must be a file of the agent's user, readable by no other")
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise SecretFileError(f"{named}: {path} cannot be read: {error.strerror}") from error
    if len(content) > BYTES_MAX or b"\0" in content:
        raise SecretFileError(f"{named}: {path} must have at most {BYTES_MAX} bytes and no zero byte")
    return os.fsdecode(content.removesuffix(b"\n"))


@dataclass
class _Running:
    order: StartProcess
    task: asyncio.Task[None] | None = None
    process: asyncio.subprocess.Process | None = None
    killing: asyncio.TimerHandle | None = None
    stopped_by: int = 0


@dataclass
class Processes:
    """Runs programs under `directory` and reports them to `began`, `exited` and `said`; see `LocalSettings`."""

    directory: Path
    environment: Mapping[str, str]
    began: Began
    exited: Exited
    said: Said
    secrets: Path | None = None
    _running: dict[tuple[Key, Slot], _Running] = field(default_factory=dict)

    @property
    def orders(self) -> tuple[StartProcess, ...]:
        """Return the orders of the running programs."""
        return tuple(one.order for one in self._running.values())

    def work(self, order: Order) -> None:
        """Begin to carry out an order; never blocks."""
        match order:
            case StartProcess():
                self._start(order)
            case StopProcess():
                self._stop(order)

    async def close(self) -> None:
        """Kill all programs and wait for their end, without reporting it."""
        tasks = [one.task for one in self._running.values() if one.task is not None]
        for one in self._running.values():
            _signal(one, signal.SIGKILL)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._running.clear()

    def _start(self, order: StartProcess) -> None:
        if len(self._running) >= PROCESSES_MAX:
            self.exited(order.key, order.slot, NOT_STARTED, f"{PROCESSES_MAX} programs are running, which is the limit")
            return
        running = self._running[order.key, order.slot] = _Running(order)
        name = f"program of {order.key[0]}"
        running.task = asyncio.create_task(self._live(running), name=name)

    def _stop(self, order: StopProcess) -> None:
        running = self._running.get((order.key, order.slot))
        if running is None:
            return
        running.stopped_by = signal.SIGTERM if order.grace_s else signal.SIGKILL
        _signal(running, running.stopped_by)
        if order.grace_s and running.killing is None:
            loop = asyncio.get_running_loop()
            running.killing = loop.call_later(order.grace_s, _signal, running, signal.SIGKILL)

    async def _live(self, running: _Running) -> None:
        """Run one program from start to end."""
        order = running.order
        code, words = NOT_STARTED, "the job has no command"
        argv = order.spec.task_groups[order.slot.group].command or order.spec.command
        try:
            named, team = order.spec.pod.secret_env, order.spec.team
            secrets = read_secrets(named, directory=self.secrets, team=team)
            program = program_of(order, directory=self.directory, environment=self.environment, secrets=secrets)
            if program.argv:
                code, words = await self._run(running, program)
        except SecretFileError as error:
            words = str(error)
        except OSError as error:
            where = f" in {order.spec.workdir}" if order.spec.workdir else ""
            words = f"{argv[0]} cannot be started{where}: {error.strerror}"
        finally:
            if running.killing is not None:
                running.killing.cancel()
            self._running.pop((order.key, order.slot), None)
        self.exited(order.key, order.slot, code, words)

    async def _run(self, running: _Running, program: Program) -> tuple[int, str]:
        program.folder.mkdir(parents=True, exist_ok=True)
        if running.stopped_by:  # stopped before it began
            return SIGNALLED + running.stopped_by, ""
        output, printed = await _pipe()
        try:
            try:
                process = running.process = await _spawn(program, stdout=printed)
            finally:
                os.close(printed)  # the program has its own copy
            copying = asyncio.create_task(self._copy(running.order, output.reader, program.output))
            copying.add_done_callback(lambda done: _end_if_failed(running, done))
            try:
                if running.stopped_by:
                    _signal(running, running.stopped_by)
                self.began(running.order)
                code = await process.wait()
            finally:
                _signal(running, signal.SIGKILL)  # the rest of its group
                await _settle(copying)
        finally:
            output.transport.close()
        return (code if code >= 0 else SIGNALLED - code), ""

    async def _copy(self, order: StartProcess, output: asyncio.StreamReader, path: Path) -> None:
        rest = b""  # the start of a line, reported with its end: readers take a report for whole lines
        with path.open("ab", buffering=0) as file:
            while data := await output.read(CHUNK_BYTES):
                file.write(data)
                rest += data
                size = rest.rfind(b"\n") + 1 or (len(rest) if len(rest) >= CHUNK_BYTES else 0)
                if size:
                    await self.said(order, rest[:size])
                    rest = rest[size:]
        if rest:
            await self.said(order, rest)


@dataclass(frozen=True, slots=True)
class _Output:
    reader: asyncio.StreamReader
    transport: asyncio.ReadTransport


async def _pipe() -> tuple[_Output, int]:
    """Return the reading and writing end of a pipe for output.

    With its own pipe asyncio waits until all holders close it (gh-119710, until Python 3.12.4).
    """
    reading, writing = os.pipe()
    reader = asyncio.StreamReader(limit=CHUNK_BYTES)
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0)
        )
    except BaseException:
        os.close(writing)
        raise
    return _Output(reader, transport), writing


async def _spawn(program: Program, *, stdout: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *program.argv,
        cwd=program.workdir,
        env=dict(program.environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_die_with_agent,
    )


def _end_if_failed(running: _Running, copying: asyncio.Task[None]) -> None:
    """Kill a program whose output copy failed: it would block once the pipe is full."""
    if not copying.cancelled() and copying.exception() is not None:
        _signal(running, signal.SIGKILL)


async def _settle(copying: asyncio.Task[None]) -> None:
    """Wait until all output is read, at most DRAIN_S. Raises the copy's error."""
    await asyncio.wait({copying}, timeout=DRAIN_S)
    if not copying.done():
        copying.cancel()
        await asyncio.wait({copying})
    if not copying.cancelled():
        copying.result()


def _signal(running: _Running, number: int) -> None:
    if running.process is not None:
        with suppress(ProcessLookupError, PermissionError):  # its whole group has ended
            os.killpg(running.process.pid, number)


def _die_with_agent() -> None:
    """Have the kernel kill the new child when the agent dies; runs before its program."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
