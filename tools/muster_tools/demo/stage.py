"""What a demonstration is played on: a running stack, what it is asked, and what it decided meanwhile."""

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
"""For each thing that is waited for; by itself none takes more than about five seconds."""
POLL_S = 0.1
FOR_EVER_S = 3600.0

Found = TypeVar("Found")


class DemoFailedError(Exception):
    """What should have happened did not; the message says what was waited for and how it stood."""


@dataclass
class Stage:
    """fabric_url: of the simulated manager, with the fabric's name. seen: ids of choices made before this demo.

    crossed: who spoke in the one trace of the job that this demo is about, in the order of their first word.
    """

    muster: "Muster"
    fabric_url: str
    seen: set[str] = field(default_factory=set)
    crossed: tuple[str, ...] = ()

    async def set_up(self) -> None:
        """The queue of the demonstrations, once. Raises DemoFailedError."""
        await self.muster.set_queue(QueueSpec(name=TEAM))

        async def known() -> bool:
            return any(queue.name == TEAM for queue in await self.muster.queues())

        await self.until(f"queue {TEAM} is known", known)

    async def submit(
        self, name: str, *, gpus: int = 0, cpu_milli: int = 1000, memory_mib: int = 1024, steady: bool = False
    ) -> str:
        """A job that runs until it is cancelled; its id. steady: nobody may stop or move it."""
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
        """Cancel jobs and wait until they are gone."""
        for job_id in job_ids:
            await self.muster.cancel(job_id, reason="the demonstration goes on")

        async def ended() -> bool:
            return all([(await self.muster.get(job_id)).phase.is_terminal for job_id in job_ids])

        await self.until(f"jobs {', '.join(job_ids)} have ended", ended)

    async def node(self, name: str) -> "NodeView | None":
        """One node, None if it is not there."""
        return next((node for node in await self.muster.nodes() if node.name == name), None)

    async def nodes_of(self, group: str) -> "Sequence[NodeView]":
        """Nodes of a group that can be used."""
        return [node for node in await self.muster.nodes() if node.group == group and node.usable]

    async def free_in_pool(self) -> int:
        """Devices that lie in the simulated fabric's pool, by its own word."""
        body = await self._fabric("_inventory")
        free = body["free"]
        assert isinstance(free, list)
        return sum(int(kind["count"]) for kind in free)

    async def fabric_traces(self) -> set[str]:
        """Trace ids that the simulated manager's operations came with."""
        operations = (await self._fabric("_operations"))["operations"]
        assert isinstance(operations, list)
        return {trace_id(str(operation["traceparent"])) for operation in operations} - {""}

    async def choices(self) -> list[ScaleChoiceView]:
        """What the scaler chose since `seen`, oldest first."""
        return [choice for choice in reversed(await self.muster.scale_choices()) if choice.id not in self.seen]

    async def chosen(self, name: str, is_meant: Callable[[ScaleChoiceView], bool]) -> ScaleChoiceView:
        """Wait for a choice of this demonstration that was carried out."""

        async def done() -> ScaleChoiceView | None:
            return next(
                (one for one in await self.choices() if one.name == name and is_meant(one) and one.outcome), None
            )

        choice = await self.until(f"{name} is chosen and over", done)
        require(choice.outcome == "done", f"{name} {choice.id} ended {choice.outcome}: {choice.detail}")
        return choice

    async def facts_of(self, job_id: str) -> "Sequence[TypedFact]":
        """All facts that belong to a job's trace, oldest first."""
        return await self.muster.events(job_id=job_id, limit=2_000)

    async def until(
        self, what: str, ask: Callable[[], Awaitable[Found | None]], *, patience_s: float = PATIENCE_S
    ) -> Found:
        """Ask until the answer is true. Raises DemoFailedError after `patience_s`."""
        end_s = time.monotonic() + patience_s
        while not (found := await ask()):
            if time.monotonic() > end_s:
                raise DemoFailedError(f"after {patience_s:g} s it is not so that {what}")
            await asyncio.sleep(POLL_S)
        return found

    async def comes_to(self, check: Callable[[], Awaitable[None]], *, patience_s: float = PATIENCE_S) -> None:
        """Check until it holds: views follow the log, each with a lag of its own. Raises the last DemoFailedError."""
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
    """Raises DemoFailedError with the problem unless it is so."""
    if not is_so:
        raise DemoFailedError(problem)


def trace_id(traceparent: str) -> str:
    """Of a W3C traceparent; "" if it is none."""
    parts = traceparent.split("-")
    return parts[1] if len(parts) == 4 else ""
