"""Follow facts, wait for jobs, and show the live view of a stack (lines if standard output is not a terminal)."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from muster.bus.clock import SystemTime
from muster.cli import output, queue_tree, tables
from muster.cli.errors import JobsFailedError
from muster.cli.options import Output
from muster.cli.output import print_line
from muster.cli.session import connected
from muster.cli.text import gpus
from muster.core.instant import NS_PER_S, seconds_between
from muster.schemas.job import Phase
from muster.schemas.views import FactView, JobView, NodeView, QueueView

if TYPE_CHECKING:
    from rich.console import RenderableType

    from muster.client import Muster


POLL_S = 1.0  # between questions for the phase of jobs that are waited for

RATE_WINDOW_S = 10.0
BAR_WIDTH = 40

REFRESH_S = 1.0
PLAIN_REFRESH_S = 10.0
NODES_REFRESH_S = 15.0  # a large fleet's node list is half a megabyte
NEWEST_JOBS = 40
NOTE = "Ctrl-C stops"


def facts(state_dir: Path, form: Output, *, job_id: str, team: str, follow: bool, limit: int) -> None:
    """Print facts, oldest first; with `follow` until Ctrl-C, or until the job has ended.

    A followed job is read from its first fact by a single request: between two requests, facts could be missed.
    """

    async def show() -> None:
        async with connected(state_dir) as muster:
            if follow:
                async for fact in muster.watch(job_id, team=team, newest=limit):
                    _print(fact, form)
            elif limit:
                for fact in await muster.events(job_id=job_id, team=team, limit=limit):
                    _print(fact, form)

    asyncio.run(show())


def job(state_dir: Path, form: Output, job_id: str) -> None:
    """Print one job's facts until it ends. Raises JobsFailedError unless it succeeds."""
    until_all_end(state_dir, [job_id], form)


def until_all_end(state_dir: Path, ids: Sequence[str], form: Output) -> None:
    """Print the facts of jobs until all have ended. Raises JobsFailedError if one did not succeed."""

    async def follow() -> list[JobView]:
        async with connected(state_dir) as muster, asyncio.TaskGroup() as group:
            tasks = [group.create_task(_to_the_end(muster, job_id, form)) for job_id in ids]
        return [task.result() for task in tasks]

    ended = asyncio.run(follow())
    unhappy = [job for job in ended if job.phase is not Phase.SUCCEEDED]
    if unhappy:
        told = "; ".join(f"{job.id} {job.phase.value}{': ' + job.reason if job.reason else ''}" for job in unhappy)
        raise JobsFailedError(f"{told}; `muster trace ID` shows the causes")


async def _to_the_end(muster: "Muster", job_id: str, form: Output) -> JobView:
    async for fact in muster.watch(job_id):
        _print(fact, form)
        if fact.kind == "job" and fact.name in ("succeeded", "failed", "cancelled", "timed-out"):
            break
    job = await muster.get(job_id)
    while not job.phase.is_terminal:  # the read model follows the log with a moment's delay
        await asyncio.sleep(POLL_S)
        job = await muster.get(job_id)
    return job


def _print(fact: FactView, form: Output) -> None:
    if form is Output.JSON:
        output.emit_lines([fact])
    else:
        print_line(tables.fact_line(fact))


@dataclass(frozen=True, slots=True)
class Fleet:
    """Sums over the nodes."""

    nodes: int
    usable: int
    gpu_milli: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot. jobs, facts: newest first. facts_per_s: of the cluster's log since the last snapshot."""

    now_ns: int
    fleet: Fleet
    queues: tuple[QueueView, ...]
    jobs: tuple[JobView, ...]
    facts_per_s: float

    @property
    def gpu_milli_held(self) -> int:
        """Return the GPUs in use, in thousandths."""
        return sum(queue.gpu_milli_held for queue in queue_tree.roots(self.queues))

    @property
    def running(self) -> int:
        """Return the number of placed jobs."""
        return sum(queue.jobs_running for queue in self.queues)

    @property
    def waiting(self) -> int:
        """Return the number of pending jobs."""
        return sum(queue.jobs_queued for queue in self.queues)

    @property
    def placed_per_s(self) -> float:
        """Return the placements per second over RATE_WINDOW_S among the listed jobs, a lower bound."""
        recent = (job for job in self.jobs if job.placed_at)
        return sum(seconds_between(job.placed_at, self.now_ns) <= RATE_WINDOW_S for job in recent) / RATE_WINDOW_S


def fleet_of(nodes: Sequence[NodeView]) -> Fleet:
    """Sum over the nodes; only GPUs of schedulable nodes are counted."""
    usable = [node for node in nodes if node.usable]
    return Fleet(len(nodes), len(usable), sum(node.gpus * 1000 for node in usable))


def facts_per_s(before: FactView | None, after: FactView | None) -> float:
    """Return the facts per second of a log between two of its facts."""
    if before is None or after is None or after.time <= before.time or after.stream != before.stream:
        return 0.0
    return (after.seq - before.seq) * NS_PER_S / (after.time - before.time)


def plain(snapshot: Snapshot) -> str:
    """Return the snapshot as one line."""
    return (
        f"gpus {gpus(snapshot.gpu_milli_held)}/{gpus(snapshot.fleet.gpu_milli)}  running {snapshot.running}  "
        f"waiting {snapshot.waiting}  nodes {snapshot.fleet.usable}/{snapshot.fleet.nodes}  "
        f"placed {snapshot.placed_per_s:.1f}/s  facts {snapshot.facts_per_s:.0f}/s"
    )


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """Return a fraction between 0 and 1 as a bar."""
    full = round(min(max(share, 0.0), 1.0) * width)
    return "█" * full + "░" * (width - full)


def screen(snapshot: Snapshot, *, rows: int, note: str = "") -> "RenderableType":
    """Return the live view: use of the fleet, queues, newest jobs. rows: lines that fit."""
    from rich.console import Group

    share = snapshot.gpu_milli_held / snapshot.fleet.gpu_milli if snapshot.fleet.gpu_milli else 0.0
    room = max(3, rows - len(snapshot.queues) - 8)
    return Group(
        output.text(f"GPUs  {bar(share)} {share:4.0%}", style="bold"),
        output.text(plain(snapshot)),
        "",
        output.grid(queue_tree.QUEUES, queue_tree.queue_rows(snapshot.queues), right=queue_tree.NUMBERS),
        "",
        output.grid(tables.JOBS, tables.job_rows(snapshot.jobs[:room], now_ns=snapshot.now_ns), right=tables.NUMBERS),
        output.text(note, style="dim"),
    )


def show(state_dir: Path) -> None:
    """Show a stack until Ctrl-C. Raises CliError."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(state_dir, note="Ctrl-C leaves; the stack goes on"))


async def run(state_dir: Path, *, note: str = NOTE) -> None:
    """Show snapshots until cancelled. While services restart, the last one stays with the error below."""
    async with connected(state_dir) as muster:
        camera = _Camera(muster)
        if output.console().is_terminal:
            await _on_screen(camera, note)
        while True:
            print_line(plain(await camera.look()))
            await asyncio.sleep(PLAIN_REFRESH_S)


async def _on_screen(camera: "_Camera", note: str) -> None:
    from rich.live import Live

    from muster.client import UnreachableError

    out = output.console()
    with Live(console=out, auto_refresh=False, transient=True) as view:
        while True:
            try:
                await camera.look()
                told = note
            except UnreachableError as error:
                told = f"{error}; waiting for it to come back"
            if camera.last is not None:
                view.update(screen(camera.last, rows=out.height, note=told), refresh=True)
            await asyncio.sleep(REFRESH_S)


class _Camera:
    """Takes snapshots; caches values that change slowly."""

    def __init__(self, muster: "Muster") -> None:
        self._muster = muster
        self._time = SystemTime()
        self._fleet = Fleet(0, 0, 0)
        self._fleet_until_s = 0.0
        self._fact: FactView | None = None
        self.last: Snapshot | None = None

    async def look(self) -> Snapshot:
        if self._time.monotonic_s() >= self._fleet_until_s:
            self._fleet = fleet_of(await self._muster.nodes())
            self._fleet_until_s = self._time.monotonic_s() + (NODES_REFRESH_S if self._fleet.usable else REFRESH_S)
        queues, jobs = await self._muster.queues(), await self._muster.list(limit=NEWEST_JOBS)
        facts = await self._muster.events(limit=1)
        before, self._fact = self._fact, facts[-1] if facts else self._fact
        self.last = Snapshot(
            now_ns=self._time.wall(),
            fleet=self._fleet,
            queues=tuple(queues),
            jobs=tuple(jobs),
            facts_per_s=facts_per_s(before, self._fact),
        )
        return self.last
