"""Output of jobs: its source, the part to read, and the format of a line."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli import kubectl
from muster.cli.errors import refused, usage
from muster.cli.output import print_lines, print_note
from muster.cli.session import call
from muster.core.instant import NS_PER_S
from muster.schemas.job import Phase
from muster.schemas.live import OutputLine
from muster.schemas.pods import KUBERNETES
from muster.schemas.views import JobView

if TYPE_CHECKING:
    from muster.client import Muster

POLL_S = 1.0
"""Interval between two looks at a job, in seconds."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A part of a job's output. None: every task group, replica or attempt; of tail: all kept lines."""

    group: int | None = None
    replica: int | None = None
    attempt: int | None = None
    tail: int | None = None
    follow: bool = False


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How a line looks."""

    has_prefix: bool = False
    """Whether the replica is in front of it."""
    has_time: bool = False

    def text(self, line: OutputLine) -> str:
        """Return the line, such as `3: text`, or `1/3: text` for a replica of another task group than the first."""
        of = f"{line.group}/{line.replica}" if line.group else f"{line.replica}"
        at = datetime.fromtimestamp(line.at / NS_PER_S, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f"{at} " * self.has_time + f"{of}: " * self.has_prefix + line.text


def replica_of(text: str) -> tuple[int, int] | None:
    """Return task group and replica of `N` or `G/N`, None for "". The option has checked the form."""
    if not text:
        return None
    group, _, replica = text.rpartition("/")
    return int(group or 0), int(replica)


def show(state_dir: Path, job_id: str, wanted: Wanted, *, previous: bool, has_time: bool, context: str) -> None:
    """Print the output of a job; `wanted.follow`: until it ends. previous: of the attempt before the present one."""

    async def ask(muster: "Muster") -> None:
        job, part = await muster.get(job_id), wanted
        if previous:
            if job.attempt < 2:
                raise usage(f"--previous: job {job.id} has no earlier attempt; its attempt is number {job.attempt}")
            part = Wanted(wanted.group, wanted.replica, job.attempt - 1, wanted.tail, wanted.follow)
        form = LineFormat(has_prefix=job.replicas > 1 and wanted.replica is None, has_time=has_time)
        count = 0
        async with aclosing(lines_of(muster, job, part, context=context)) as lines:
            async for line in lines:
                print_lines(form.text(line))
                count += 1
        if not count and not wanted.follow:
            print_note(f"job {job.id} is {job.phase.value} and has no output of the last hour")

    call(state_dir, ask)


async def lines_of(muster: "Muster", job: JobView, wanted: Wanted, *, context: str) -> AsyncGenerator[OutputLine, None]:
    """Yield lines of a job: from Muster, or on a Kubernetes cluster from the user's kubectl. Raises CliError."""
    while wanted.follow and not job.cluster and not job.phase.is_terminal:
        await asyncio.sleep(POLL_S)
        job = await muster.get(job.id)
    if (await muster.pods(job.id)).backend == KUBERNETES:
        async with aclosing(_of_pods(muster, job, wanted, context)) as lines:
            async for line in lines:
                yield line
        return
    part = {"group": wanted.group, "replica": wanted.replica, "attempt": wanted.attempt, "tail": wanted.tail}
    async for line in muster.output_lines(job.id, follow=wanted.follow, **part):
        yield line


async def _of_pods(muster: "Muster", job: JobView, wanted: Wanted, context: str) -> AsyncGenerator[OutputLine, None]:
    """Yield the output of the pods of the present attempt; with `wanted.follow` also of later attempts."""
    if wanted.attempt not in (None, job.attempt):
        raise refused(
            f"--attempt: only the output of attempt {job.attempt} can be read; "
            "Kubernetes keeps none of pods that are gone"
        )
    read = 0
    while True:
        has_run = job.phase in (Phase.RUNNING, Phase.STOPPING) or job.phase.is_terminal
        if has_run and job.attempt > read:
            read = job.attempt
            target = kubectl.target(job, await muster.pods(job.id), context=context)
            pods = [pod for pod in target.found.pods if _is_wanted(pod.group, pod.replica, wanted)]
            if not pods:
                raise usage(f"--replica: job {job.id} has no replica {wanted.group}/{wanted.replica}")
            async with aclosing(kubectl.read_output(target, pods, follow=wanted.follow, tail=wanted.tail)) as lines:
                async for line in lines:
                    yield line
        elif not wanted.follow or job.phase.is_terminal:
            return
        else:
            await asyncio.sleep(POLL_S)
        job = await muster.get(job.id)


def _is_wanted(group: int, replica: int, wanted: Wanted) -> bool:
    return wanted.group in (None, group) and wanted.replica in (None, replica)


@contextmanager
def writing(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes a line to a new file as the job printed it; None: to the terminal, escaped.

    Raises CliError if the file cannot be written.
    """
    if path is None:
        yield print_lines
        return
    try:
        file = path.open("wb", buffering=0)  # so that nothing is left to write when it is closed
    except OSError as error:
        raise usage(f"--output: {path}: {error.strerror}; give another file") from error

    def write(line: str) -> None:
        try:
            file.write(f"{line}\n".encode(errors="backslashreplace"))
        except OSError as error:
            raise usage(f"--output: {path}: {error.strerror}; the output is not complete") from error

    with file:
        yield write
