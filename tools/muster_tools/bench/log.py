"""Append and fold cost of one log as it grows, on a dedicated nats-server."""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import nats
import uvloop
from nats.aio.client import Client

from muster.bus.nats_log import NatsLog
from muster.bus.ports import LogAppender
from muster.bus.settings import Settings
from muster.bus.streams import bootstrap
from muster.cli import output
from muster.cli.machine import sentence, this_machine
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.progress import measured
from muster.core.fact import Draft, Fact
from muster.schemas.facts.job import JobPlaced
from muster.schemas.ids import job_id, trace_id, traceparent
from muster.schemas.job import Slot
from muster.schemas.subjects import cluster_log
from muster.stack import nats_server
from muster.stack.ports import free_port
from muster.stack.probes import http_ok
from muster.stack.process import die_with_parent
from muster_tools.bench.workload import Quantiles, quantiles

SERVICE = "scheduler"
BATCH_DRAFTS = 500
BATCHES_MEASURED = 20
SINGLES_MEASURED = 200
FOLDED_MEASURED = 20_000
READY_S_MAX = 20.0
PROBE_S = 0.02


@dataclass(frozen=True, slots=True)
class LogFigures:
    """Figures at `stored` messages in the log; latencies in ms, each append with its fence record."""

    stored: int
    batch_ms: Quantiles
    """Append of 500 facts."""
    appended_per_s: float
    single_ms: Quantiles
    """Append of one fact."""
    folded_per_s: float
    """Facts of the log's newest part, read from the server, decoded and applied."""
    fold_us_per_fact: float


@asynccontextmanager
async def own_server(directory: Path) -> AsyncIterator[Client]:
    """Start a nats-server for the block, reachable from this machine only, and connect to it."""
    config = nats_server.NatsConfig(port=free_port(), monitor_port=free_port(), store_dir=directory / "store")
    conf = directory / "nats-server.conf"
    conf.write_text(nats_server.render(config), encoding="utf-8")
    with (directory / "server.log").open("wb") as said:
        # uvloop starts no child in a process group of its own, so this one is the plain library's
        server = subprocess.Popen(  # noqa: S603, ASYNC220 - the bundled binary
            [nats_server.nats_binary(), "-c", conf],
            stdout=said,
            stderr=said,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - no thread runs yet
        )
    try:
        client = await _connected(config.url, config.monitor_port)
        try:
            yield client
        finally:
            await client.close()
    finally:
        server.terminate()
        await asyncio.to_thread(server.wait)


async def measure(client: Client, directory: Path, levels: Sequence[int], reached: Callable[[float], None]) -> list[
    LogFigures
]:  # fmt: skip
    """Fill one log to each level in turn and measure there. reached: called with the number of stored messages."""
    settings = Settings(state_dir=directory, credentials_dir=directory)
    await bootstrap(client, settings)
    log = NatsLog(client, cluster_log(settings.cluster))
    pen = log.appender(SERVICE)
    seq = (await pen.start_term(term=1, holder="bench")).last_seq
    found: list[LogFigures] = []
    for level in levels:
        while seq < level:
            seq = (await pen.append(drafts(min(BATCH_DRAFTS, level - seq), seq), folded_seq=seq)).last_seq
            reached(min(seq, level))
        figures, seq = await _at(log, pen, seq)
        found.append(figures)
    return found


def drafts(count: int, after: int) -> list[Draft]:
    """Return placements as a scheduler writes them: one slot of one GPU, a cause and a trace."""
    return [_placed(after + number) for number in range(count)]


async def _at(log: NatsLog, pen: LogAppender, seq: int) -> tuple[LogFigures, int]:
    stored = seq
    batches_ms, seq = await _appends(pen, seq, size=BATCH_DRAFTS, times=BATCHES_MEASURED)
    singles_ms, seq = await _appends(pen, seq, size=1, times=SINGLES_MEASURED)
    fold_s, folded = await _fold(log, max(0, seq - FOLDED_MEASURED))
    figures = LogFigures(
        stored=stored,
        batch_ms=quantiles(batches_ms),
        appended_per_s=round(BATCH_DRAFTS * BATCHES_MEASURED / (sum(batches_ms) / 1000), 0),
        single_ms=quantiles(singles_ms),
        folded_per_s=round(folded / fold_s, 0),
        fold_us_per_fact=round(fold_s / folded * 1e6, 1),
    )
    return figures, seq


async def _appends(pen: LogAppender, seq: int, *, size: int, times: int) -> tuple[list[float], int]:
    """Return the durations in ms, and the log's head afterwards."""
    taken: list[float] = []
    for _ in range(times):
        batch = drafts(size, seq)
        started = time.perf_counter()
        seq = (await pen.append(batch, folded_seq=seq)).last_seq
        taken.append((time.perf_counter() - started) * 1000)
    return taken, seq


async def _fold(log: NatsLog, after_seq: int) -> tuple[float, int]:
    """Return seconds and number of facts, from opening a reader to the head."""
    state: dict[str, Fact] = {}
    started = time.perf_counter()
    reader = await log.reader(after_seq=after_seq)
    head, last, folded = await reader.head(), after_seq, 0
    while last < head:
        batch = await reader.read(limit=1000, timeout_s=1.0)
        for fact in batch.facts:
            state[fact.subject_id] = fact
        folded += len(batch.facts)
        last = batch.last_seq
    taken = time.perf_counter() - started
    await reader.close()
    return taken, folded


def _placed(number: int) -> Draft:
    ident = job_id(team="bench", principal="bench", idempotency_key=str(number))
    slot = Slot(group=0, replica=0, node=f"node-{number % 1750:04}", devices=(number % 8,), gpu_milli=1000)
    trace = traceparent(trace_id(ident), "0" * 15 + "1")
    return Draft("job", ident, "placed", JobPlaced(attempt=1, slots=(slot,)), (ident[:22],), trace)


async def _connected(url: str, monitor_port: int) -> Client:
    async with asyncio.timeout(READY_S_MAX):
        while not await http_ok(monitor_port, "/healthz"):  # noqa: ASYNC110 - another process cannot notify this one
            await asyncio.sleep(PROBE_S)
    return await nats.connect(url)


HEADINGS = ("STORED", "BATCH OF 500 p50", "p99", "APPENDED/s", "SINGLE p50", "p99", "FOLDED/s", "PER FACT")


def run(levels: Sequence[int], form: Output) -> None:
    """Run the benchmark at each level and print its results."""
    machine = this_machine()
    found = uvloop.run(_measured(levels))
    if form is Output.JSON:
        output.emit_json({"levels": [asdict(one) for one in found], "machine": asdict(machine)})
        return
    print_line(sentence(machine))
    output.table(HEADINGS, map(_row, found), right=HEADINGS)


async def _measured(levels: Sequence[int]) -> list[LogFigures]:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name, measured("stored", total=max(levels)) as reached:
        directory = Path(name)
        async with own_server(directory) as client:
            return await measure(client, directory, levels, reached)


def _row(one: LogFigures) -> tuple[str, ...]:
    return (
        f"{one.stored:,}", f"{one.batch_ms.p50:.1f} ms", f"{one.batch_ms.p99:.1f} ms", f"{one.appended_per_s:,.0f}",
        f"{one.single_ms.p50:.2f} ms", f"{one.single_ms.p99:.2f} ms", f"{one.folded_per_s:,.0f}",
        f"{one.fold_us_per_fact:.0f} us",
    )  # fmt: skip
