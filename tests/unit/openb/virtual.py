"""An event loop in virtual time, and a Muster in memory: a replay of months takes no time."""

import asyncio
import selectors
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from muster.openb.account import JobSeen
from muster.openb.replay import SubmitRefusedError
from muster.openb.trace import OpenbTask
from muster.schemas.job import JobSpec, Phase
from muster.schemas.labels import EXIT_CODE, RUN_S
from muster.schemas.views import JobView

Result = TypeVar("Result")


class _Selector(selectors.DefaultSelector):  # type: ignore[valid-type,misc] - chosen by the platform
    """Does not wait: whatever it is asked to wait for passes at once."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits for somebody: the replay would hang"
        self.now_s += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._time = _Selector()
        super().__init__(self._time)

    def time(self) -> float:
        return self._time.now_s


def run_virtually(main: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def task(
    name: str, *, at_s: float = 0, lasts_s: float = 100, gpus: int = 1, gpu_milli: int = 0, fails: bool = False
) -> OpenbTask:
    return OpenbTask(name, 1000, 1024, gpus, gpu_milli, (), fails, at_s, at_s + lasts_s, at_s)


@dataclass
class MemoryMuster:
    """Places what fits into `gpus`, first come first placed; runs it as its label says.

    refuse: names that are refused. deaf: facts that the watch does not bring, by (name, phase). ends_watch_at_s: then
    the stream of facts ends. answer_s: time that a submission takes.
    """

    gpus: int = 8
    refuse: frozenset[str] = frozenset()
    deaf: frozenset[tuple[str, Phase]] = frozenset()
    ends_watch_at_s: float | None = None
    fails_with: Exception | None = None
    answer_s: float = 0.0
    views: dict[str, JobView] = field(default_factory=dict)
    specs: dict[str, JobSpec] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    submitted_at_s: dict[str, float] = field(default_factory=dict)
    under_way: int = 0
    under_way_max: int = 0
    _stream: asyncio.Queue[JobSeen | None] = field(default_factory=asyncio.Queue)

    async def submit(self, spec: JobSpec, *, idempotency_key: str) -> str:
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        self.submitted_at_s[spec.name] = self._now_s()
        if self.fails_with is not None:
            raise self.fails_with
        if spec.name in self.refuse:
            self.under_way -= 1
            raise SubmitRefusedError("task_groups: no node is as big as that")
        job_id = f"id-{spec.name}"
        self.specs[job_id] = spec
        self.views[job_id] = JobView(
            id=job_id, name=spec.name, team=spec.team, principal="me", queue="q", phase=Phase.QUEUED,
            gpu_milli=spec.gpu_milli_total, submitted_at=self._now_ns(),
        )  # fmt: skip
        self._tell(job_id, Phase.SUBMITTED)
        self._place()
        await asyncio.sleep(self.answer_s)
        self.under_way -= 1
        return job_id

    async def watch(self) -> AsyncIterator[JobSeen]:
        if self.ends_watch_at_s is not None:
            asyncio.get_running_loop().call_later(self.ends_watch_at_s, self._stream.put_nowait, None)
        while (seen := await self._stream.get()) is not None:
            yield seen

    async def get(self, job_id: str) -> JobView | None:
        return self.views.get(job_id)

    async def cancel(self, job_id: str) -> None:
        self.cancelled.append(job_id)
        self._move(job_id, Phase.CANCELLED, ended_at=self._now_ns(), reason="cancelled")

    def _place(self) -> None:
        for job_id, view in self.views.items():
            held = sum(v.gpu_milli for v in self.views.values() if v.phase is Phase.RUNNING)
            if view.phase is not Phase.QUEUED:
                continue
            if held + view.gpu_milli > self.gpus * 1000:
                self._move(job_id, Phase.QUEUED, reason="gpus", detail=f"{view.gpu_milli} milli-GPUs wanted")
                continue
            self._move(job_id, Phase.RUNNING, tell=Phase.PLACED, placed_at=self._now_ns(), reason="")
            run_s = float(self.specs[job_id].labels[RUN_S])
            asyncio.get_running_loop().call_later(run_s, self._end, job_id)

    def _end(self, job_id: str) -> None:
        failed = self.specs[job_id].labels[EXIT_CODE] != "0"
        self._move(job_id, Phase.FAILED if failed else Phase.SUCCEEDED, ended_at=self._now_ns())
        self._place()

    def _move(self, job_id: str, phase: Phase, *, tell: Phase | None = None, **changed: object) -> None:
        self.views[job_id] = self.views[job_id].model_copy(update={"phase": phase, **changed})
        self._tell(job_id, tell or phase)

    def _tell(self, job_id: str, phase: Phase) -> None:
        view = self.views[job_id]
        if (view.name, phase) not in self.deaf:
            self._stream.put_nowait(JobSeen(job_id, phase, self._now_ns(), view.reason, view.detail))

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def _now_ns(self) -> int:
        return 1_000_000_000 + round(self._now_s() * 1e9)
