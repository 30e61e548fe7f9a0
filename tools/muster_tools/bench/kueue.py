"""`muster bench kueue`: a separate stack, generators over HTTP, and the logs read after the last job has ended."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import JsonValue

from muster.bus.access import READER
from muster.bus.connection import connect_once
from muster.bus.nats_log import NatsLog
from muster.cli import output
from muster.cli.fleet_ready import fleet_ready
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.schemas.subjects import FED_LOG, cluster_log
from muster_tools.bench.fresh_stack import (
    FreshStack,
    Progress,
    Say,
    fresh_stack,
    refuse_unless_all_accepted,
    run_in_fresh_directory,
)
from muster_tools.bench.kueue_figures import Courses, KueueFigures
from muster_tools.bench.kueue_input import arrivals, floor_s, queue_names, queues, total
from muster_tools.bench.load import Submitted, submit

NODES = 16
NODE_CPU_MILLI = 128_000
"""2,048 CPUs for 600 of quota: as in Kueue's test, quota is the limit and never the machines."""
POLL_S = 0.5
MEMORY_S = 2.0
IDLE_S = 2.0  # all have ended once no job is pending or running for this time
SETTLED_S = 30.0  # without a change for this time, the remaining jobs never end
READ_FACTS = 1_000


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of the benchmark. share: fraction of each generator's jobs. split: one process per service."""

    share: float
    connections: int
    split: bool

    @property
    def count(self) -> int:
        """Return the total number of jobs."""
        return total(self.share)


@dataclass(frozen=True, slots=True)
class KueueReport:
    """Results of the benchmark."""

    figures: KueueFigures
    floor_s: float
    late_s_max: float
    """Maximum delay of the generator behind its schedule."""
    rss_mib_max: float
    """Peak memory of all processes of the stack."""
    cpu_s: dict[str, float]
    """Processor time by process, from the first submission to the end."""

    def document(self) -> dict[str, JsonValue]:
        """Return the results as JSON; its keys are stable."""
        figures = asdict(self.figures)
        return {
            **figures,
            "floor_s": round(self.floor_s, 2),
            "late_s_max": self.late_s_max,
            "rss_mib_max": self.rss_mib_max,
            "cpu_s": dict(self.cpu_s),
        }


async def measure(plan: Plan, directory: Path, *, say: Say, progress: Progress) -> KueueReport:
    """Start a stack in `directory`, run the workload, stop it. Raises CliError, StartFailedError, StateDirError."""
    settings = {
        "fleet": {"nodes": NODES, "gpus_per_node": 0, "cpu_milli": NODE_CPU_MILLI},
        "simulation": {"start_s": 0.0, "job_failure_share": 0.0},
    }
    async with fresh_stack(directory, settings, split=plan.split, say=say) as stack:
        return await _Rig(plan, stack, say=say, progress=progress).run()


class _Rig:
    """One stack under measurement."""

    def __init__(self, plan: Plan, stack: FreshStack, *, say: Say, progress: Progress) -> None:
        self._plan = plan
        self._stack = stack
        self._muster = stack.muster
        self._say = say
        self._progress = progress
        self._rss_mib_max = 0.0

    async def run(self) -> KueueReport:
        """Create the queues, submit at the generators' rate, wait for the last end, read the logs."""
        await self._muster.set_queues(list(queues()))
        await fleet_ready(self._muster, nodes=NODES, queue=queue_names()[-1])
        spent_s = self._stack.cpu_s()
        self._say(f"submitting {self._plan.count} jobs at the generators' rate")
        async with self._memory_watched():
            sent = await self._submit()
            await self._idle()
        refuse_unless_all_accepted(sent, count=self._plan.count)
        cpu_s = self._stack.cpu_s_since(spent_s)
        self._say("reading the logs")
        return KueueReport(
            figures=(await self._courses()).figures(),
            floor_s=floor_s(self._plan.share),
            late_s_max=round(sent.late_s_max, 3),
            rss_mib_max=round(self._rss_mib_max, 1),
            cpu_s=cpu_s,
        )

    async def _submit(self) -> Submitted:
        coming = tuple(arrivals(self._plan.share))
        return await submit(
            ((one.key, one.body) for one in coming),
            url=self._stack.url,
            token=self._stack.token,
            connections=self._plan.connections,
            pace_s=(one.due_s for one in coming),
            progress=self._progress,
        )

    async def _idle(self) -> None:
        """Wait until every job has ended, or nothing has changed for SETTLED_S."""
        before, since_s = (-1, -1), time.monotonic()
        while True:
            now = await self._counts()
            if now != before:
                before, since_s = now, time.monotonic()
            calm_s = time.monotonic() - since_s
            if calm_s > (IDLE_S if now == (0, 0) else SETTLED_S):
                return
            await asyncio.sleep(POLL_S)

    async def _counts(self) -> tuple[int, int]:
        """Return the number of pending and of placed jobs in all queues."""
        found = await self._muster.queues()
        return sum(queue.jobs_queued for queue in found), sum(queue.jobs_running for queue in found)

    @asynccontextmanager
    async def _memory_watched(self) -> AsyncIterator[None]:
        """Track the peak memory of the stack while the block runs."""

        async def watch() -> None:
            while True:
                self._rss_mib_max = max(self._rss_mib_max, sum(self._stack.rss_mib().values()))
                await asyncio.sleep(MEMORY_S)

        watching = asyncio.create_task(watch(), name="memory of the stack")
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    async def _courses(self) -> Courses:
        courses = Courses()
        client = await connect_once(self._stack.settings, READER)
        try:
            for name in (FED_LOG, cluster_log(self._stack.settings.cluster)):
                reader = await NatsLog(client, name).reader(after_seq=0)
                head, last = await reader.head(), 0
                while last < head:
                    batch = await reader.read(limit=READ_FACTS, timeout_s=1.0)
                    courses.fold(batch.facts)
                    last = batch.last_seq
                await reader.close()
        finally:
            await client.close()
        return courses


RIG = (
    "HTTP, gateway, NATS with all facts on disk, federation, scheduler, agent with simulated pods, read model; "
    "no API server and no kubelets. Kueue's own rig has an API server and no kubelets, and its controller uses it."
)
KUEUE = "351 to 432 s wall, large jobs admitted after 23 to 39 s on average, 661 MiB (Kueue, published and re-run)"


def run(plan: Plan, form: Output) -> None:
    """Run the benchmark and print its results. Raises CliError."""
    machine = this_machine()
    found = _measured(plan)
    if form is Output.JSON:
        output.emit_json({**found.document(), "share": plan.share, "rig": RIG, "machine": asdict(machine)})
        return
    print_line(sentence(machine))
    output.details(_rows(plan, found))
    rows = [
        (
            name, f"{one.jobs}", f"{one.admission_mean_s:.2f} s", f"{one.admission_max_s:.2f} s",
            f"{1000 * one.held_over_run_s:.0f} ms",
        )
        for name, one in found.figures.by_class.items()
    ]  # fmt: skip
    headings = ("CLASS", "JOBS", "ADMITTED AFTER, MEAN", "MAX", "HELD OVER RUN TIME")
    output.table(headings, rows, right=headings[1:])


def _measured(plan: Plan) -> KueueReport:
    def run_once(directory: Path, say: Say, progress: Progress) -> Coroutine[None, None, KueueReport]:
        return measure(plan, directory, say=say, progress=progress)

    return run_in_fresh_directory(run_once, total=plan.count)


def _rows(plan: Plan, found: KueueReport) -> list[tuple[str, str]]:
    figures = found.figures
    spent = ", ".join(f"{name} {cpu_s:.1f}" for name, cpu_s in found.cpu_s.items())
    return [
        ("rig", RIG),
        ("workload", f"{plan.count} jobs of Kueue's baseline test, {figures.succeeded} succeeded"),
        ("wall", f"{figures.wall_s:.1f} s from the first submission to the last end (floor {found.floor_s:.0f} s)"),
        ("rate", f"{figures.jobs_per_s:.1f} jobs/s"),
        (
            "CPU use",
            f"{figures.use_pct:.1f} % of the nominal quota, {figures.use_min_pct:.1f} % in the least used queue",
        ),
        ("preemptions", f"{figures.preemptions}"),
        ("memory", f"{found.rss_mib_max:.0f} MiB at most, all processes of the stack"),
        ("processor time", f"{spent} s"),
        ("generator", f"at most {found.late_s_max:.2f} s behind its schedule"),
        ("to compare", KUEUE),
    ]
