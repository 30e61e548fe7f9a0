"""A started stack as the admin at this machine sees it: the SDK, the log, Jaeger, Prometheus, the containers."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import httpx

from compose.project import Project
from kit.waiting import until_async
from muster.bus.access import ADMIN_TOOLS
from muster.bus.connection import connect_once
from muster.bus.nats_log import NatsLog
from muster.bus.settings import load_settings
from muster.client import Muster, UnavailableError, UnreachableError
from muster.core.fact import Fact
from muster.schemas.job import JobSpec, TaskGroup
from muster.schemas.subjects import LogName, cluster_log
from muster.schemas.views import JobView

TEAM = "research"
"""One of those that the first queues are made for."""

ONCE = frozenset({"init", "bus", "queues"})
"""Containers that do their work and end."""

PATIENCE_S = 180.0
READ_IDLE_S = 0.5
ASKING_POLL_S = 0.1


@dataclass(frozen=True)
class Stack:
    """state_dir: the admin's, copied out of the volume. began_s: when `up` was asked for, on the monotonic clock."""

    project: Project
    state_dir: Path
    began_s: float

    @classmethod
    def started(cls, project: Project, state_dir: Path) -> "Stack":
        began_s = time.monotonic()
        project.up()
        project.copy_out("init:/state/host", state_dir)
        return cls(project, state_dir, began_s)

    @asynccontextmanager
    async def muster(self) -> AsyncIterator[Muster]:
        """The SDK on this machine, through the published port."""
        async with Muster.from_state_dir(self.state_dir) as muster:
            yield muster

    async def first_queues(self) -> None:
        """Wait until the one-shot has asked for them."""

        async def are_there() -> bool:
            try:
                async with self.muster() as muster:
                    return any(queue.name == TEAM for queue in await muster.queues())
            except (UnavailableError, UnreachableError):
                return False

        await until_async(are_there, patience_s=PATIENCE_S)

    async def facts(self, log: LogName | None = None) -> list[Fact]:
        """The facts of a log, by default the cluster's, read over the published port as its admin."""
        told = load_settings(self.state_dir, {})
        settings = told.model_copy(update={"credentials_dir": self.state_dir / "creds"})
        connection = await connect_once(settings, ADMIN_TOOLS)
        try:
            reader = await NatsLog(connection, log or cluster_log(settings.cluster)).reader(after_seq=0)
            facts: list[Fact] = []
            head, seen = await reader.head(), 0
            while seen < head:
                batch = await reader.read(limit=1000, timeout_s=READ_IDLE_S)
                facts += batch.facts
                seen = batch.last_seq
            await reader.close()
            return facts
        finally:
            await connection.close()

    async def trace(self, trace_id: str) -> list[dict[str, object]]:
        """The spans of a trace, as Jaeger's API tells them; none if it has none."""
        url = f"{self.project.url('JAEGER_PORT')}/api/traces/{trace_id}"
        async with httpx.AsyncClient() as client:
            answer = await client.get(url)
        traces = answer.json().get("data") or []
        return [
            {**span, "service": trace["processes"][span["processID"]]["serviceName"]}
            for trace in traces
            for span in trace["spans"]
        ]

    async def query(self, promql: str) -> list[dict[str, object]]:
        """What Prometheus answers: a vector."""
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{self.project.url('PROMETHEUS_PORT')}/api/v1/query", params={"query": promql})
        answer.raise_for_status()
        return cast("list[dict[str, object]]", answer.json()["data"]["result"])

    def kill(self, service: str) -> str:
        """SIGKILL to its process, as the kernel would for want of memory; when that life had begun.

        `docker kill` would also tell the engine that somebody wants it dead, and nothing would start it again. So the
        signal comes from a container that sees the engine's processes: that takes no rights on this machine.
        """
        state = self.project.container(service).attrs["State"]
        self.project.engine.client.containers.run(
            self.project.image, ["-c", f"import os; os.kill({int(state['Pid'])}, 9)"],
            entrypoint="python", user="0:0", pid_mode="host", network_mode="none", remove=True,
        )  # fmt: skip
        return str(state["StartedAt"])

    async def is_back(self, service: str, *, since: str) -> None:
        """Wait until the engine has started it anew."""

        async def runs() -> bool:
            state = (await asyncio.to_thread(self.project.container, service)).attrs["State"]
            return bool(state["Running"]) and state["StartedAt"] != since

        await until_async(runs, patience_s=PATIENCE_S)

    def lasting(self) -> list[str]:
        """Services whose containers run for good."""
        return sorted(set(self.project.containers()) - ONCE)


def job(name: str, *, run_s: float = 0.5) -> JobSpec:
    """A job of one GPU that runs so long and succeeds."""
    return JobSpec(
        name=name,
        team=TEAM,
        task_groups=(TaskGroup(gpus=1, cpu_milli=100, memory_mib=100),),
        labels={"sim.muster.dev/run-s": str(run_s), "sim.muster.dev/exit-code": "0"},
    )


async def submitted(muster: Muster, spec: JobSpec) -> JobView:
    """Accepted, however often it takes: the key makes it one job."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await muster.submit(spec, idempotency_key=f"key-{spec.name}")
            except (UnavailableError, UnreachableError):
                await asyncio.sleep(ASKING_POLL_S)


async def ended(muster: Muster, job_id: str) -> JobView:
    """Wait for its end, through any outage of who is asked."""
    found: list[JobView] = []

    async def has_ended() -> bool:
        try:
            view = await muster.get(job_id)
        except (UnavailableError, UnreachableError):
            return False
        found[:] = [view]
        return view.phase.is_terminal

    try:
        await until_async(has_ended, patience_s=PATIENCE_S)
    except TimeoutError:
        raise AssertionError(f"{job_id} has not ended after {PATIENCE_S:g} s: {found}") from None
    return found[0]
