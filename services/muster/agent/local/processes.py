"""Processes of one machine: started in groups of their own, told to end, then ended, and none outlives its agent.

A program gets SIGTERM, and SIGKILL when its grace is over, and with it whatever it started in its group. It has ended
when its own process has, whoever else still holds its output: what it left behind in its group is ended then. The
kernel ends it when the agent is gone (Linux), so an attempt that nobody looks after never runs on beside its next one.

A program has its command, its variables and its place on disk. Variables that the job names are read from files that
only their owner may read, so that their values are in no fact.
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
"""For what a program has printed and nobody has read when it ends; who went out of its group may hold its output on."""
NOT_STARTED = 127  # as shells say that a command is not there
SIGNALLED = 128
_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_logger = logging.getLogger(__name__)

Began = Callable[[StartProcess], None]
Exited = Callable[[Key, Slot, int, str], None]
Said = Callable[[StartProcess, bytes], Awaitable[None]]


PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH")
"""Variables of the agent that programs get as well. Never the rest: credentials may be among them."""
CHECKPOINT_FILE = "checkpoint"


@dataclass(frozen=True, slots=True)
class Program:
    """argv: empty if the job has no command. folder: of the attempt. output: file of what it prints."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    output: Path


def checkpoint_file(directory: Path, job_id: str) -> Path:
    """What a job writes, or touches, when it saved its work; the same for all its attempts."""
    return directory / job_id / CHECKPOINT_FILE


def program_of(
    order: StartProcess, *, directory: Path, environment: Mapping[str, str], secrets: Mapping[str, str] | None = None
) -> Program:
    """The program of one slot. secrets: variables of the job from files."""
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
    return Program(group.command or order.spec.command, {**kept, **own, **told}, folder, output)


BYTES_MAX = 65_536
"""Of one file: more is no key."""
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SecretFileError(Exception):
    """A file that a job names cannot be used. Its content is never told."""


def read_secrets(asked: Sequence[SecretVariable], *, directory: Path | None, team: str) -> Mapping[str, str]:
    """The variables, each from `directory`/team/secret/key. Raises SecretFileError.

    A team's jobs can name the files of their own team alone. One line break at the end of a file is left out.
    """
    return {one.variable: _read(one, directory=directory, team=team) for one in asked}


def _read(one: SecretVariable, *, directory: Path | None, team: str) -> str:
    named = f"pod.secret_env: {one.variable} from secret {one.secret!r}, key {one.key!r}"
    if directory is None:
        raise SecretFileError(f"{named}: this cluster has no secrets; set local.secrets to a directory")
    parts = (team, one.secret, one.key)
    if any(part in (".", "..") or "/" in part or "\0" in part for part in parts):
        raise SecretFileError(f"{named}: a name of a file is wanted, without a slash")
    path = directory.joinpath(*parts)
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as file:
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _FOR_OTHERS:
                raise SecretFileError(f"{named}: {path} must be a file of the agent's user that nobody else may read")
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise SecretFileError(f"{named}: {path} cannot be read: {error.strerror}") from error
    if len(content) > BYTES_MAX or b"\0" in content:
        raise SecretFileError(f"{named}: {path} has more than {BYTES_MAX} bytes, or a zero among them")
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
    """directory: of all attempts. environment: of the agent. began, exited, said: told what becomes of programs.

    secrets: see `LocalSettings`.
    """

    directory: Path
    environment: Mapping[str, str]
    began: Began
    exited: Exited
    said: Said
    secrets: Path | None = None
    _running: dict[tuple[Key, Slot], _Running] = field(default_factory=dict)

    @property
    def orders(self) -> tuple[StartProcess, ...]:
        """Of the programs that live."""
        return tuple(one.order for one in self._running.values())

    def work(self, order: Order) -> None:
        """Begin to carry an order out; never waits."""
        match order:
            case StartProcess():
                self._start(order)
            case StopProcess():
                self._stop(order)

    async def close(self) -> None:
        """End all programs at once, and wait until they are gone. Nobody is told."""
        tasks = [one.task for one in self._running.values() if one.task is not None]
        for one in self._running.values():
            _signal(one, signal.SIGKILL)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._running.clear()

    def _start(self, order: StartProcess) -> None:
        if len(self._running) >= PROCESSES_MAX:
            self.exited(order.key, order.slot, NOT_STARTED, f"{PROCESSES_MAX} programs run already")
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
        """One program from its start to its end."""
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
            words = f"{argv[0]} cannot be started: {error.strerror}"
        finally:
            if running.killing is not None:
                running.killing.cancel()
            self._running.pop((order.key, order.slot), None)
        self.exited(order.key, order.slot, code, words)

    async def _run(self, running: _Running, program: Program) -> tuple[int, str]:
        program.folder.mkdir(parents=True, exist_ok=True)
        if running.stopped_by:  # before it began
            return SIGNALLED + running.stopped_by, ""
        output, printed = await _pipe()
        try:
            try:
                process = running.process = await _spawn(program, stdout=printed)
            finally:
                os.close(printed)  # the program has its own
            copying = asyncio.create_task(self._copy(running.order, output.reader, program.output))
            copying.add_done_callback(lambda done: _end_if_failed(running, done))
            try:
                if running.stopped_by:
                    _signal(running, running.stopped_by)
                self.began(running.order)
                code = await process.wait()
            finally:
                _signal(running, signal.SIGKILL)  # what it left behind in its group
                await _settle(copying)
        finally:
            output.transport.close()
        return (code if code >= 0 else SIGNALLED - code), ""

    async def _copy(self, order: StartProcess, output: asyncio.StreamReader, path: Path) -> None:
        with path.open("ab", buffering=0) as file:
            while data := await output.read(CHUNK_BYTES):
                file.write(data)
                await self.said(order, data)


@dataclass(frozen=True, slots=True)
class _Output:
    reader: asyncio.StreamReader
    transport: asyncio.ReadTransport


async def _pipe() -> tuple[_Output, int]:
    """What a program prints, and where it prints it. A pipe of our own: asyncio takes a process for running as long as
    anybody holds the one that it makes (gh-119710, until Python 3.12.4).
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
        cwd=program.folder,
        env=dict(program.environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_die_with_agent,
    )


def _end_if_failed(running: _Running, copying: asyncio.Task[None]) -> None:
    """A program whose output nobody takes would stand still once the pipe is full."""
    if not copying.cancelled() and copying.exception() is not None:
        _signal(running, signal.SIGKILL)


async def _settle(copying: asyncio.Task[None]) -> None:
    """Until all is read, or DRAIN_S is over. Raises what went wrong with the copy."""
    await asyncio.wait({copying}, timeout=DRAIN_S)
    if not copying.done():
        copying.cancel()
        await asyncio.wait({copying})
    if not copying.cancelled():
        copying.result()


def _signal(running: _Running, number: int) -> None:
    if running.process is not None:
        with suppress(ProcessLookupError, PermissionError):  # its whole group has gone meanwhile
            os.killpg(running.process.pid, number)


def _die_with_agent() -> None:
    """In a new child, before its program starts."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
