"""Benchmark of scraping a fleet's exporters: the steps for one page, and rounds over all nodes as the service does.

The exporters and the nats-server run in processes of their own. Only processor time of the scraping process counts.
"""

import asyncio
import gc
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

import psutil
import uvloop
from nats.aio.client import Client
from prometheus_client.parser import text_string_to_metric_families

from muster.bus.clock import SystemTime
from muster.bus.host import COLLECTOR_THRESHOLDS
from muster.bus.service import LeaderHandle
from muster.cli import output
from muster.cli.machine import this_machine
from muster.cli.options import Output
from muster.cli.progress import measured
from muster.core import after
from muster.schemas.telemetry import ExporterState
from muster.stack.ports import LOOPBACK, free_port
from muster.stack.probes import http_answers
from muster.telemetry.app import Answer, Scrapes
from muster.telemetry.core.config import TelemetryConfig
from muster.telemetry.core.core import TelemetryCore
from muster.telemetry.core.plans import Pages
from muster.telemetry.simulator.world import World
from muster_tools.bench.figures import print_figures
from muster_tools.bench.log import own_server
from muster_tools.bench.telemetry_exporters import COLLECT_S, SEED
from muster_tools.bench.telemetry_fleet import CLUSTER, fleet_facts, node_name

TIMEOUT_S = 5.0
STALE_S = 120.0
READY_S_MAX = 60.0
PAGES_TIMED = 200
LIBRARY_PAGES_TIMED = 20
POLL_S = 0.05
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters: nodes with `gpus` each, scraped every `interval_s`, for `rounds` rounds."""

    nodes: int = 1_750
    gpus: int = 8
    interval_s: float = 10.0
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class TelemetryReport:
    """Results; times are medians of the processor time of one page."""

    nodes: int
    gpus: int
    interval_s: float
    rounds: int
    page_bytes: int
    page_lines: int
    library_ms: float
    """Parsing by prometheus-client."""
    first_ms: float
    """Parsing a node's first page, and pages whose labels changed, as the service does."""
    read_ms: float
    """Parsing a later page as the service does."""
    whole_ms: float
    """The whole way from a page to a message."""
    cpu_pct: float
    """Share of one core during the rounds, connections and publishing included."""
    page_cpu_ms: float
    """The same, per page."""
    library_cpu_pct: float
    memory_mib: float
    """Memory of the scraping process."""
    read: int
    """Pages received."""
    failed: int
    """Pages that failed."""
    late: int
    """Scrapes that were skipped, or not complete at the end."""
    message_bytes: int
    expected: int


async def measure(
    plan: Plan, directory: Path, *, say: Callable[[str], None], done: Callable[[], None]
) -> TelemetryReport:
    """Measure. done: called after each round. Raises OSError, TimeoutError."""
    core = TelemetryCore(TelemetryConfig(interval_s=plan.interval_s))
    world = World(SEED, COLLECT_S)
    for fact in fleet_facts(plan.nodes, plan.gpus):
        core.apply(fact)
        world.apply(fact)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)  # as the host of the services does once they have recovered
    say("one page")
    texts = _pages(world)
    text = next(texts)
    library_ms = _median_ms(LIBRARY_PAGES_TIMED, lambda: text_string_to_metric_families(text), list)
    first_ms = _first_ms(texts)
    read_ms = _median_ms(PAGES_TIMED, texts.__next__, partial(Pages().read, node_name(0)))
    whole_ms, message_bytes = _whole(core, texts, plan)
    core.meters.reset()
    core.fleet.reset()
    say(f"{plan.rounds} rounds over {plan.nodes} nodes")
    port = free_port()
    command = (
        sys.executable,
        "-m",
        "muster_tools.bench.telemetry_exporters",
        str(port),
        str(plan.nodes),
        str(plan.gpus),
    )
    exporters = subprocess.Popen(command)  # noqa: S603, ASYNC220 - this package
    try:
        await _ready(port)
        async with own_server(directory) as client:
            cpu_s, wall_s, memory_mib, read, failed = await _rounds(core, plan, port, client, done)
    finally:
        exporters.terminate()
        await asyncio.to_thread(exporters.wait)
    per_s = plan.nodes / plan.interval_s
    return TelemetryReport(
        **{name: getattr(plan, name) for name in ("nodes", "gpus", "interval_s", "rounds")},
        page_bytes=len(text),
        page_lines=text.count("\n"),
        library_ms=round(library_ms, 3),
        first_ms=round(first_ms, 3),
        read_ms=round(read_ms, 3),
        whole_ms=round(whole_ms, 3),
        cpu_pct=round(100 * cpu_s / wall_s, 1),
        page_cpu_ms=round(1_000 * cpu_s / max(1, read), 3),
        library_cpu_pct=round(per_s * library_ms / 10, 1),
        memory_mib=round(memory_mib, 1),
        read=read,
        failed=failed,
        late=plan.nodes * plan.rounds - read - failed,
        message_bytes=message_bytes,
        expected=plan.nodes * plan.rounds,
    )


def _pages(world: World) -> Iterator[str]:
    """Yield one node's page, scrape by scrape."""
    began = SystemTime().wall()
    for number in count():
        yield world.page(node_name(0), after(began, number * COLLECT_S))


def _first_ms(texts: Iterator[str]) -> float:
    """Return the parsing time of a node's first page, in a fleet whose exporters print the same series."""
    pages = Pages()
    pages.read(node_name(1), next(texts))

    def forget() -> str:
        pages.keep(())
        return next(texts)

    return _median_ms(PAGES_TIMED, forget, partial(pages.read, node_name(0)))


def _whole(core: TelemetryCore, texts: Iterator[str], plan: Plan) -> tuple[float, int]:
    """Return the time (ms) from a page's text to the message, and its size in bytes."""
    sink = _scrapes(plan, url="http://{node}/")
    description = core.holdings.nodes[node_name(0)].description
    size = 0

    def once(text: str) -> None:
        nonlocal size
        answer = Answer(ExporterState.OK, text)
        _, message = sink.reading(core, node_name(0), answer, description, at=SystemTime().wall())
        size = len(message)

    return _median_ms(PAGES_TIMED, texts.__next__, once), size


async def _rounds(
    core: TelemetryCore, plan: Plan, port: int, client: Client, done: Callable[[], None]
) -> tuple[float, float, float, int, int]:
    """Return processor and wall seconds, MiB, received and missing pages, over whole rounds."""
    counted = _Counted(client)
    sink = _scrapes(plan, url=f"http://{LOOPBACK}:{port}/nodes/{{node}}/metrics")
    await sink.open(core, counted, LeaderHandle())
    try:
        began_s, began_cpu_s = time.monotonic(), _cpu_s()
        for number in range(1, plan.rounds + 1):
            await asyncio.sleep(max(0.0, began_s + number * plan.interval_s - time.monotonic()))
            done()
        cpu_s, wall_s = _cpu_s() - began_cpu_s, time.monotonic() - began_s
        await sink.after_fold((), last_seq=0, now=SystemTime().wall())
        memory_mib = psutil.Process().memory_info().rss / 2**20
    finally:
        await sink.close()
    return cpu_s, wall_s, memory_mib, counted.ok, counted.failed


class _Counted:
    """A connection that counts published messages."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.ok = self.failed = 0

    @property
    def is_connected(self) -> bool:
        return bool(self._client.is_connected)

    async def publish(self, subject: str, payload: bytes = b"") -> None:
        if b'"exporter"' in payload:
            self.failed += 1  # the field's default is a successful scrape
        else:
            self.ok += 1
        await self._client.publish(subject, payload)


def _scrapes(plan: Plan, *, url: str) -> Scrapes:
    return Scrapes(
        cluster=CLUSTER,
        url=url,
        interval_s=plan.interval_s,
        timeout_s=TIMEOUT_S,
        stale_s=STALE_S,
        clock=SystemTime(),
    )


async def _ready(port: int) -> None:
    async with asyncio.timeout(READY_S_MAX):
        while not await http_answers(port):  # noqa: ASYNC110 - another process cannot set an event here
            await asyncio.sleep(POLL_S)


def _median_ms(times: int, prepare: Callable[[], T], work: Callable[[T], object]) -> float:
    """Return the median processor time of `work` on the result of `prepare`, which is not counted."""
    took = []
    for _ in range(times):
        prepared = prepare()
        began_s = time.process_time()
        work(prepared)
        took.append(1_000 * (time.process_time() - began_s))
    return statistics.median(took)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(plan: Plan, form: Output) -> None:
    """Run the benchmark and print its results."""
    machine = this_machine()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name, measured("rounds", total=plan.rounds) as reached:
        rounds = 0

        def done() -> None:
            nonlocal rounds
            rounds += 1
            reached(rounds, f"{rounds * plan.nodes} pages")

        found = uvloop.run(measure(plan, Path(name), say=output.print_note, done=done))
    print_figures(machine, asdict(found), _rows(found), form=form)


def _rows(found: TelemetryReport) -> list[tuple[str, str]]:
    return [
        ("a page", f"{found.gpus} GPUs, {found.page_lines} lines, {found.page_bytes:,} bytes"),
        (
            "read by prometheus-client",
            f"{found.library_ms:.2f} ms, {found.library_cpu_pct:.0f} % of a core for all nodes",
        ),
        ("read by the service", f"{found.first_ms:.2f} ms first page of a node, {found.read_ms:.2f} ms later pages"),
        ("page to message", f"{found.whole_ms:.2f} ms"),
        ("a message", f"{found.message_bytes:,} bytes"),
        ("rounds", f"{found.rounds} over {found.nodes} nodes, one in {found.interval_s:g} s"),
        ("pages", f"{found.read:,} read, {found.failed} failed, {found.late} late"),
        (
            "processor",
            f"{found.cpu_pct:.0f} % of a core, connections and publishing included: {found.page_cpu_ms:.2f} ms a page",
        ),
        ("memory", f"{found.memory_mib:.0f} MiB"),
    ]
