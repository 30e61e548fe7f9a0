"""One look at a running fleet, and how it reads: as a screen's tables or as one plain line. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.cli import output, queue_table, tables
from muster.cli.text import gpus
from muster.core.instant import NS_PER_S, seconds_between
from muster.schemas.views import FactView, JobView, NodeView, QueueView

if TYPE_CHECKING:
    from rich.console import RenderableType

RATE_WINDOW_S = 10.0
BAR_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Fleet:
    """What the nodes add up to."""

    nodes: int
    usable: int
    gpu_milli: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look. jobs, facts: the newest, newest first. facts_per_s: of the cluster's log since the last look."""

    now_ns: int
    fleet: Fleet
    queues: tuple[QueueView, ...]
    jobs: tuple[JobView, ...]
    facts_per_s: float

    @property
    def gpu_milli_held(self) -> int:
        """GPUs in use, in thousandths."""
        return sum(queue.gpu_milli_held for queue in queue_table.roots(self.queues))

    @property
    def running(self) -> int:
        """Jobs that hold their places."""
        return sum(queue.jobs_running for queue in self.queues)

    @property
    def waiting(self) -> int:
        """Jobs that wait for a place."""
        return sum(queue.jobs_queued for queue in self.queues)

    @property
    def placed_per_s(self) -> float:
        """Placements among the newest jobs over RATE_WINDOW_S: a floor when more jobs came than are listed."""
        recent = (job for job in self.jobs if job.placed_at)
        return sum(seconds_between(job.placed_at, self.now_ns) <= RATE_WINDOW_S for job in recent) / RATE_WINDOW_S


def fleet_of(nodes: Sequence[NodeView]) -> Fleet:
    """Sums over the nodes; only those that can be used count as GPUs."""
    usable = [node for node in nodes if node.usable]
    return Fleet(len(nodes), len(usable), sum(node.gpus * 1000 for node in usable))


def facts_per_s(before: FactView | None, after: FactView | None) -> float:
    """Facts of one log per second between two of its facts."""
    if before is None or after is None or after.time <= before.time or after.stream != before.stream:
        return 0.0
    return (after.seq - before.seq) * NS_PER_S / (after.time - before.time)


def plain(snapshot: Snapshot) -> str:
    """One line for a log file."""
    return (
        f"gpus {gpus(snapshot.gpu_milli_held)}/{gpus(snapshot.fleet.gpu_milli)}  running {snapshot.running}  "
        f"waiting {snapshot.waiting}  nodes {snapshot.fleet.usable}/{snapshot.fleet.nodes}  "
        f"placed {snapshot.placed_per_s:.1f}/s  facts {snapshot.facts_per_s:.0f}/s"
    )


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """A share between 0 and 1 as a bar."""
    full = round(min(max(share, 0.0), 1.0) * width)
    return "█" * full + "░" * (width - full)


def screen(snapshot: Snapshot, *, rows: int, note: str = "") -> "RenderableType":
    """The live view: fleet use, queues, newest jobs. rows: lines that fit."""
    from rich.console import Group

    share = snapshot.gpu_milli_held / snapshot.fleet.gpu_milli if snapshot.fleet.gpu_milli else 0.0
    room = max(3, rows - len(snapshot.queues) - 8)
    return Group(
        output.text(f"GPUs  {bar(share)} {share:4.0%}", style="bold"),
        output.text(plain(snapshot)),
        "",
        output.grid(queue_table.HEADINGS, queue_table.rows(snapshot.queues), right=queue_table.RIGHT),
        "",
        output.grid(tables.JOBS, tables.job_rows(snapshot.jobs[:room], now_ns=snapshot.now_ns), right=tables.NUMBERS),
        output.text(note, style="dim"),
    )
