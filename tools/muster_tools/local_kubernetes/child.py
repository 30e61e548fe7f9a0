"""One process of a control plane: started, watched until it is ready, stopped, killed, and started again.

Nothing here belongs to an event loop, so a plane that one loop started can be worked with from another.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from muster_tools.local_kubernetes import bounds
from muster_tools.local_kubernetes.errors import NotReadyError, PortTakenError

_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_TAIL_BYTES = 8 * 1024
_TAIL_LINES = 15
_TAKEN = "address already in use"


@dataclass(frozen=True, slots=True)
class Command:
    """Command line of a process. environment: added to this process's own."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources of a process. rss_mib: memory now. cpu_s: processor time since it started."""

    rss_mib: float
    cpu_s: float


def usage_of(pid: int) -> Usage:
    """Return the current resources of a process. Raises psutil.NoSuchProcess."""
    process = psutil.Process(pid)
    times = process.cpu_times()
    return Usage(process.memory_info().rss / 2**20, times.user + times.system)


def _die_with_parent() -> None:
    """In the new child, before its program starts: the kernel ends it when this process is gone (Linux)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Child:
    """A process with a log file of its own, and a way to ask whether it is ready."""

    def __init__(self, command: Command, log: Path, is_ready: Callable[[], Awaitable[bool]]) -> None:
        self.command = command
        self.log = log
        self._is_ready = is_ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """Return the process's name within the plane."""
        return self.command.name

    @property
    def pid(self) -> int | None:
        """Return the process id; None while it does not run."""
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    def usage(self) -> Usage | None:
        """Return the current resources; None while it does not run."""
        if (pid := self.pid) is None:
            return None
        try:
            return usage_of(pid)
        except psutil.NoSuchProcess:
            return None

    def launch(self) -> None:
        """Start without waiting; nothing is done where it runs. Raises OSError."""
        if self.pid is not None:
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments, no shell
                self.command.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.command.environment},
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one prctl call, safe after a fork
                process_group=0,
            )

    async def ready(self) -> None:
        """Wait until it says that it is. Raises PortTakenError, NotReadyError."""
        end_s = time.monotonic() + bounds.READY_S_MAX
        while not await self._is_ready():
            if self.pid is None:
                words = self._last_words()
                failure = PortTakenError if _TAKEN in words else NotReadyError
                raise failure(f"{self.name} ended before it was ready; the end of {self.log}:\n{words}")
            if time.monotonic() > end_s:
                late = f"{self.name} was not ready within {bounds.READY_S_MAX:g} s"
                raise NotReadyError(f"{late}; the end of {self.log}:\n{self._last_words()}")
            await asyncio.sleep(bounds.POLL_S)

    async def start(self) -> None:
        """Start and wait until it is ready. Raises OSError, PortTakenError, NotReadyError."""
        self.launch()
        await self.ready()

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL after a while; returns when it is gone."""
        self._signal(signal.SIGTERM)
        if not await self._gone(bounds.STOP_S_MAX):
            await self.kill()

    async def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self._signal(signal.SIGKILL)
        await self._gone(bounds.KILL_S_MAX)

    def abandon(self) -> None:
        """SIGKILL without an event loop: the end of the plane, whatever else goes on."""
        self._signal(signal.SIGKILL)

    def reap(self) -> None:
        """After `abandon`: wait until the kernel has taken it away."""
        if self._process is not None:
            self._process.wait(timeout=bounds.KILL_S_MAX)

    def _signal(self, what: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(what)

    async def _gone(self, within_s: float) -> bool:
        end_s = time.monotonic() + within_s
        while self.pid is not None:
            if time.monotonic() > end_s:
                return False
            await asyncio.sleep(bounds.POLL_S)
        return True

    def _last_words(self) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                return "\n".join(file.read().decode(errors="replace").splitlines()[-_TAIL_LINES:])
        except FileNotFoundError:
            return ""
