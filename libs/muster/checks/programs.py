"""Run programs with a time limit: a hung program is killed with all its children, or left behind.

A process in an uninterruptible call (a hung driver, a dead file server) survives SIGKILL, and waiting for it would
hang, too. So it is waited for briefly, then left behind and reported.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

OUTPUT_BYTES_MAX = 4 * 1024 * 1024
"""Maximum output of a program that is kept; earlier output is dropped."""
KILLED_S = 2.0
"""Time to wait for the end of a killed program, in seconds."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a program. code: None if it was not found or timed out; `why` gives the reason. text: stdout and
    stderr."""

    code: int | None
    text: str = ""
    why: str = ""


class Run(Protocol):
    """Runs a program."""

    def __call__(self, command: Sequence[str], *, limit_s: float, env: Mapping[str, str] | None = None) -> Ran:
        """Run a program. env: in addition to this process's own."""
        ...


def run(command: Sequence[str], *, limit_s: float, env: Mapping[str, str] | None = None) -> Ran:
    """Implements `Run`. No behavior of the program raises an exception."""
    with tempfile.TemporaryFile() as output:  # a process that outlives the program would keep a pipe open
        try:
            process = subprocess.Popen(  # noqa: S603 - the commands are the platform's and the suite's
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return Ran(None, why=f"{command[0] if command else 'no program'}: {reason}")
        try:
            code: int | None = process.wait(limit_s)
            why = ""
        except subprocess.TimeoutExpired:
            code, why = None, f"not done within {limit_s:g} s{_end(process)}"
        return Ran(code, _printed(output.fileno()), why)


def _end(process: "subprocess.Popen[bytes]") -> str:
    """Kill the program and its children. Return what has to be reported about it."""
    with contextlib.suppress(ProcessLookupError):  # it ended just now
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(KILLED_S)
    except subprocess.TimeoutExpired:
        return ", and it cannot be killed"
    return ""


def _printed(file: int) -> str:
    size = os.fstat(file).st_size
    return os.pread(file, OUTPUT_BYTES_MAX, max(0, size - OUTPUT_BYTES_MAX)).decode(errors="replace")
