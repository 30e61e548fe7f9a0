"""Benchmark of fault handling on a fresh stack: time until jobs avoid a node, and rate of reported faults.

Readings are published on the bus as the telemetry service would publish them, so the measurement begins when a page was
read; the way from the GPU to the reading takes at most one scrape interval. Both parts are computed from the
time-stamps of the log.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nats.aio.client import Client

from muster.bus.access import ADMIN_TOOLS
from muster.bus.archive import export_log
from muster.bus.archive_file import read_archive
from muster.cli.bus_session import on_bus
from muster.cli.errors import refused
from muster.cli.fleet_ready import fleet_ready
from muster.cli.machine import this_machine
from muster.cli.options import Output
from muster.core.instant import seconds_between
from muster.schemas.facts.health import FaultObserved
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import JobSpec, Phase, TaskGroup
from muster.schemas.subjects import cluster_log, parse_subject, telemetry_subject
from muster.schemas.telemetry import DeviceSample, NodeSample
from muster_tools.bench.figures import print_figures
from muster_tools.bench.fresh_stack import FreshStack, Progress, Say, fresh_stack, run_in_fresh_directory
from muster_tools.bench.workload import TEAM

GPUS_PER_NODE = 8
MODEL = "NVIDIA H100 80GB HBM3"
OFF_THE_BUS = 79
MINOR = (13, 31, 43, 45, 63, 68, 69, 92, 109, 154)
"""Codes that take no device out of use, so that many can be reported without end."""
GANG_NODES = 2
READY_S_MAX, SETTLE_S_MAX, POLL_S = 60.0, 60.0, 0.1
TICK_S = 0.05


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of the benchmark."""

    nodes: int = 256
    """Number of nodes with 8 GPUs each."""
    gangs: int = 20
    """Number of gangs of 16 GPUs; one node of each gets a fault."""
    rate: int = 2_000
    """Events per second; each is another code on another GPU, so that none is part of a burst."""
    duration_s: float = 10.0

    @property
    def events(self) -> int:
        """Return the number of events of the second part."""
        room = (self.nodes - self.gangs) * GPUS_PER_NODE * len(MINOR)
        return min(round(self.rate * self.duration_s), room)

    def settings(self) -> dict[str, object]:
        """Return the settings of the stack: no other reader of pages, and no brake on many faults."""
        return {
            "fleet": {"nodes": self.nodes, "gpu_model": MODEL},
            "simulation": {"telemetry_interval_s": 0, "output_interval_s": 0, "job_failure_share": 0, "run_s": 3_600},
            "telemetry": {"enabled": False},
            "health": {"brake": {"share": 1.0, "nodes_min": self.nodes}, "lemons": {"incidents": 64}},
        }


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution in milliseconds."""

    p50: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Results of the benchmark."""

    gangs: int
    avoided_ms: Spread
    """From the reading to the request that keeps jobs off the node."""
    requeued_ms: Spread
    """From the fault's fact until the gang is queued again."""
    events: int
    sent_per_s: float
    told: int
    told_per_s: float
    """Facts of faults per second, over the second part."""
    told_ms: Spread
    """From the reading to the fact, at the given rate."""
    health_cpu_s: float
    """Processor time of the health service during the second part."""
    nodes: int


async def measure(plan: Plan, directory: Path, *, say: Say, progress: Progress) -> HealthReport:
    """Start a stack in `directory`, inject faults, stop it. Raises CliError, StartFailedError, StateDirError."""
    async with fresh_stack(directory, plan.settings(), split=True, say=say, what="a stack") as stack:
        await stack.muster.set_queue(QueueSpec(name=TEAM))
        await fleet_ready(stack.muster, nodes=plan.nodes, queue=TEAM)
        say(f"injecting faults into {plan.gangs} gangs of {GANG_NODES * GPUS_PER_NODE} GPUs")
        hurt = await _hurt_gangs(stack, plan, progress)
        say(f"{plan.events} events at {plan.rate}/s")
        before = stack.cpu_s()
        began_s = time.monotonic()
        await on_bus(stack.settings, "telemetry", lambda client: _storm(client, stack, plan, hurt))
        sent_s = time.monotonic() - began_s
        told = await _told(stack, directory / "bench.log", plan, hurt)
        cpu_s = stack.cpu_s_since(before).get("health", 0.0)
    return _report(plan, hurt, told, sent_s=sent_s, health_cpu_s=cpu_s)


# --- gangs ---------------------------------------------------------------------------------------------------------


async def _hurt_gangs(stack: FreshStack, plan: Plan, progress: Progress) -> dict[str, tuple[str, int]]:
    """Inject a fault on one node of each gang, one after the other; return node and reading time by job."""
    hurt: dict[str, tuple[str, int]] = {}
    group = TaskGroup(replicas=GANG_NODES, gpus=GPUS_PER_NODE, cpu_milli=1_000, memory_mib=1_024)
    for index in range(plan.gangs):
        spec = JobSpec(name=f"gang-{index}", team=TEAM, queue=TEAM, command=("train",), task_groups=(group,))
        job = await stack.muster.submit(spec)
        node = (await _running(stack, job.id))[0]

        async def read(client: Client, node: str = node) -> int:
            at = time.time_ns()  # noqa: TID251 - a benchmark measures against the broker's clock
            await _publish(client, stack, node, at - 1, {})  # else a repaired node still shows its last code
            await _publish(client, stack, node, at, {0: OFF_THE_BUS})
            return at

        hurt[job.id] = node, await on_bus(stack.settings, "telemetry", read)
        await _running(stack, job.id, unlike=node)
        progress(index + 1)
    return hurt


async def _running(stack: FreshStack, job_id: str, *, unlike: str = "") -> Sequence[str]:
    """Return the nodes of the job once it runs, on nodes other than `unlike`. Raises CliError."""
    deadline_s = time.monotonic() + READY_S_MAX
    while time.monotonic() < deadline_s:
        job = await stack.muster.get(job_id)
        if job.phase is Phase.RUNNING and unlike not in job.nodes:
            return job.nodes
        await asyncio.sleep(POLL_S)
    raise refused(f"job {job_id} did not start within {READY_S_MAX:g} s; see the logs in {stack.directory}")


# --- storm ---------------------------------------------------------------------------------------------------------


async def _storm(client: Client, stack: FreshStack, plan: Plan, hurt: Mapping[str, tuple[str, int]]) -> None:
    """Publish events, each another (GPU, code): a page of one node carries one for each of its GPUs.

    Nodes under repair are left out, because their pages show the repair.
    """
    ill = {node for node, _ in hurt.values()}
    prefix = stack.settings.fleet.prefix
    names = sorted(
        node.name for node in await stack.muster.nodes() if node.name.startswith(prefix) and node.name not in ill
    )
    pages = _pages(names, plan)
    per_tick = plan.rate * TICK_S / GPUS_PER_NODE
    began_s, sent = time.monotonic(), 0.0
    for turn in range(1, round(plan.duration_s / TICK_S) + 1):
        while sent < turn * per_tick:
            page = next(pages, None)
            if page is None:
                return
            await _publish(client, stack, page[0], time.time_ns(), page[1])  # noqa: TID251 - as above
            sent += 1
        await asyncio.sleep(max(0.0, began_s + turn * TICK_S - time.monotonic()))
    await client.flush()


def _pages(names: Sequence[str], plan: Plan) -> Iterator[tuple[str, dict[int, int]]]:
    left = plan.events
    for code in MINOR:
        for name in names:
            if left <= 0:
                return
            left -= GPUS_PER_NODE
            yield name, dict.fromkeys(range(GPUS_PER_NODE), code)


async def _publish(client: Client, stack: FreshStack, node: str, at: int, xids: Mapping[int, int]) -> None:
    devices = tuple(
        DeviceSample(
            index=index, uuid=f"GPU-{node}-{index}", utilisation_pct=90, memory_used_mib=70_000,
            memory_total_mib=81_559, power_w=600, temperature_c=60, xid=xids.get(index, 0), remap_pending=False,
            remap_failed=False,
        )
        for index in range(GPUS_PER_NODE)
    )  # fmt: skip
    sample = NodeSample(node=node, at=at, gpu_model=MODEL, devices=devices, gpus_expected=GPUS_PER_NODE)
    subject = telemetry_subject(stack.settings.cluster, node)
    await client.publish(subject, sample.model_dump_json().encode())


# --- from the log --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """Times read from the log, in nanoseconds."""

    observed: dict[str, list[int]]
    """When grave faults were reported, by node."""
    withheld: dict[str, list[int]]
    """When nodes were drained, by node."""
    queued: dict[str, list[int]]
    """When jobs were queued, by job, each time."""
    minor: list[tuple[int, int]]
    """(read, reported) of each event of the second part."""


async def _told(stack: FreshStack, file: Path, plan: Plan, hurt: Mapping[str, tuple[str, int]]) -> Told:
    """Read the log until all faults were reported or no more facts come. Raises CliError."""
    deadline_s, before = time.monotonic() + SETTLE_S_MAX, -1
    while True:
        found = await _read(stack, file)
        if len(found.minor) >= plan.events or time.monotonic() > deadline_s or len(found.minor) == before:
            break
        before = len(found.minor)
        await asyncio.sleep(1.0)
    missing = [node for node, _ in hurt.values() if node not in found.withheld]
    if missing:
        raise refused(f"{len(missing)} nodes were not avoided: {', '.join(missing[:5])}")
    return found


async def _read(stack: FreshStack, file: Path) -> Told:
    log = cluster_log(stack.settings.cluster)
    await on_bus(stack.settings, ADMIN_TOOLS, lambda client: export_log(client, log, file))
    found = Told({}, {}, {}, [])
    for message in await asyncio.to_thread(lambda: list(read_archive(file, log))):
        parsed = parse_subject(log, message.subject)
        if parsed is None:
            continue
        match parsed.kind, parsed.name:
            case "node", "fault-observed":
                fault = FaultObserved.model_validate_json(message.content)
                if fault.fault_class.is_hardware:
                    found.observed.setdefault(parsed.subject_id, []).append(message.time)
                else:
                    found.minor.extend([(fault.at, message.time)] * fault.count)
            case "node", "withhold-requested":
                found.withheld.setdefault(parsed.subject_id, []).append(message.time)
            case "job", "queued":
                found.queued.setdefault(parsed.subject_id, []).append(message.time)
    return found


def _report(
    plan: Plan, hurt: Mapping[str, tuple[str, int]], told: Told, *, sent_s: float, health_cpu_s: float
) -> HealthReport:
    avoided = [seconds_between(at, _next(told.withheld[node], at)) for node, at in hurt.values()]
    seen = {job: _next(told.observed[node], at) for job, (node, at) in hurt.items()}
    requeued = [seconds_between(at, _next(told.queued[job], at)) for job, at in seen.items()]
    spans = [seconds_between(read, at) for read, at in told.minor]
    wall_s = seconds_between(min(read for read, _ in told.minor), max(at for _, at in told.minor))
    return HealthReport(
        gangs=plan.gangs,
        avoided_ms=spread_ms(avoided),
        requeued_ms=spread_ms(requeued),
        events=plan.events,
        sent_per_s=round(plan.events / sent_s, 1),
        told=len(told.minor),
        told_per_s=round(len(told.minor) / wall_s, 1),
        told_ms=spread_ms(spans),
        health_cpu_s=health_cpu_s,
        nodes=plan.nodes,
    )


def _next(moments: Sequence[int], after: int) -> int:
    """Return the first of the moments at or after `after`. Raises CliError if there is none."""
    found = min((moment for moment in moments if moment >= after), default=0)
    if not found:
        raise refused("a node was not avoided, or a gang not queued again, after its fault")
    return found


def spread_ms(seconds: Sequence[float]) -> Spread:
    """Return the percentiles, in milliseconds."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    p50, p99 = ordered[last // 2], ordered[round(last * 0.99)]
    return Spread(round(p50 * 1000, 1), round(p99 * 1000, 1), round(ordered[-1] * 1000, 1))


def run(plan: Plan, form: Output) -> None:
    """Run the benchmark and print its results. Raises CliError."""
    machine = this_machine()

    def run_once(directory: Path, say: Say, progress: Progress) -> Coroutine[None, None, HealthReport]:
        return measure(plan, directory, say=say, progress=progress)

    found = run_in_fresh_directory(run_once, total=plan.gangs, what="gangs hurt")
    print_figures(machine, asdict(found), _rows(found), form=form)


def _rows(found: HealthReport) -> list[tuple[str, str]]:
    return [
        ("node avoided", f"{_words(found.avoided_ms)} after a page showed its fault ({found.gangs} gangs)"),
        ("gang in its queue", f"{_words(found.requeued_ms)} after the fault was reported"),
        ("events", f"{found.events} on {found.nodes} nodes, sent at {found.sent_per_s:.0f}/s"),
        ("reported", f"{found.told}, {found.told_per_s:.0f}/s; each {_words(found.told_ms)} after its page"),
        ("health's processor time", f"{found.health_cpu_s:.2f} s"),
    ]


def _words(spread: Spread) -> str:
    return f"{spread.p50:.0f} ms median, {spread.p99:.0f} ms p99, {spread.max:.0f} ms at most"
