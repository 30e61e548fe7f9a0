"""Benchmark of a surge: thousands of jobs at once through a fresh stack, first cold, then warm."""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import JsonValue

from muster.bus import jsapi
from muster.bus.access import READER
from muster.bus.connection import connect_once
from muster.cli import output
from muster.cli.fleet_ready import fleet_ready
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Phase
from muster.schemas.subjects import FED_LOG, cluster_log
from muster_tools.bench.fresh_stack import (
    FreshStack,
    Progress,
    Say,
    fresh_stack,
    refuse_unless_all_accepted,
    run_in_fresh_directory,
)
from muster_tools.bench.load import Submitted, in_parallel, steady, submit
from muster_tools.bench.workload import LONG_RUN_S, TEAM, Times, bodies, times

GPUS_PER_NODE = 8
RATE_RUN_S = 15.0  # at 200 jobs/s of 2.9 GPUs on average, 8,600 of 14,000 GPUs are held
POLL_S = 0.25
SETTLED_S = 20.0  # without a change for this time, unplaced jobs count as stranded
CANCELS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters. rate: jobs per second over `duration_s`, 0 for `workloads` at once. split: a process per service."""

    nodes: int
    workloads: int
    rate: float
    duration_s: float
    connections: int
    split: bool

    @property
    def count(self) -> int:
        """Return the number of jobs of one round."""
        return round(self.rate * self.duration_s) if self.rate else self.workloads

    @property
    def run_s(self) -> float:
        """Return the run time of each job: longer than the round, or RATE_RUN_S if jobs come at a rate."""
        return RATE_RUN_S if self.rate else LONG_RUN_S


@dataclass(frozen=True, slots=True)
class Round:
    """Figures of one round."""

    times: Times
    submit_per_s: float
    rss_mib: dict[str, float]
    """Memory by process at the end."""
    cpu_s: dict[str, float]
    """Processor time by process during the round; unlike wall time, it hardly depends on other load."""
    log_messages: int
    """Messages stored in the logs by the round."""

    def document(self) -> dict[str, JsonValue]:
        """Return one round as JSON; its keys are stable."""
        return {
            **asdict(self.times),
            "submit_per_s": self.submit_per_s,
            "rss_mib": dict(self.rss_mib),
            "rss_mib_total": round(sum(self.rss_mib.values()), 1),
            "cpu_s": dict(self.cpu_s),
            "log_messages": self.log_messages,
        }


async def measure(plan: Plan, directory: Path, *, say: Say, progress: Progress) -> tuple[Round, Round]:
    """Start a stack in `directory`, run both rounds, stop it. Raises CliError, StartFailedError, StateDirError."""
    settings = {
        "fleet": {"nodes": plan.nodes, "gpus_per_node": GPUS_PER_NODE},
        "simulation": {"job_failure_share": 0.0},
    }
    what = f"a stack of {plan.nodes} nodes"
    async with fresh_stack(directory, settings, split=plan.split, say=say, what=what) as stack:
        bench = _Bench(plan, stack, say=say, progress=progress)
        await bench.prepare()
        cold = await bench.round("cold")
        await bench.clear()
        return cold, await bench.round("warm")


class _Bench:
    """One stack under measurement."""

    def __init__(self, plan: Plan, stack: FreshStack, *, say: Say, progress: Progress) -> None:
        self._plan = plan
        self._stack = stack
        self._muster = stack.muster
        self._say = say
        self._progress = progress

    async def prepare(self) -> None:
        """Wait for the queue and for all nodes: the surge measures jobs, not the start of the fleet."""
        await self._muster.set_queue(QueueSpec(name=TEAM))
        await fleet_ready(self._muster, nodes=self._plan.nodes, queue=TEAM)

    async def round(self, name: str) -> Round:
        """Submit all jobs, wait until they run (or nothing changes), and return the figures."""
        stored, spent_s = await self._stored(), self._stack.cpu_s()
        self._say(f"{name}: submitting {self._plan.count} jobs")
        sent = await self._submit(name)
        refuse_unless_all_accepted(sent, count=self._plan.count)
        await self._settled(sent.accepted)
        jobs = await self._muster.list(team=TEAM, limit=self._plan.count)  # newest first: this round's
        return Round(
            times=times(jobs, submitted=sent.accepted, first_submit_ns=sent.first_ns),
            submit_per_s=round(sent.accepted / sent.took_s, 1),
            rss_mib={name: round(rss_mib, 1) for name, rss_mib in self._stack.rss_mib().items()},
            cpu_s=self._stack.cpu_s_since(spent_s),
            log_messages=await self._stored() - stored,
        )

    async def clear(self) -> None:
        """Cancel all live jobs and wait until no resources are held."""
        live = await self._muster.list(team=TEAM, live_only=True, limit=self._plan.count)
        self._say(f"cancelling {len(live)} jobs")
        await in_parallel((self._cancel(job.id) for job in live), at_once=CANCELS_AT_ONCE)
        while any(await self._queue()):  # noqa: ASYNC110 - over HTTP
            await asyncio.sleep(POLL_S)

    async def _submit(self, name: str) -> Submitted:
        return await submit(
            bodies(self._plan.count, prefix=name, run_s=self._plan.run_s),
            url=self._stack.url, token=self._stack.token, connections=self._plan.connections,
            pace_s=steady(self._plan.rate), progress=self._progress,
        )  # fmt: skip

    async def _cancel(self, job_id: str) -> None:
        await self._muster.cancel(job_id, reason="bench")

    async def _settled(self, count: int) -> None:
        """Wait until all jobs run (or have ended, with a rate), or nothing has changed for SETTLED_S."""
        before, since_s = (-1, -1), time.monotonic()
        while True:
            waiting, holding = now = await self._queue()
            if self._plan.rate and now == (0, 0):
                return
            if now != before:
                before, since_s = now, time.monotonic()
            elif (
                not self._plan.rate and waiting == 0 and holding == count and await self._all_run()
            ) or time.monotonic() - since_s > SETTLED_S:
                return
            await asyncio.sleep(POLL_S)

    async def _all_run(self) -> bool:
        return not await self._muster.list(team=TEAM, phase=Phase.PLACED, limit=1)

    async def _queue(self) -> tuple[int, int]:
        """Return the number of pending and of placed jobs."""
        found = next(queue for queue in await self._muster.queues() if queue.name == TEAM)
        return found.jobs_queued, found.jobs_running

    async def _stored(self) -> int:
        """Return the number of messages in the cluster's log and in FED."""
        client = await connect_once(self._stack.settings, READER)
        try:
            infos = [
                await jsapi.stream_info(client, log.stream)
                for log in (FED_LOG, cluster_log(self._stack.settings.cluster))
            ]
        finally:
            await client.close()
        return sum(info.state.last_seq for info in infos if info is not None)


def run(plan: Plan, form: Output) -> None:
    """Run the benchmark and print its results. Raises CliError."""
    machine = this_machine()
    cold, warm = _measured(plan)
    if form is Output.JSON:
        output.emit_json(
            {
                **cold.document(),
                "warm": warm.document(),
                "nodes": plan.nodes,
                "workloads": plan.count,
                "rate": plan.rate,
                "machine": asdict(machine),
            }
        )
        return
    print_line(sentence(machine))
    rows: list[tuple[str, ...]] = list(zip(_NAMES, _cells(cold), _cells(warm), strict=True))
    rows += [
        (f"  {name}", f"{mib:.0f} MiB", f"{warm.rss_mib.get(name, 0.0):.0f} MiB") for name, mib in cold.rss_mib.items()
    ]
    output.table(("", "COLD", "WARM"), rows, right=("COLD", "WARM"))


def _measured(plan: Plan) -> tuple[Round, Round]:
    def run_once(directory: Path, say: Say, progress: Progress) -> Coroutine[None, None, tuple[Round, Round]]:
        return measure(plan, directory, say=say, progress=progress)

    return run_in_fresh_directory(run_once, total=plan.count)


_NAMES = (
    "placed", "stranded", "first submit to last placed", "first submit to last running", "placed per second",
    "accepted per second", "submit to placed p50", "p99", "max", "messages in the logs", "memory",
)  # fmt: skip


def _cells(one: Round) -> tuple[str, ...]:
    waits = one.times.submit_to_placed_ms
    return (
        f"{one.times.placed}", f"{one.times.stranded}", f"{one.times.wall_placed_s:.2f} s",
        f"{one.times.wall_running_s:.2f} s", f"{one.times.placed_per_s:.0f}/s", f"{one.submit_per_s:.0f}/s",
        f"{waits.p50:.0f} ms", f"{waits.p99:.0f} ms", f"{waits.max:.0f} ms", f"{one.log_messages}",
        f"{sum(one.rss_mib.values()):.0f} MiB",
    )  # fmt: skip
