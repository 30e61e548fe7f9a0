"""The stack of a benchmark: fresh, in its own directory, on any free ports, stopped at the end."""

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import uvloop

from muster.bus.settings import Settings
from muster.cli import output
from muster.cli.errors import refused
from muster.cli.progress import measured
from muster.cli.session import connected
from muster.stack import control
from muster.stack.control import StartFailedError
from muster.stack.options import StartOptions
from muster.stack.state_dir import StateDir, StateDirError
from muster_tools.bench.load import Submitted

if TYPE_CHECKING:
    from muster.client import Muster

Say = Callable[[str], None]
Progress = Callable[[int], None]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class FreshStack:
    """A stack under measurement."""

    directory: Path
    muster: "Muster"
    settings: Settings
    url: str
    """URL of its gateway, for clients without the SDK."""
    token: str

    def rss_mib(self) -> dict[str, float]:
        """Return the resident memory by process."""
        return {process.name: process.rss_mib for process in self._processes()}

    def cpu_s(self) -> dict[str, float]:
        """Return the processor time by process since its start."""
        return {process.name: process.cpu_s for process in self._processes()}

    def cpu_s_since(self, spent_s: Mapping[str, float]) -> dict[str, float]:
        """Return the processor time by process since this result of `cpu_s`."""
        return {name: round(cpu_s - spent_s.get(name, 0.0), 2) for name, cpu_s in self.cpu_s().items()}

    def _processes(self) -> tuple[control.ProcessStatus, ...]:
        return control.status(self.directory).processes


@asynccontextmanager
async def fresh_stack(
    directory: Path,
    settings: Mapping[str, object],
    *,
    split: bool,
    say: Say,
    what: str = "a stack",
    clusters: tuple[str, ...] = (),
) -> AsyncIterator[FreshStack]:
    """Start a stack in `directory` and stop it at the end of the block.

    settings: by section, as in `StartOptions`. split: one process per service. what: its name in messages. clusters: as
    in `StartOptions`. Raises StartFailedError, StateDirError.
    """
    options = StartOptions(state_dir=directory, settings=dict(settings), any_ports=True, split=split, clusters=clusters)
    say(f"starting {what} in {directory}")
    starting = asyncio.create_task(asyncio.to_thread(control.detach, options))
    try:
        await asyncio.shield(starting)
        async with connected(directory) as muster:
            state, endpoints = StateDir(directory), control.status(directory).endpoints
            assert endpoints is not None, "a started stack has endpoints"
            yield FreshStack(
                directory=directory,
                muster=muster,
                settings=Settings.model_validate_json(state.settings.read_bytes()),
                url=endpoints.http,
                token=state.token.read_text().strip(),
            )
    finally:
        say("stopping the stack")
        await asyncio.wait({starting})  # a cancellation during the start would leave the stack behind
        await asyncio.to_thread(control.down, directory)


def refuse_unless_all_accepted(sent: Submitted, *, count: int) -> None:
    """Raise CliError if any job was refused: a benchmark measures jobs that ran."""
    if sent.refused:
        raise refused(f"{sent.refused} of {count} jobs were refused: {'; '.join(sent.refusals)}")


def run_in_fresh_directory(
    measure: Callable[[Path, Say, Progress], Coroutine[None, None, Found]], *, total: int, what: str = "submitted"
) -> Found:
    """Measure in a temporary directory, with progress towards `total`, labeled `what`. Raises CliError."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="muster-bench-") as name,
            measured(what, total=total) as reached,
        ):
            return uvloop.run(_cancelled_by_sigterm(measure(Path(name), output.print_note, reached)))
    except (StartFailedError, StateDirError) as error:
        raise refused(str(error)) from error
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None


async def _cancelled_by_sigterm(measuring: Coroutine[None, None, Found]) -> Found:
    """Run the measurement. SIGTERM cancels it as Ctrl-C does, so that the stack, a separate process, is stopped."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await measuring
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
