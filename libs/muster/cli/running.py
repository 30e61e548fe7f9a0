"""Running a job from the terminal: submit, wait, stream the output, and end as the job ended."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from muster.bus.clock import SystemTime
from muster.cli import job_output, kubectl
from muster.cli.errors import CliError, ExitCode, JobsFailedError, refused
from muster.cli.job_output import POLL_S, LineFormat, Wanted
from muster.cli.output import print_note
from muster.cli.run_commands import INTERRUPTED
from muster.cli.session import as_cli_error, call, connected
from muster.schemas.job import JobSpec, Phase
from muster.schemas.live import OutputLine
from muster.schemas.pods import KUBERNETES
from muster.schemas.queries import WhyAnswer
from muster.schemas.views import JobView

if TYPE_CHECKING:
    from muster.client import Muster

QUIET_S = 3.0
"""How long a job waits before the reason is printed, in seconds."""
WHY_EVERY_S = 10.0
"""Interval between two looks at the reason, in seconds."""
KEEP_OPEN = ("sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait")
"""Command of an interactive job. It waits for SIGTERM, which a container's first process ignores without a trap."""
SHELL = ("sh", "-c", "if command -v bash >/dev/null; then exec bash; else exec sh; fi")


def run(state_dir: Path, spec: JobSpec, *, key: str, output: Path | None, context: str) -> None:
    """Run a job. Raises typer.Exit with the job's exit code, CliError.

    output: file on this machine that gets the output instead of the terminal.
    """
    with job_output.writing(output) as write:
        code = asyncio.run(_Run(state_dir, context).whole(spec, key, write))
    if code:
        raise typer.Exit(code)


class _Run:
    """One `muster run`. The first Ctrl-C cancels the job, the second leaves at once."""

    def __init__(self, state_dir: Path, context: str) -> None:
        self._state_dir = state_dir
        self._context = context
        self._interrupts = 0
        self._cancelling: asyncio.Task[None] | None = None

    async def whole(self, spec: JobSpec, key: str, write: Callable[[str], None]) -> int:
        """Return the exit code."""
        async with connected(self._state_dir) as muster:
            job = await muster.submit(spec, idempotency_key=key)
            print_note(f"job {job.id} submitted")
            following = asyncio.create_task(self._follow(muster, job, write), name="follow the job")
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, self._interrupted, muster, job.id, following)
            try:
                ended = await following
            except asyncio.CancelledError:
                if not self._interrupts:
                    raise
                print_note(f"job {job.id} may still run; `muster job {job.id}` shows it")
                return INTERRUPTED
            except BrokenPipeError:  # the reader left, as `head` does
                print_note(f"job {job.id} goes on: `muster logs -f {job.id}`")
                raise
            except Exception as error:
                told = as_cli_error(error, self._state_dir)
                if told is None:
                    raise
                raise CliError(f"{told}; job {job.id} goes on: `muster logs -f {job.id}`", code=told.code) from error
            finally:
                loop.remove_signal_handler(signal.SIGINT)
            if ended.phase is not Phase.SUCCEEDED:
                print_note(f"muster: {end_of(ended)}")
            if self._interrupts:
                return INTERRUPTED
            return exit_code(ended)

    def _interrupted(self, muster: "Muster", job_id: str, following: asyncio.Task[JobView]) -> None:
        self._interrupts += 1
        if self._interrupts == 1:
            print_note(f"cancelling job {job_id}; Ctrl-C again leaves at once")
            self._cancelling = asyncio.create_task(_cancelled(muster, job_id), name="cancel the job")
        else:
            following.cancel()

    async def _follow(self, muster: "Muster", job: JobView, write: Callable[[str], None]) -> JobView:
        """Print the output until the job has ended."""
        form = LineFormat(has_prefix=job.replicas > 1)
        telling = asyncio.create_task(tell_why(muster, job.id), name="tell why the job waits")
        try:
            async with aclosing(self._output(muster, job)) as lines:
                async for line in lines:
                    write(form.text(line))
            return await until(muster, job.id, lambda found: found.phase.is_terminal)
        finally:
            telling.cancel()
            with suppress(asyncio.CancelledError):
                await telling

    async def _output(self, muster: "Muster", job: JobView) -> AsyncGenerator[OutputLine, None]:
        """Yield the output. If it cannot be read, for example without kubectl, print the reason: the job goes on."""
        try:
            async with aclosing(job_output.lines_of(muster, job, Wanted(follow=True), context=self._context)) as lines:
                async for line in lines:
                    yield line
        except CliError as error:
            print_note(f"muster: the output is not shown: {error}")


async def _cancelled(muster: "Muster", job_id: str) -> None:
    """Cancel a job, if it has not ended; print the refusal of anything else."""
    from muster.client import ConflictError, MusterError

    try:
        await muster.cancel(job_id, reason="Ctrl-C")
    except ConflictError:
        return  # it has ended
    except MusterError as error:
        print_note(f"muster: job {job_id} could not be cancelled: {error}")


def exit_code(job: JobView) -> int:
    """Return the exit code of an ended job; 1 if it ended without one of its own."""
    if job.phase is Phase.SUCCEEDED:
        return 0
    return job.exit_code if job.phase is Phase.FAILED and job.exit_code else int(ExitCode.JOBS_FAILED)


def end_of(job: JobView) -> str:
    """Return how a job ended, and why."""
    why = job.detail or job.reason
    code = f" with exit code {job.exit_code}" if job.exit_code else ""
    return f"job {job.id} {job.phase.value}{code}{f': {why}' if why else ''}; `muster trace {job.id}` shows its history"


async def tell_why(muster: "Muster", job_id: str) -> None:
    """Print on stderr why a job waits: after QUIET_S, when the reason changes, and when it waits again."""
    from muster.client import MusterError

    told, pause_s = "", QUIET_S
    while True:
        await asyncio.sleep(pause_s)
        pause_s = WHY_EVERY_S
        try:
            why = await muster.why(job_id)
        except MusterError:
            continue  # the task that follows the job reports that the gateway does not answer
        if why.job is not None and why.job.phase.is_terminal:
            return
        is_running = why.job is not None and why.job.phase is Phase.RUNNING
        line = "" if is_running else waits(job_id, why)
        if line not in ("", told):
            print_note(line)
        told = line


def waits(job_id: str, why: WhyAnswer) -> str:
    """Return where a job waits, why, and what would help."""
    phase = why.job.phase.value if why.job is not None else Phase.QUEUED.value
    queue = f" in queue {why.job.queue}" if why.job is not None else ""
    position = f", position {why.position} of {why.waiting}{queue}" if why.position else ""
    reasons = "; ".join(part for part in (why.detail or why.reason, why.cure) if part)
    return f"job {job_id} is {phase}{position}{f': {reasons}' if reasons else ''}"


async def until(muster: "Muster", job_id: str, is_so: Callable[[JobView], bool]) -> JobView:
    """Return a job once it is so."""
    job = await muster.get(job_id)
    while not is_so(job):
        await asyncio.sleep(POLL_S)
        job = await muster.get(job_id)
    return job


def wait(state_dir: Path, ids: Sequence[str], *, running: bool, timeout_s: float | None) -> None:
    """Wait until all jobs have ended, or run. Raises JobsFailedError if one does not succeed, or the time is over."""

    def is_so(job: JobView) -> bool:
        return job.phase.is_terminal or (running and job.phase is Phase.RUNNING)

    async def ask(muster: "Muster") -> list[JobView]:
        deadline_s = None if timeout_s is None else SystemTime().monotonic_s() + timeout_s
        found: list[JobView] = []
        for job_id in ids:
            left_s = None if deadline_s is None else max(0.0, deadline_s - SystemTime().monotonic_s())
            found.append(await _in_time(until(muster, job_id, is_so), job_id, left_s=left_s, timeout_s=timeout_s))
        return found

    unhappy = [job for job in call(state_dir, ask) if job.phase.is_terminal and job.phase is not Phase.SUCCEEDED]
    if unhappy:
        raise JobsFailedError("; ".join(map(end_of, unhappy)))


async def _in_time(
    waiting: Awaitable[JobView], job_id: str, *, left_s: float | None, timeout_s: float | None
) -> JobView:
    try:
        async with asyncio.timeout(left_s):
            return await waiting
    except TimeoutError as error:
        raise JobsFailedError(
            f"--timeout: {timeout_s:g} s are over, and job {job_id} is not there yet; `muster why {job_id}` says why"
        ) from error


def execute(state_dir: Path, job_id: str, words: Sequence[str], *, replica: tuple[int, int], context: str) -> int:
    """Run a command in the pod of a replica, on this terminal; return its exit code. Raises CliError."""
    target = call(state_dir, lambda muster: _target(muster, job_id, context))
    pod = kubectl.pod_of(target, group=replica[0], replica=replica[1])
    return kubectl.interactive(target.command("exec", pod, *kubectl.terminal_options(), words=words))


def attach(state_dir: Path, job_id: str, *, replica: tuple[int, int], context: str) -> int:
    """Connect this terminal to the command of a replica; return the exit code. Raises CliError."""
    target = call(state_dir, lambda muster: _target(muster, job_id, context))
    pod = kubectl.pod_of(target, group=replica[0], replica=replica[1])
    return kubectl.interactive(target.command("attach", pod))


async def _target(muster: "Muster", job_id: str, context: str) -> kubectl.Target:
    job = await muster.get(job_id)
    if job.phase.is_terminal:
        raise refused(f"JOB: {job.id} has ended ({job.phase.value}), so there is nothing to enter")
    return kubectl.target(job, await muster.pods(job_id), context=context)


def shell(state_dir: Path, spec: JobSpec, words: Sequence[str], *, key: str, context: str) -> int:
    """Run a command, by default a shell, in a job that exists for this only; return its exit code. Raises CliError."""
    kubectl.check_installed()
    job_id = call(state_dir, lambda muster: _opened(muster, spec, key))
    try:
        return execute(state_dir, job_id, words or SHELL, replica=(0, 0), context=context)
    finally:
        call(state_dir, lambda muster: _cancelled(muster, job_id))


async def _opened(muster: "Muster", spec: JobSpec, key: str) -> str:
    """Submit an interactive job and wait until it runs; cancel it if the wait is interrupted. Raises CliError."""
    if all(cluster.backend != KUBERNETES for cluster in await muster.clusters()):
        raise refused("shell: there is no Kubernetes cluster here; simulated jobs have no processes to enter")
    job = await muster.submit(spec, idempotency_key=key)
    print_note(f"job {job.id} submitted; it is cancelled when you leave")
    telling = asyncio.create_task(tell_why(muster, job.id), name="tell why the job waits")
    try:
        found = await until(muster, job.id, lambda one: one.phase is Phase.RUNNING or one.phase.is_terminal)
    except asyncio.CancelledError:
        await asyncio.shield(_cancelled(muster, job.id))
        raise
    finally:
        telling.cancel()
    if found.phase.is_terminal:
        raise JobsFailedError(end_of(found))
    return job.id
