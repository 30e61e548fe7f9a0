"""`muster demo transition`: a team moves from one cluster to another while it submits jobs, without disruption.

It runs on a fresh federation of two clusters, each with its own broker and services. The results are counted from their
logs afterwards (`transition_figures`).
"""

import asyncio
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from muster.bus.access import ADMIN_TOOLS
from muster.bus.nats_log import NatsLog
from muster.bus.settings import Settings
from muster.cli import output as printed
from muster.cli.bus_session import on_bus, settings_of
from muster.cli.errors import refused
from muster.cli.options import Output
from muster.cli.output import print_line, print_note
from muster.core.fact import Fact
from muster.core.instant import Instant, seconds_between
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.facts.job import JobEnded, JobRouted
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import JobSpec, Phase, TaskGroup
from muster.schemas.labels import EXIT_CODE, RUN_S
from muster.schemas.subjects import FED_LOG, LogName, cluster_log
from muster.stack.cells import CELLS
from muster.stack.control import StartFailedError
from muster.stack.state_dir import StateDirError
from muster_tools.bench.fresh_stack import fresh_stack
from muster_tools.demo.stage import TEAM, DemoFailedError, Stage

DRAIN, DRAINED = "drain-requested", "drained"


@dataclass(frozen=True, slots=True)
class Moment:
    """One event of the transition. at_s: since the request to drain; negative before it."""

    at_s: float
    who: str
    said: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Outcome of the team's jobs."""

    jobs: int
    """Number of jobs submitted."""
    stayed: int
    """Jobs that ended in the old cluster."""
    moved: int
    """Jobs that were moved to the new cluster."""
    straight: int
    """Jobs that were routed to the new cluster at once."""
    lost: int
    """Jobs that did not succeed, according to the federation."""
    twice: int
    """Jobs that started more than once, over both clusters."""
    aged: int
    """Moved jobs that lost their age."""
    submissions: int
    """Submissions of all jobs together."""
    stopped: int
    """Jobs that the old cluster ended."""
    away_s_max: float
    """Longest time from the request to hand a job back until its new cluster was chosen."""
    drained_s: float | None
    """Time from the request until the old cluster was empty, None if it is not."""
    moments: tuple[Moment, ...] = ()

    @property
    def problem(self) -> str:
        """Return what went wrong; "" if no job was disturbed."""
        wrong = (
            (self.lost, f"{self.lost} of {self.jobs} jobs did not succeed"),
            (self.twice, f"{self.twice} jobs ran twice"),
            (self.aged, f"{self.aged} jobs lost their age"),
            (self.stopped, f"{self.stopped} jobs were ended by the old cluster"),
            (self.submissions != self.jobs, f"{self.submissions} submissions for {self.jobs} jobs"),
            (not self.moved, "no job waited when the old cluster was drained"),
            (self.drained_s is None, "the old cluster is not drained"),
        )
        return "; ".join(said for is_so, said in wrong if is_so)

    def to_json(self) -> dict[str, JsonValue]:
        """Return every field, `passed` and `problem` as JSON."""
        plain: dict[str, JsonValue] = asdict(self)
        return plain | {
            "moments": [asdict(moment) for moment in self.moments],
            "passed": not self.problem,
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True)
class Logs:
    """The facts of all three logs, each in its own order. old, new: names of the clusters."""

    old: str
    new: str
    fed: Sequence[Fact]
    at_old: Sequence[Fact]
    at_new: Sequence[Fact]


def figures(logs: Logs, handed_in: Iterable[str]) -> Figures:
    """Count the outcome of the team's jobs, each submitted once. Raises ValueError without a request to drain."""
    asked = next((fact.time for fact in logs.fed if fact.kind == "cluster" and fact.name == DRAIN), None)
    if asked is None:
        raise ValueError(f"no request to drain {logs.old} in its log")
    jobs = tuple(dict.fromkeys(handed_in))
    ways = _ways(logs, jobs)
    started = Counter(fact.subject_id for fact in (*logs.at_old, *logs.at_new) if fact.name == "pods-started")
    succeeded = {
        fact.subject_id
        for fact in logs.fed
        if isinstance(fact.payload, JobEnded) and fact.payload.phase is Phase.SUCCEEDED
    }
    first_to = Counter(way[0].cluster for way in ways.values())
    moved = [job for job, way in ways.items() if len(way) > 1]
    drained = next((fact.time for fact in logs.fed if fact.kind == "cluster" and fact.name == DRAINED), None)
    return Figures(
        jobs=len(jobs),
        stayed=first_to[logs.old] - len(moved),
        moved=len(moved),
        straight=first_to[logs.new],
        lost=len(set(jobs) - succeeded),
        twice=sum(started[job] > 1 for job in jobs),
        aged=sum(not _kept_its_age(ways[job], asked) for job in moved),
        submissions=sum(fact.kind == "job" and fact.name == "submitted" for fact in logs.fed),
        stopped=len({fact.subject_id for fact in logs.at_old if fact.name == "stop-requested"}),
        away_s_max=max(_away_s(logs.fed), default=0.0),
        drained_s=seconds_between(asked, drained) if drained is not None else None,
        moments=_moments(logs, set(moved), asked),
    )


def _ways(logs: Logs, jobs: Iterable[str]) -> dict[str, list[JobRouted]]:
    """Return all assignments of each job, in order."""
    ways: dict[str, list[JobRouted]] = defaultdict(list)
    wanted = set(jobs)
    for fact in logs.fed:
        if isinstance(fact.payload, JobRouted) and fact.subject_id in wanted:
            ways[fact.subject_id].append(fact.payload)
    return ways


def _kept_its_age(way: Sequence[JobRouted], asked: Instant) -> bool:
    """Return whether the job kept its submission time and its waiting time up to the drain."""
    first, last = way[0].job.submitted_at, way[-1].job.submitted_at
    return first == last and way[-1].age_s >= seconds_between(Instant(first), asked)


def _away_s(fed: Iterable[Fact]) -> list[float]:
    """Return, for each job handed back and moved, how long that took."""
    left: dict[str, Instant] = {}
    took: list[float] = []
    for fact in fed:
        if fact.name == "recall-forwarded":
            left[fact.subject_id] = fact.time
        elif isinstance(fact.payload, JobRouted) and fact.subject_id in left:
            took.append(round(seconds_between(left.pop(fact.subject_id), fact.time), 3))
    return took


def _moments(logs: Logs, moved: set[str], asked: Instant) -> tuple[Moment, ...]:
    """Return the first and last event of each kind."""
    old, new = logs.old, logs.new
    over = [
        f for f in logs.fed if isinstance(f.payload, JobRouted) and f.subject_id in moved and f.payload.cluster == new
    ]
    back = [f for f in logs.fed if f.name == "recall-forwarded"]
    begun = [f for f in logs.at_new if f.name == "pods-started"]
    ended = [f for f in logs.at_old if f.name == "succeeded"]
    done = [f for f in logs.at_new if f.name == "succeeded"]
    left = {f.name: f for f in logs.fed if f.kind == "cluster" and f.name in (DRAIN, "draining", DRAINED)}
    told = (
        *((f, words) for name, words in _OF_CLUSTERS for f in (left.get(name),) if f is not None),
        *_first_and_last(back, "first request to hand back a pending job", "last such request"),
        *_first_and_last(over, f"first job moved to {new}", f"last of {len(moved)} jobs moved"),
        *((f, f"a job starts in {new}") for f in begun[:1]),
        *((f, f"the last job of {old} ends there") for f in ended[-1:]),
        *((f, f"the last job of {new} ends") for f in done[-1:]),
    )
    return tuple(
        Moment(round(seconds_between(asked, fact.time), 2), fact.writer, said)
        for fact, said in sorted(told, key=lambda one: one[0].time)
    )


_OF_CLUSTERS = (
    (DRAIN, "drain of the old cluster requested"),
    ("draining", "old cluster gets no new jobs"),
    (DRAINED, "old cluster is empty"),
)


def _first_and_last(facts: Sequence[Fact], first: str, last: str) -> list[tuple[Fact, str]]:
    return [*((fact, first) for fact in facts[:1]), *((fact, last) for fact in facts[1:][-1:])]


if TYPE_CHECKING:
    from nats.aio.client import Client

    from muster.client import Muster

OLD, NEW = "old", "new"
NODES, GPUS = 4, 8
LONG_JOBS, LONG_S = 3, 12.0
"""Jobs that outlast the drain and fill all but one node of the old cluster."""
LOAD = (8, 4, 2, 1, 1)
"""GPUs of the short jobs, in turn; each runs LOAD_S."""
LOAD_S = 1.0
JOBS = 60
BEFORE = 0.6
"""Fraction of the short jobs submitted before the drain."""
PAUSE_S = 0.05
"""Interval between two submissions."""
LATE_S = 240.0
"""Time-out until all jobs have ended; normally some 20 s."""
READ_FACTS, READ_IDLE_S = 1_000, 0.5
FEDERATION: dict[str, object] = {
    "policy": {"rules": [{"name": "all", "clusters": [{"cluster": OLD}, {"cluster": NEW}]}]}
}
"""The old cluster is preferred until it is drained."""

Say = Callable[[str], None]


def settings() -> dict[str, object]:
    """Return the settings of both clusters: small, with pods that start at once."""
    return {
        "fleet": {"nodes": NODES, "gpus_per_node": GPUS},
        "simulation": {
            "start_s": 0.05, "job_failure_share": 0.0, "telemetry_interval_s": 0, "output_interval_s": 0,
        },
        "bus": {"lease_ttl_s": 1.0},
        "federation": FEDERATION,
    }  # fmt: skip


def run(form: Output, *, jobs: int = JOBS) -> None:
    """Run it and print the result. Raises CliError (refused) if any job was disturbed."""
    directory = Path(tempfile.mkdtemp(prefix="muster-demo-"))
    try:
        found = asyncio.run(_in(directory, jobs=jobs))
    except (StartFailedError, StateDirError, DemoFailedError) as error:
        raise refused(str(error)) from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    tell(found, form)
    if found.problem:
        raise refused(found.problem)


async def _in(directory: Path, *, jobs: int) -> Figures:
    say = print_note
    async with fresh_stack(
        directory, settings(), split=False, say=say, what="a federation of two clusters", clusters=(OLD, NEW)
    ) as stack:
        return await play(stack.muster, directory, jobs=jobs, say=say)


async def play(muster: "Muster", state_dir: Path, *, jobs: int = JOBS, say: Say = lambda _: None) -> Figures:
    """Run the transition on a federation of OLD and NEW with `settings`. jobs: number of short jobs.

    Raises DemoFailedError if an expected condition does not come in time.
    """
    stage = Stage(muster, "")
    await _set_up(stage)
    say(f"team {TEAM} works in cluster {OLD}: {LONG_JOBS} long jobs, and {jobs} short ones arrive continuously")
    long = [await _submit(muster, f"long-{number}", gpus=GPUS, run_s=LONG_S) for number in range(LONG_JOBS)]
    for job_id in long:
        await stage.running(job_id)
    before = round(jobs * BEFORE)
    short = await _load(muster, range(before))
    await _old_is_full(stage, short)
    say(f"muster cluster drain {OLD} --to {NEW}; the team continues to submit")
    _, during = await asyncio.gather(
        muster.drain_cluster(OLD, to=(NEW,), reason="its lease ends"), _load(muster, range(before, jobs))
    )
    handed_in = [*long, *short, *during]
    await _all_have_ended(stage, handed_in)
    await stage.until(f"{OLD} is drained", lambda: _is_drained(muster), patience_s=LATE_S)
    return figures(await _logs(state_dir), handed_in)


def tell(found: Figures, form: Output) -> None:
    """Print the events and the outcome."""
    if form is Output.JSON:
        printed.emit_json(found.to_json())
        return
    rows = ((f"{moment.at_s:+.2f}", moment.who, moment.said) for moment in found.moments)
    printed.table(("SECONDS", "WHO", "WHAT"), rows, right=("SECONDS",))
    print_line()
    printed.details(
        (
            ("jobs", f"{found.jobs}, submitted {found.submissions} times in all"),
            ("ended in the old cluster", str(found.stayed)),
            ("moved, keeping id and age", str(found.moved - found.aged)),
            ("routed to the new cluster at once", str(found.straight)),
            ("lost", str(found.lost)),
            ("run twice", str(found.twice)),
            ("stopped", str(found.stopped)),
            ("longest time between clusters", f"{found.away_s_max:.2f} s"),
            ("old cluster empty after", f"{found.drained_s:.1f} s" if found.drained_s is not None else "not yet"),
        )
    )
    print_line()
    print_line(f"{found.problem or 'no job was disturbed, and none was submitted again'}")


async def _set_up(stage: Stage) -> None:
    """Wait for the team's queue and the nodes of both clusters. Raises DemoFailedError."""
    await stage.muster.set_queue(QueueSpec(name=TEAM))

    async def are_ready() -> bool:
        queues = {queue.cluster for queue in await stage.muster.queues() if queue.name == TEAM}
        usable = [node.cluster for node in await stage.muster.nodes() if node.usable]
        return queues == {OLD, NEW} and all(usable.count(cluster) == NODES for cluster in (OLD, NEW))

    await stage.until("both clusters know the queue and all their nodes", are_ready, patience_s=LATE_S)


async def _load(muster: "Muster", numbers: range) -> list[str]:
    """Submit one short job after the other; return their ids."""
    handed_in = []
    for number in numbers:
        handed_in.append(await _submit(muster, f"short-{number}", gpus=LOAD[number % len(LOAD)], run_s=LOAD_S))
        await asyncio.sleep(PAUSE_S)
    return handed_in


async def _submit(muster: "Muster", name: str, *, gpus: int, run_s: float) -> str:
    spec = JobSpec(
        name=name,
        team=TEAM,
        task_groups=(TaskGroup(gpus=gpus, cpu_milli=1_000, memory_mib=1_024),),
        labels={RUN_S: str(run_s), EXIT_CODE: "0"},
    )
    return (await muster.submit(spec)).id


async def _old_is_full(stage: Stage, short: Sequence[str]) -> None:
    """Wait until the last submitted jobs are pending in the old cluster."""

    async def is_so() -> bool:
        last = await stage.muster.get(short[-1])
        return last.phase is Phase.QUEUED and last.cluster == OLD

    await stage.until(f"jobs wait in {OLD}", is_so)


async def _all_have_ended(stage: Stage, handed_in: Sequence[str]) -> None:
    live = list(handed_in)

    async def are_over() -> bool:
        while live and (await stage.muster.get(live[-1])).phase.is_terminal:
            live.pop()
        return not live

    await stage.until("all jobs have ended", are_over, patience_s=LATE_S)


async def _is_drained(muster: "Muster") -> bool:
    found = await muster.federation()
    return any(one.name == OLD and one.state is ClusterPhase.DRAINED for one in found.clusters)


async def _logs(state_dir: Path) -> Logs:
    """Read all three logs, each where it is written."""
    cells = {cluster: settings_of(state_dir / CELLS / cluster) for cluster in (OLD, NEW)}
    return Logs(
        old=OLD,
        new=NEW,
        fed=await _facts(settings_of(state_dir), FED_LOG),
        at_old=await _facts(cells[OLD], cluster_log(OLD)),
        at_new=await _facts(cells[NEW], cluster_log(NEW)),
    )


async def _facts(settings: Settings, log: LogName) -> list[Fact]:
    """Return all facts of a log."""

    async def read(client: "Client") -> list[Fact]:
        reader = await NatsLog(client, log).reader(after_seq=0)
        facts: list[Fact] = []
        head, seen = await reader.head(), 0
        while seen < head:
            batch = await reader.read(limit=READ_FACTS, timeout_s=READ_IDLE_S)
            facts += batch.facts
            seen = batch.last_seq
        await reader.close()
        return facts

    return await on_bus(settings, ADMIN_TOOLS, read)
