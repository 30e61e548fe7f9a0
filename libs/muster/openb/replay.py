"""Replay of the trace on a running Muster: submits every task at its time, and waits until all outcomes are final.

It uses Muster through `ReplayTarget` only. Every wait and every number of concurrent requests has a bound in
`ReplayOptions`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.openb.account import Account, Counts, JobSeen, TaskRecord, seen_in_view
from muster.openb.trace import OpenbTask, job_spec
from muster.schemas.job import JobSpec
from muster.schemas.views import JobView

Progress = Callable[[Counts], None]


class SubmitRefusedError(Exception):
    """The job can never run, or may not be submitted: the task counts as refused and the replay continues."""


class ReplayError(Exception):
    """The replay cannot continue; the message names the reason."""


class ReplayTarget(Protocol):
    """The operations that a replay needs of Muster. Errors other than SubmitRefusedError end the replay."""

    async def submit(self, spec: JobSpec, *, idempotency_key: str) -> str:
        """Submit a job and return its id. Raises SubmitRefusedError."""
        ...

    def watch(self) -> AsyncIterator[JobSeen]:
        """Yield phases of all jobs from now on, without end."""
        ...

    async def get(self, job_id: str) -> JobView | None:
        """Return the job's current state; None if the job is unknown."""
        ...

    async def cancel(self, job_id: str) -> None:
        """Cancel the job. A job that has already ended is no error."""
        ...


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Parameters of a replay."""

    speedup: float
    """Trace seconds per second."""
    run: str
    """Name of this replay in idempotency keys, to distinguish its jobs from those of other replays."""
    team: str = "openb"
    queue: str | None = None
    concurrency: int = 64
    """Maximum number of concurrent requests."""
    quiet_s: float = 10.0
    """Time without a placement or other change after which pending jobs count as never placed."""
    give_up_s: float = 120.0
    """Time without a change, in addition to the longest run, after which the replay ends although jobs are placed."""
    progress_s: float = 0.25


async def replay(
    tasks: Sequence[OpenbTask], target: ReplayTarget, *, options: ReplayOptions, progress: Progress | None = None
) -> Account:
    """Run all tasks, earliest first, and return their records; jobs that were never placed have been canceled.

    Raises ReplayError if the stream of facts ends, and any other error of the target.
    """
    run = _Run(tasks, target, options)
    driver = asyncio.create_task(run.drive(), name="replay driver")
    helpers = [asyncio.create_task(run.follow(), name="replay watch")]
    if progress is not None:
        helpers.append(asyncio.create_task(run.tell(progress), name="replay progress"))
    try:
        await asyncio.wait({driver, *helpers}, return_when=asyncio.FIRST_COMPLETED)
        for helper in helpers:
            if helper.done() and not driver.done():
                helper.result()
        await driver
    finally:
        await _cancel([driver, *helpers])
    if progress is not None:
        progress(run.account.counts())
    return run.account


class _Run:
    """One running replay."""

    def __init__(self, tasks: Sequence[OpenbTask], target: ReplayTarget, options: ReplayOptions) -> None:
        self.account = Account(tasks)
        self._target = target
        self._options = options
        self._due = iter(enumerate(tasks))
        self._changed = asyncio.Event()

    async def drive(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await self._side_by_side(self._feed(began_s) for _ in range(self._options.concurrency))
        await self._settle()
        await self._ask(self.account.open())
        left = [record for record in self.account.open() if not record.is_over]
        for record in left:
            self.account.give_up(record)
        await self._each(left, lambda record: self._target.cancel(record.job_id))

    async def follow(self) -> None:
        async for seen in self._target.watch():
            before = self.account.changes
            self.account.see(seen)
            if self.account.changes != before:
                self._changed.set()
        raise ReplayError("the stream of facts ended before the replay: is Muster still running?")

    async def tell(self, progress: Progress) -> None:
        while True:
            progress(self.account.counts())
            await asyncio.sleep(self._options.progress_s)

    async def _feed(self, began_s: float) -> None:
        """Submit one task after the other, each at its time; the number of these workers bounds the concurrency."""
        loop = asyncio.get_running_loop()
        for index, task in self._due:
            await asyncio.sleep(max(0.0, began_s + task.creation_s / self._options.speedup - loop.time()))
            spec = job_spec(task, speedup=self._options.speedup, team=self._options.team, queue=self._options.queue)
            try:
                job_id = await self._target.submit(spec, idempotency_key=f"openb-{self._options.run}-{task.name}")
            except SubmitRefusedError as refusal:
                self.account.refused(index, str(refusal))
            else:
                self.account.submitted(index, job_id)

    async def _settle(self) -> None:
        """Wait until every outcome is final, or nothing changes any more after all open jobs were read."""
        longest_s = max((task.lifetime_s for task in self.account.tasks), default=0.0) / self._options.speedup
        while not self.account.is_complete:
            is_live = self.account.counts().live > 0
            patience_s = self._options.give_up_s + longest_s if is_live else self._options.quiet_s
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), timeout=patience_s)
            except TimeoutError:
                before = self.account.changes
                await self._ask(self.account.open())
                if self.account.changes == before:
                    return

    async def _ask(self, records: Iterable[TaskRecord]) -> None:
        """Read the rows of these jobs, since the watch may have missed a change."""

        async def ask(record: TaskRecord) -> None:
            view = await self._target.get(record.job_id)
            for seen in () if view is None else seen_in_view(view):
                self.account.see(seen)

        await self._each(list(records), ask)

    async def _each(
        self, records: Sequence[TaskRecord], act: Callable[[TaskRecord], Coroutine[None, None, None]]
    ) -> None:
        todo = iter(records)

        async def work() -> None:
            for record in todo:
                await act(record)

        await self._side_by_side(work() for _ in range(min(self._options.concurrency, len(records))))

    @staticmethod
    async def _side_by_side(works: Iterable[Coroutine[None, None, None]]) -> None:
        running = [asyncio.create_task(work) for work in works]
        try:
            await asyncio.gather(*running)
        finally:
            await _cancel(running)


async def _cancel(running: Sequence[asyncio.Task[None]]) -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)  # the first error is already being raised
