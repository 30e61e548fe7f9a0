"""One child process: it dies with its parent, and its output goes to a file of bounded size."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LOG_BYTES_MAX = 16 * 1024 * 1024  # per file; one older file is kept, so twice that per child
LOG_READ_BYTES = 64 * 1024
STOP_GRACE_S = 10.0
_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Let the kernel end this process when its parent is gone (Linux); called in a new child before its program starts.

    SIGKILL, because a parent that was killed cannot wait, and children are crash-only.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class BoundedLog:
    """Appends to a file and rotates it to `<name>.1` at a size limit."""

    def __init__(self, path: Path, *, bytes_max: int = LOG_BYTES_MAX) -> None:
        self._path = path
        self._bytes_max = bytes_max
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._size = self._file.tell()

    def write(self, data: bytes) -> None:
        """Append; rotate the file first if it would grow too large."""
        if self._size and self._size + len(data) > self._bytes_max:
            self._file.close()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._file = self._path.open("ab", buffering=0)
            self._size = 0
        self._file.write(data)
        self._size += len(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(frozen=True, slots=True)
class Command:
    """A command line. environment: added to the parent's own."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


class ChildProcess:
    """A started child: its output is copied to its log until it ends."""

    def __init__(self, process: asyncio.subprocess.Process, copying: asyncio.Task[None]) -> None:
        self._process = process
        self._copying = copying

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Return the exit status, None while the process runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Return the exit status (negative: the signal that ended it), after its output was written."""
        status = await self._process.wait()
        await self._copying
        return status

    async def stop(self, *, grace_s: float = STOP_GRACE_S) -> int:
        """Send SIGTERM, then SIGKILL after `grace_s`; return the exit status. Safe to call at any time."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it ended before the signal was sent
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), grace_s)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
        return await self.wait()


async def start_child(command: Command, log: Path) -> ChildProcess:
    """Start a child in its own process group, so that a terminal's Ctrl-C reaches the supervisor only.

    Raises OSError if the program cannot be run.
    """
    process = await asyncio.create_subprocess_exec(
        *command.argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **command.environment},
        preexec_fn=die_with_parent,
        process_group=0,
    )
    assert process.stdout is not None
    return ChildProcess(process, asyncio.create_task(_copy(process.stdout, log)))


async def _copy(output: asyncio.StreamReader, path: Path) -> None:
    log = BoundedLog(path)
    try:
        while data := await output.read(LOG_READ_BYTES):
            log.write(data)
    finally:
        log.close()


def tail(path: Path, *, lines: int = 20) -> Sequence[str]:
    """Return the last lines of a log, for an error message; none if there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16 * 1024))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return ()
