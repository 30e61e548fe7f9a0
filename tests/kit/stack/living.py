"""A whole stack for tests: the real servers and services on loopback, in a directory of its own."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from nats.aio.client import Client

from kit.invariants import violations
from kit.ports import own_port
from kit.waiting import ASKING_POLL_S, PATIENCE_S, until, until_async
from muster.bus.access import ADMIN_TOOLS
from muster.bus.connection import connect_once
from muster.bus.nats_log import NatsLog
from muster.bus.settings import Settings
from muster.client import Muster
from muster.core.fact import Fact
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import JobSpec, TaskGroup
from muster.schemas.subjects import FED_LOG, LogName, cluster_log
from muster.schemas.views import JobView
from muster.stack.declared import SERVICES, check_settings, declaration_of, services_of, users_of_bus
from muster.stack.options import StartOptions, asked_settings, metrics_name
from muster.stack.ports import USUAL_PORTS
from muster.stack.up import RunningStack, start

READ_IDLE_S = 0.5
TEAM = "physics"
PASSED = ("gateway", "federation", "scheduler", "agent", "projector")
"""The services that a plain job passes through: enough where each is a process, and none of the others is asked."""


def options(
    state_dir: Path, *, nodes: int = 16, split: bool = False, services: Sequence[str] = SERVICES, **bus: object
) -> StartOptions:
    """A small fleet whose pods start at once. bus: fields of BusSettings."""
    return StartOptions(
        state_dir=state_dir,
        split=split,
        services=tuple(services),
        settings={
            "fleet": {"nodes": nodes, "gpus_per_node": 8},
            "simulation": {"start_s": 0.05, "run_s": 1.0, "job_failure_share": 0.0, "telemetry_interval_s": 0},
            "bus": {"lease_ttl_s": 1.0, **bus},
            "http": {"live_credential_s": 900},  # tests listen to the live view without renewing
        },
        sync_interval_s=120.0,
    )


@dataclass
class Harness:
    """A running stack and a client of it."""

    stack: RunningStack
    muster: Muster

    @property
    def settings(self) -> Settings:
        return self.stack.settings

    def pid(self, process: str) -> int:
        """Of a child that runs now."""
        pids = {child.name: child.pid for child in self.stack.children()}
        found = pids[process]
        assert found is not None, f"{process} is not running"
        return found

    async def kill(self, process: str) -> None:
        """SIGKILL, and wait until the supervisor has started it anew."""
        old = self.pid(process)
        os.kill(old, signal.SIGKILL)
        await until(lambda: any(c.name == process and c.pid not in (None, old) for c in self.stack.children()))

    @asynccontextmanager
    async def connection(self, user: str = ADMIN_TOOLS) -> AsyncIterator[Client]:
        """To the bus, as who exports and trims if nobody else is named."""
        connection = await connect_once(self.settings, user)
        try:
            yield connection
        finally:
            await connection.close()

    async def facts(self, log: LogName | None = None, *, after_seq: int = 0) -> list[Fact]:
        """The facts of a log (the cluster's, if none is named), as any service would read them."""
        async with self.connection() as connection:
            reader = await NatsLog(connection, log or cluster_log(self.settings.cluster)).reader(after_seq=after_seq)
            facts: list[Fact] = []
            head, seen = await reader.head(), after_seq
            while seen < head:
                batch = await reader.read(limit=1000, timeout_s=READ_IDLE_S)
                facts += batch.facts
                seen = batch.last_seq
            await reader.close()
            return facts

    async def metric(self, name: str, **labels: str) -> float:
        """Sum of the samples of that name whose labels match, over all processes; 0 if there are none."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        async with httpx.AsyncClient() as client:
            pages = [(await client.get(url)).text for url in self.stack.endpoints.metrics]
        lines = [line for page in pages for line in page.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(label in line for label in wanted))

    async def violations(self, accepted: list[str], *, all_ended: bool = True) -> list[str]:
        """Breaches of the invariants in the cluster's log so far."""
        return violations(await self.facts(), accepted=accepted, all_ended=all_ended)

    async def post(self, spec: JobSpec, *, key: str) -> httpx.Response:
        """One POST as any HTTP client makes it: no retries, the answer as it is."""
        headers = {"Authorization": f"Bearer {self.stack.state.token.read_text().strip()}", "Idempotency-Key": key}
        async with httpx.AsyncClient(base_url=self.stack.endpoints.http, timeout=PATIENCE_S) as client:
            return await client.post("/v1/jobs", content=spec.model_dump_json(exclude_unset=True), headers=headers)

    async def ended(self, job_ids: list[str], *, patience_s: float = PATIENCE_S) -> list[JobView]:
        """Wait until all these jobs have ended."""
        return [await self.job_that(job_id, lambda job: job.phase.is_terminal, patience_s) for job_id in job_ids]

    async def job_that(self, job_id: str, is_so: Callable[[JobView], bool], patience_s: float = PATIENCE_S) -> JobView:
        """Wait until the job is so; fails with how it stood last."""
        job = await self.muster.get(job_id)
        try:
            async with asyncio.timeout(patience_s):
                while not is_so(job):
                    await asyncio.sleep(ASKING_POLL_S)
                    job = await self.muster.get(job_id)
        except TimeoutError:
            raise AssertionError(f"still not so after {patience_s:g} s: {job!r}") from None
        return job

    async def federation_facts(self) -> list[Fact]:
        """Every fact of FED."""
        return await self.facts(FED_LOG)


def job(name: str, *, gpus: int = 1, replicas: int = 1, run_s: float = 0.5, **fields: object) -> JobSpec:
    """A job of the tests' team that runs so long."""
    return JobSpec.model_validate(
        {
            "name": name,
            "team": TEAM,
            "task_groups": [TaskGroup(gpus=gpus, replicas=replicas, cpu_milli=100, memory_mib=100).model_dump()],
            "labels": {"sim.muster.dev/run-s": str(run_s), "sim.muster.dev/exit-code": "0"},
            **fields,
        }
    )


@asynccontextmanager
async def second(service: str, harness: Harness) -> AsyncIterator[int]:
    """Another process of a service on the same log, by its pid: it follows until the first one's lease ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "muster.cli.main", "serve", service, "--state-dir", str(harness.settings.state_dir),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "MUSTER_METRICS_PORT": "0"},
    )  # fmt: skip
    try:
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def open_harness(start_options: StartOptions) -> AsyncIterator[Harness]:
    """A stack with the tests' queue, ended at the end."""
    stack = await start(_prepared(start_options))
    try:
        async with Muster.from_state_dir(start_options.state_dir) as muster:
            await muster.set_queue(QueueSpec(name=TEAM))
            await until_async(lambda: _has_queue(muster))
            yield Harness(stack, muster)
    finally:
        await stack.stop()


def _prepared(asked: StartOptions) -> StartOptions:
    """On this worker's own ports, where any would do, and with the users that the services declare.

    A start asks a child for those, which imports every service for it: seconds, that most tests need not wait for.
    Pages of the documents and federations are started by `muster.stack` alone.
    """
    names = (*USUAL_PORTS, *map(metrics_name, asked.processes()), *asked.ports)
    ports = {name: asked.ports.get(name) or own_port() for name in names}
    settings = asked_settings(asked)
    services = tuple(name for name in asked.services if name in services_of(settings))
    for service in services:
        check_settings(service, settings)
    users = asked.users or users_of_bus(map(declaration_of, services), settings)
    return asked.model_copy(update={"ports": ports, "users": users})


async def command(state_dir: Path, *words: str) -> str:
    """A `muster` command as a user gives it; what it said. Fails if it failed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "muster.cli.main", *words, "--state-dir", str(state_dir),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, complained = await process.communicate()
    assert process.returncode == 0, f"muster {' '.join(words)}: {process.returncode}\n{complained.decode()}"
    return said.decode()


async def _has_queue(muster: Muster) -> bool:
    return any(queue.name == TEAM for queue in await muster.queues())
