"""A Muster with one job, whose states come in turn: for commands that run a job, wait for it and print its output."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from muster.client import ConflictError, JobSpec, JobView, Phase, Problem, WhyAnswer
from muster.schemas.apiserver import ClusterView
from muster.schemas.job import Slot
from muster.schemas.live import OutputLine
from muster.schemas.pods import KUBERNETES, JobPod, JobPods, pod_name

JOB = "A" * 26
QUEUED = JobView(id=JOB, name="train", team="blue", principal="ann", queue="blue", phase=Phase.QUEUED, replicas=1)
SLOTS = (Slot(group=0, replica=0, node="n1"), Slot(group=0, replica=1, node="n2"))
RUNNING = QUEUED.model_copy(update={"phase": Phase.RUNNING, "cluster": "atlas", "attempt": 1, "slots": SLOTS[:1]})
SUCCEEDED = RUNNING.model_copy(update={"phase": Phase.SUCCEEDED})
CANCELLED = RUNNING.model_copy(update={"phase": Phase.CANCELLED})


def failed(code: int) -> JobView:
    """The job, failed with this exit code."""
    return RUNNING.model_copy(update={"phase": Phase.FAILED, "exit_code": code, "reason": "failed"})


def line(text: str, *, replica: int = 0, group: int = 0, attempt: int = 1, at: int = 1_000_000_000) -> OutputLine:
    """A line of output."""
    return OutputLine(at=at, group=group, replica=replica, attempt=attempt, text=text)


@dataclass
class RunMuster:
    """What it answers, and what it was asked."""

    states: list[JobView]
    """The job as each look finds it; the last one stays, but for a job that was cancelled."""
    lines: Sequence[OutputLine] = ()
    backend: str = "simulated"
    namespace: str = "team-blue"
    reasons: list[WhyAnswer] = field(default_factory=list)
    on_line: Callable[[], None] = lambda: None
    """Called after each line of output."""
    is_endless: bool = False
    """The output goes on until the job is cancelled."""
    specs: list[JobSpec] = field(default_factory=list)
    asked: list[dict[str, object]] = field(default_factory=list)
    cancels: int = 0
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def submit(self, spec: JobSpec, *, idempotency_key: str) -> JobView:
        assert idempotency_key
        self.specs.append(spec)
        return self.states[0]

    async def get(self, job_id: str) -> JobView:
        assert job_id == JOB
        if self.cancelled.is_set():
            return CANCELLED
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    async def why(self, job_id: str) -> WhyAnswer:
        assert job_id == JOB
        return self.reasons.pop(0) if len(self.reasons) > 1 else self.reasons[0]

    async def cancel(self, job_id: str, *, reason: str = "") -> JobView:
        assert (job_id, bool(reason)) == (JOB, True)
        self.cancels += 1
        if self.states[0].phase.is_terminal:
            raise ConflictError(Problem(title="Conflict", status=409, detail="it has ended"))
        self.cancelled.set()
        return self.states[0]

    async def clusters(self) -> Sequence[ClusterView]:
        return [ClusterView(name="atlas", backend=self.backend)]

    async def pods(self, job_id: str) -> JobPods:
        job = self.states[0]
        found = JobPods(job_id=job_id, cluster=job.cluster, backend=self.backend if job.cluster else "")
        if self.backend != KUBERNETES or job.origin:
            return found
        pods = tuple(
            JobPod(
                group=slot.group,
                replica=slot.replica,
                node=slot.node,
                name=pod_name(job_id, attempt=job.attempt, group=slot.group, replica=slot.replica),
            )
            for slot in job.slots
        )
        return found.model_copy(update={"namespace": self.namespace, "attempt": job.attempt, "pods": pods})

    async def output_lines(self, job_id: str, **wanted: object) -> AsyncIterator[OutputLine]:
        assert job_id == JOB
        self.asked.append(wanted)
        for one in self.lines:
            yield one
            self.on_line()
            await asyncio.sleep(0)
        if self.is_endless:
            await self.cancelled.wait()
