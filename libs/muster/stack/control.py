"""Control of a stack from another process: start in the background, stop, status."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from muster.schemas.access import Endpoints
from muster.stack.options import READY_FD, StartOptions
from muster.stack.process import tail
from muster.stack.state_dir import Holder, StateDir, StateDirLockedError, holder_of

DETACH_S_MAX = 120.0
STOP_S_MAX = 45.0
POLL_S = 0.05
SUPERVISOR_LOG = "supervisor.log"


class StartFailedError(Exception):
    """The stack in the background did not start; the message names the reason."""


class StopTimeoutError(Exception):
    """The stack was asked to stop and still runs."""


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process of a stack."""

    name: str
    pid: int
    rss_mib: float
    """Memory in use."""
    cpu_s: float = 0.0
    """Processor time since the start of the process."""


@dataclass(frozen=True, slots=True)
class StackStatus:
    """State of the stack of a state directory."""

    holder: Holder | None
    """The supervisor, None if no stack runs."""
    endpoints: Endpoints | None
    """Where the stack listens, or listened last; None if it never ran."""
    processes: tuple[ProcessStatus, ...]
    """The supervisor and its children."""

    @property
    def running(self) -> bool:
        """Return whether a stack uses the directory now."""
        return self.holder is not None


@dataclass(frozen=True, slots=True)
class Stopped:
    """Result of `down`. holder: the supervisor that was stopped, None if no stack ran."""

    holder: Holder | None


def status(state_dir: Path) -> StackStatus:
    """Return the state of a stack. Raises StateDirLockedError if the lock's holder has not written its name."""
    state = StateDir(state_dir)
    holder = holder_of(state)
    endpoints = None
    with contextlib.suppress(FileNotFoundError):
        endpoints = Endpoints.model_validate_json(state.endpoints.read_bytes())
    if holder is None:
        return StackStatus(None, endpoints, ())
    pids = {"supervisor": holder.pid}
    for path in sorted(state.run.glob("*.pid")):
        with contextlib.suppress(FileNotFoundError, ValueError):  # it is ending or starting
            pids[path.stem] = int(path.read_text())
    found = (_process(name, pid) for name, pid in pids.items())
    return StackStatus(holder, endpoints, tuple(process for process in found if process is not None))


def _process(name: str, pid: int) -> ProcessStatus | None:
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return ProcessStatus(name, pid, process.memory_info().rss / 2**20, times.user + times.system)
    except psutil.NoSuchProcess:
        return None


def down(state_dir: Path, *, timeout_s: float = STOP_S_MAX) -> Stopped:
    """Stop the stack of this state directory and wait until it has ended. Does nothing if no stack runs.

    Raises StopTimeoutError; StateDirLockedError if the lock's holder has not written its name.
    """
    state = StateDir(state_dir)
    holder = holder_of(state)
    if holder is None:
        return Stopped(None)
    with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
        os.kill(holder.pid, signal.SIGTERM)
    end_s = time.monotonic() + timeout_s
    while _is_held(state):
        if time.monotonic() > end_s:
            raise StopTimeoutError(f"process {holder.pid} still holds {state.path} after {timeout_s:g} s")
        time.sleep(POLL_S)
    return Stopped(holder)


def _is_held(state: StateDir) -> bool:
    try:
        return holder_of(state) is not None
    except StateDirLockedError:  # its name is already removed, but the lock is still held
        return True


def detach(options: StartOptions, *, timeout_s: float = DETACH_S_MAX) -> StackStatus:
    """Start a stack in the background; return when it is ready.

    Raises StateDirError (foreign, or in use: the message names the holder) and StartFailedError.
    """
    state = StateDir(options.state_dir)
    state.prepare()
    if (holder := holder_of(state)) is not None:
        raise StateDirLockedError(state.path, holder)
    ready, told = os.pipe()
    log_path = state.logs / SUPERVISOR_LOG
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            (sys.executable, "-m", "muster.stack"), stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=(told,),
            start_new_session=True, env={**os.environ, READY_FD: str(told)},
        )  # fmt: skip
    assert process.stdin is not None
    with process.stdin as words_in:
        words_in.write(options.model_dump_json().encode())
    os.close(told)
    with os.fdopen(ready, "rb") as answers:
        if not select.select([answers], [], [], timeout_s)[0]:
            process.terminate()
            raise StartFailedError(f"not ready after {timeout_s:g} s, the start was canceled; see {state.logs}")
        answer = answers.read()
    if not answer:
        words = "\n".join(tail(log_path))
        raise StartFailedError(f"the background process ended without a message; the end of {log_path}:\n{words}")
    if error := json.loads(answer)["error"]:
        process.wait(timeout=STOP_S_MAX)  # it reports failure only after it has stopped its children
        raise StartFailedError(error)
    return status(options.state_dir)
