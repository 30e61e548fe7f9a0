"""The environment of a demonstration: a running stack, requests to it, and its decisions."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import httpx

from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import JobSpec, TaskGroup
from muster.schemas.labels import EXIT_CODE, RUN_S
from muster.schemas.queries import ScaleChoiceView

if TYPE_CHECKING:
    from muster.client import Muster
    from muster.client.watch import TypedFact
    from muster.schemas.views import JobView, NodeView

TEAM = "demo"
PATIENCE_S = 60.0
"""Time-out of each wait; normally none takes more than about five seconds."""
POLL_S = 0.1
FOR_EVER_S = 3600.0

Found = TypeVar("Found")


class DemoFailedError(Exception):
    """An expected condition did not come; the message names it and the last state."""


@dataclass
class Stage:
    """A running stack with a client."""

    muster: "Muster"
    fabric_url: str
    """URL of the simulated manager, with the fabric's name."""
    seen: set[str] = field(default_factory=set)
    """Ids of choices made before this demonstration."""
    crossed: tuple[str, ...] = ()
    """Services in the trace of this demonstration's job, in order of their first fact."""

    async def set_up(self) -> None:
        """Create the queue of the demonstrations, once. Raises DemoFailedError."""
        await self.muster.set_queue(QueueSpec(name=TEAM))

        async def known() -> bool:
            return any(queue.name == TEAM for queue in await self.muster.queues())

        await self.until(f"queue {TEAM} is known", known)

    async def submit(
        self, name: str, *, gpus: int = 0, cpu_milli: int = 1000, memory_mib: int = 1024, steady: bool = False
    ) -> str:
        """Submit a job that runs until it is cancelled; return its id. steady: it may not be stopped or moved."""
        spec = JobSpec(
            name=name,
            team=TEAM,
            task_groups=(TaskGroup(gpus=gpus, cpu_milli=cpu_milli, memory_mib=memory_mib),),
            labels={RUN_S: str(FOR_EVER_S), EXIT_CODE: "0"},
            preemptible=not steady,
            grace_s=0.0,
        )
        return (await self.muster.submit(spec)).id

    async def running(self, job_id: str) -> "JobView":
        """Wait until the job runs."""

        async def runs() -> "JobView | None":
            job = await self.muster.get(job_id)
            return job if job.running_at and job.nodes else None

        return await self.until(f"job {job_id} runs", runs)

    async def end(self, *job_ids: str) -> None:
        """Cancel jobs and wait until they have ended."""
        for job_id in job_ids:
            await self.muster.cancel(job_id, reason="the demonstration goes on")

        async def ended() -> bool:
            return all([(await self.muster.get(job_id)).phase.is_terminal for job_id in job_ids])

        await self.until(f"jobs {', '.join(job_ids)} have ended", ended)

    async def node(self, name: str) -> "NodeView | None":
        """Return one node, None if it does not exist."""
        return next((node for node in await self.muster.nodes() if node.name == name), None)

    async def nodes_of(self, group: str) -> "Sequence[NodeView]":
        """Return the schedulable nodes of a group."""
        return [node for node in await self.muster.nodes() if node.group == group and node.usable]

    async def free_in_pool(self) -> int:
        """Return the number of devices in the simulated fabric's pool, as its manager reports it."""
        body = await self._fabric("_inventory")
        free = body["free"]
        assert isinstance(free, list)
        return sum(int(kind["count"]) for kind in free)

    async def fabric_traces(self) -> set[str]:
        """Return the trace ids of the simulated manager's operations."""
        operations = (await self._fabric("_operations"))["operations"]
        assert isinstance(operations, list)
        return {trace_id(str(operation["traceparent"])) for operation in operations} - {""}

    async def choices(self) -> list[ScaleChoiceView]:
        """Return the scaler's choices without those in `seen`, oldest first."""
        return [choice for choice in reversed(await self.muster.scale_choices()) if choice.id not in self.seen]

    async def chosen(self, name: str, is_meant: Callable[[ScaleChoiceView], bool]) -> ScaleChoiceView:
        """Wait for a choice of this demonstration to be carried out."""

        async def done() -> ScaleChoiceView | None:
            return next(
                (one for one in await self.choices() if one.name == name and is_meant(one) and one.outcome), None
            )

        choice = await self.until(f"{name} is chosen and over", done)
        require(choice.outcome == "done", f"{name} {choice.id} ended {choice.outcome}: {choice.detail}")
        return choice

    async def facts_of(self, job_id: str) -> "Sequence[TypedFact]":
        """Return all facts of a job's trace, oldest first."""
        return await self.muster.events(job_id=job_id, limit=2_000)

    async def until(
        self, what: str, ask: Callable[[], Awaitable[Found | None]], *, patience_s: float = PATIENCE_S
    ) -> Found:
        """Poll until the answer is true, and return it. Raises DemoFailedError after `patience_s`."""
        end_s = time.monotonic() + patience_s
        while not (found := await ask()):
            if time.monotonic() > end_s:
                raise DemoFailedError(f"timed out after {patience_s:g} s waiting until {what}")
            await asyncio.sleep(POLL_S)
        return found

    async def comes_to(self, check: Callable[[], Awaitable[None]], *, patience_s: float = PATIENCE_S) -> None:
        """Repeat a check until it passes, since views lag behind the log. Raises the last DemoFailedError."""
        end_s = time.monotonic() + patience_s
        while True:
            try:
                return await check()
            except DemoFailedError:
                if time.monotonic() > end_s:
                    raise
            await asyncio.sleep(POLL_S)

    async def _fabric(self, page: str) -> dict[str, object]:
        async with httpx.AsyncClient() as client:
            body = (await client.get(f"{self.fabric_url}/{page}")).raise_for_status().json()
        assert isinstance(body, dict)
        return body


def require(is_so: object, problem: str) -> None:
    """Raise DemoFailedError with the problem unless the condition holds."""
    if not is_so:
        raise DemoFailedError(problem)


def trace_id(traceparent: str) -> str:
    """Return the trace id of a W3C traceparent; "" if it is invalid."""
    parts = traceparent.split("-")
    return parts[1] if len(parts) == 4 else ""
