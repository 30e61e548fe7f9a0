"""Programs with a time limit: a hung tool is ended with all that it started, and one that cannot be ended is left.

A process in an uninterruptible call (a wedged driver, a dead file server) survives SIGKILL; whoever waits for it hangs
as it does. So it is waited for a moment, and then left behind, which is told.
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
"""Of what a program prints; the beginning and what is beyond is dropped."""
KILLED_S = 2.0
"""How long a program that was killed may take to go."""


@dataclass(frozen=True, slots=True)
class Ran:
    """code: None if it was not there, or did not end in time: `why` says which. text: stdout, then stderr."""

    code: int | None
    text: str = ""
    why: str = ""


class Run(Protocol):
    """Runs a program."""

    def __call__(self, command: Sequence[str], *, limit_s: float, env: Mapping[str, str] | None = None) -> Ran:
        """env: beside this process's own."""
        ...


def run(command: Sequence[str], *, limit_s: float, env: Mapping[str, str] | None = None) -> Ran:
    """Implements `Run`. Raises nothing that a program can bring about."""
    with tempfile.TemporaryFile() as output:  # a pipe would be kept open by whatever outlives the program
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
    """Kill it and all that it started. Returns what has to be said of it."""
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
