"""Supervision of child processes: started in order, each ready before the next, restarted, ended together.

Crash-only: a child that dies is started again, after a pause that doubles from RESTART_S_MIN to RESTART_S_MAX and is
reset once the child has lived for STABLE_S. The supervisor only kills processes that it started.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from muster.stack.process import STOP_GRACE_S, ChildProcess, Command, start_child, tail

RESTART_S_MIN = 0.1
RESTART_S_MAX = 10.0
STABLE_S = 30.0
READY_S_MAX = 30.0
PROBE_S = 0.02

Probe = Callable[[], Awaitable[bool]]
_logger = logging.getLogger(__name__)


class ChildNotReadyError(Exception):
    """A child did not become ready at start; the message contains the end of its log."""


@dataclass(frozen=True, slots=True)
class Child:
    """A supervised child process."""

    command: Command
    is_ready: Probe | None = None
    """Probe polled every PROBE_S at the first start; None: ready at once."""
    ready_s_max: float = READY_S_MAX
    grace_s: float = STOP_GRACE_S


@dataclass(frozen=True, slots=True)
class ChildState:
    """State of one child."""

    name: str
    pid: int | None
    """None between two runs."""
    restarts: int
    """Number of deaths since the start."""


def restart_pause_s(deaths: int) -> float:
    """Return the pause before a restart after this many consecutive deaths (from 1)."""
    return float(min(RESTART_S_MAX, RESTART_S_MIN * 2 ** min(deaths - 1, 16)))


class _Kept:
    """One child and the task that supervises it."""

    def __init__(self, child: Child, *, log: Path, pid_file: Path, stopping: asyncio.Event) -> None:
        self.child = child
        self.log = log
        self.restarts = 0
        self._pid_file = pid_file
        self._stopping = stopping
        self._process: ChildProcess | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.child.command.name

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def keep(self) -> None:
        """Run the child again and again until the supervisor stops."""
        loop = asyncio.get_running_loop()
        deaths = 0
        while not self._stopping.is_set():
            started_s = loop.time()
            status = await self._live()
            if self._stopping.is_set():
                return
            self.restarts += 1
            deaths = 1 if loop.time() - started_s > STABLE_S else deaths + 1
            pause_s = restart_pause_s(deaths)
            _logger.warning("%s ended (%s); restarting it in %.1f s", self.name, status, pause_s)
            await self._pause(pause_s)

    async def _live(self) -> str:
        try:
            self._process = await start_child(self.child.command, self.log)
        except OSError as error:
            return f"cannot be started: {error}"
        self._pid_file.write_text(str(self._process.pid))
        try:
            if self._stopping.is_set():  # stop() was called during the start, and found no process
                await self._process.stop(grace_s=self.child.grace_s)
            return f"exit status {await self._process.wait()}"
        finally:
            self._pid_file.unlink(missing_ok=True)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    async def ready(self) -> None:
        """Wait until the child is ready. Raises ChildNotReadyError."""
        probe = self.child.is_ready
        if probe is None:
            return
        try:
            async with asyncio.timeout(self.child.ready_s_max):
                while not await probe():  # noqa: ASYNC110 - the child cannot set an event here
                    await asyncio.sleep(PROBE_S)
        except TimeoutError:
            words = "\n".join(tail(self.log))
            raise ChildNotReadyError(
                f"{self.name} was not ready after {self.child.ready_s_max:g} s; the end of {self.log}:\n{words}"
            ) from None

    async def stop(self) -> None:
        if self._process is not None:
            await self._process.stop(grace_s=self.child.grace_s)
        if self.task is not None:
            await self.task


class Supervisor:
    """The supervised children of one stack."""

    def __init__(self, *, logs_dir: Path, run_dir: Path) -> None:
        self._logs_dir = logs_dir
        self._run_dir = run_dir
        self._groups: list[list[_Kept]] = []
        self._stopping = asyncio.Event()

    async def start(self, *children: Child) -> None:
        """Start these children and wait until all are ready. Raises ChildNotReadyError; call stop() then."""
        group = [
            _Kept(
                child,
                log=self._logs_dir / f"{child.command.name}.log",
                pid_file=self._run_dir / f"{child.command.name}.pid",
                stopping=self._stopping,
            )
            for child in children
        ]
        self._groups.append(group)
        for kept in group:
            kept.task = asyncio.create_task(kept.keep(), name=f"keep {kept.name}")
        await asyncio.gather(*(kept.ready() for kept in group))

    def states(self) -> tuple[ChildState, ...]:
        """Return the state of every child, in start order."""
        return tuple(ChildState(kept.name, kept.pid, kept.restarts) for group in self._groups for kept in group)

    async def stop(self) -> None:
        """Stop all children, in reverse start order; each group gets its grace period, then SIGKILL."""
        self._stopping.set()
        for group in reversed(self._groups):
            await asyncio.gather(*(kept.stop() for kept in group))
        self._groups.clear()
