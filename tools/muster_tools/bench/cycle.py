"""Benchmark of the scheduler's core alone, in virtual time: the cost of the first and of later decisions.

Only `apply` and `decide` of the core are timed: no bus and no creation of facts; the agent's answers, which this
benchmark simulates, come between the measurements. Processor time is measured beside wall time, since it hardly depends
on the other load of the machine.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from muster.cli import output
from muster.cli.machine import this_machine
from muster.cli.options import Output
from muster.cli.progress import counting
from muster.core import NS_PER_S, Draft, Fact, Instant, after
from muster.core.virtual import VirtualCluster
from muster.scheduler.core import SchedulerCore
from muster.scheduler.core.cycle import Limits
from muster.schemas.base import Payload
from muster.schemas.facts.job import (
    JobPlaced,
    JobResizeRequested,
    JobRouted,
    JobStopRequested,
    PodsExited,
    PodsOutcome,
    PodsResized,
    PodsStarted,
)
from muster.schemas.facts.queue import QueueChangeRequested
from muster.schemas.job import Job
from muster_tools.bench.cycle_input import Scale, comers, fleet, holders, pick, queues, waiters
from muster_tools.bench.figures import print_figures

CLUSTER = "bench"
START = Instant(1_700_000_000 * NS_PER_S)
OVER_SLICE_S = 7_200.0
"""Run time of the fleet when pending jobs arrive: all running jobs are past their minimum run time and preemptible."""
ANSWER_S = 1.0
"""Virtual time in which the agent carries out a request."""
CHANGES_PER_S = 20.0
"""Virtual rate of changes: a fact limited to one per 5 s weighs as it would in such a cluster."""
WAITING_S = 180.0
"""How long the jobs have waited when changes are measured: preemption has settled, and all of them starve."""
ROUNDS_MAX = 10_000
"""Maximum number of decisions until no draft is left; more means an endless loop."""

Done = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Spent:
    """Time of one measurement, in milliseconds."""

    wall_ms: float
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution of several measurements, in ms."""

    runs: int
    wall_min_ms: float
    wall_median_ms: float
    wall_max_ms: float
    cpu_min_ms: float
    cpu_median_ms: float


@dataclass(frozen=True, slots=True)
class CycleReport:
    """Results of the benchmark."""

    gpus: int
    pending: int
    queues: int
    running: int
    fill: Spent
    first: Spent
    """From the arrival of all `pending` jobs until no draft is left."""
    first_decisions: int
    first_decide_max: Spent
    """The longest of the `first_decisions`."""
    waiting: Spent
    """The WAITING_S that follow, with preemption and reservations for starving jobs."""
    victims: int
    """Number of jobs preempted during `waiting`."""
    changed: Spread
    """One job ended and one arrived: fold and decide until no draft is left."""
    idle: Spread
    """A decision without changes."""
    placed: int
    """Jobs placed while changes were measured."""
    preempted: int
    """Jobs preempted while changes were measured."""


class Meter:
    """Sum of the time spent in the measured parts."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0
        self.longest = Spent(0.0, 0.0)
        self.decisions = 0

    def spent(self) -> Spent:
        """Return the time spent so far."""
        return Spent(round(1e3 * self.wall_s, 3), round(1e3 * self.cpu_s, 3))

    def time(self, work: Callable[[], list[Draft]]) -> list[Draft]:
        """Run the work and count it as a decision."""
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        drafts = work()
        took = time.perf_counter() - wall_s, time.process_time() - cpu_s
        self._add(*took)
        self.decisions += 1
        if 1e3 * took[0] > self.longest.wall_ms:
            self.longest = Spent(round(1e3 * took[0], 3), round(1e3 * took[1], 3))
        return drafts

    def fold(self, core: SchedulerCore, facts: Sequence[Fact]) -> None:
        """Fold the facts, timed."""
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        for fact in facts:
            core.apply(fact)
        self._add(time.perf_counter() - wall_s, time.process_time() - cpu_s)

    def _add(self, wall_s: float, cpu_s: float) -> None:
        self.wall_s += wall_s
        self.cpu_s += cpu_s


class Cell(VirtualCluster):
    """The scheduler's core, with the rest of the cluster simulated: facts in, drafts out and back in as facts.

    The core is not one of `cores`, so that its fold and decisions are timed apart from the creation of facts.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(CLUSTER, start=START, keeps_log=False)
        self.core = SchedulerCore(cluster=CLUSTER, limits=limits or Limits())
        self.running: dict[str, int] = {}
        self.said: dict[str, int] = {}
        self._answers: list[tuple[str, str, Payload]] = []

    def routed(self, job: Job) -> Fact:
        """Route a job to the cluster as the federation does."""
        return self.write("federation", "job", job.id, "routed", JobRouted(job=job, cluster=CLUSTER), trace=job.trace)

    def exited(self, job_id: str, outcome: PodsOutcome) -> Fact:
        """Report as the agent that a running job ended."""
        attempt = self.running.pop(job_id)
        payload = PodsExited(attempt=attempt, outcome=outcome, ran_s=OVER_SLICE_S)
        return self.write("agent", "job", job_id, "pods-exited", payload)

    def quiet(self, meter: Meter) -> None:
        """Decide and fold until no draft is left."""
        for _ in range(ROUNDS_MAX):
            drafts = meter.time(lambda: self.core.decide(self.now))
            if not drafts and self.core.next_wakeup() != self.now:
                return
            meter.fold(self.core, [self._from(draft) for draft in drafts])
        raise AssertionError(f"still deciding after {ROUNDS_MAX} decisions: the decisions do not converge")

    def live(self, seconds: float, meter: Meter) -> None:
        """Let virtual time pass: wake the scheduler when it asked for it, and send it the agent's answers."""
        end = after(self.now, seconds)
        self.answer(meter)
        while (wake := self.core.next_wakeup()) is not None and wake <= end:
            self.now = max(self.now, wake)
            self.quiet(meter)
            self.answer(meter)
        self.now = max(self.now, end)
        self.quiet(meter)

    def answer(self, meter: Meter) -> None:
        """Carry out requests as the agent does, until none is left."""
        while self._answers:
            answers, self._answers = self._answers, []
            self.now = after(self.now, ANSWER_S)
            meter.fold(self.core, [self.write("agent", "job", *answer) for answer in answers])
            self.quiet(meter)

    def _from(self, draft: Draft) -> Fact:
        self.said[draft.name] = self.said.get(draft.name, 0) + 1
        fact = self.append("scheduler", draft)
        job_id = draft.subject_id
        match draft.payload:
            case JobPlaced(attempt=attempt):
                self.running[job_id] = attempt
                self._later(job_id, "pods-started", PodsStarted(attempt=attempt))
            case JobStopRequested(attempt=attempt):
                self.running.pop(job_id, None)
                stopped = PodsExited(attempt=attempt, outcome=PodsOutcome.STOPPED, ran_s=OVER_SLICE_S)
                self._later(job_id, "pods-exited", stopped)
            case JobResizeRequested(attempt=attempt, slots=slots):
                self._later(job_id, "pods-resized", PodsResized(attempt=attempt, slots=len(slots)))
        return fact

    def _later(self, job_id: str, name: str, payload: Payload) -> None:
        self._answers.append((job_id, name, payload))


def measure(scale: Scale, *, changes: int, say: Callable[[str], None], done: Done) -> CycleReport:
    """Fill the fleet, submit pending jobs, then change a little `changes` times. done: called after each change."""
    say(f"filling {scale.gpus} GPUs")
    cell, fill = _fleet_and_queues(scale), Meter()
    _arrive(cell, fill, holders(scale))
    cell.answer(fill)
    cell.now = after(cell.now, OVER_SLICE_S)
    cell.quiet(fill)
    cell.answer(fill)
    running = len(cell.running)
    cell.said.clear()

    say(f"{scale.pending} jobs arrive")
    first, waiting = Meter(), Meter()
    _arrive(cell, first, waiters(scale))
    cell.live(WAITING_S, waiting)
    victims = cell.said.get("stop-requested", 0)
    cell.said.clear()

    say("measuring small changes")
    changed = _changes(cell, scale, changes, done)
    return CycleReport(
        gpus=scale.gpus,
        pending=scale.pending,
        queues=scale.queues,
        running=running,
        fill=fill.spent(),
        first=first.spent(),
        first_decisions=first.decisions,
        first_decide_max=first.longest,
        waiting=waiting.spent(),
        victims=victims,
        changed=spread(changed),
        idle=spread(_idle(cell, changes)),
        placed=cell.said.get("placed", 0),
        preempted=cell.said.get("stop-requested", 0),
    )


def spread(spent: Sequence[Spent]) -> Spread:
    """Return minimum, median and maximum of at least one measurement."""
    walls, cpus = [one.wall_ms for one in spent], [one.cpu_ms for one in spent]
    return Spread(
        runs=len(spent),
        wall_min_ms=min(walls),
        wall_median_ms=round(statistics.median(walls), 3),
        wall_max_ms=max(walls),
        cpu_min_ms=min(cpus),
        cpu_median_ms=round(statistics.median(cpus), 3),
    )


def _fleet_and_queues(scale: Scale) -> Cell:
    """Create a cell in which every node has joined and is schedulable, and every queue exists."""
    cell, untimed = Cell(), Meter()
    requests = (QueueChangeRequested(spec=spec, principal="bench") for spec in queues(scale))
    facts = [cell.write("federation", "queue", request.spec.name, "change-forwarded", request) for request in requests]
    facts += [cell.write("agent", "node", name, "joined", node) for name, node in fleet(scale)]
    untimed.fold(cell.core, facts)
    cell.quiet(untimed)
    return cell


def _arrive(cell: Cell, meter: Meter, jobs: Iterable[Job]) -> None:
    """Submit all jobs at once."""
    meter.fold(cell.core, [cell.routed(job) for job in jobs])
    cell.quiet(meter)


def _changes(cell: Cell, scale: Scale, count: int, done: Done) -> list[Spent]:
    """End one running job and submit one, `count` times; the agent's answers are not timed."""
    coming, found = comers(scale), list[Spent]()
    for number in range(count):
        cell.now = after(cell.now, 1 / CHANGES_PER_S)
        ended = pick(tuple(cell.running), "ends", number)
        facts = [cell.exited(ended, PodsOutcome.SUCCEEDED), cell.routed(next(coming))]
        meter = Meter()
        meter.fold(cell.core, facts)
        cell.quiet(meter)
        found.append(meter.spent())
        cell.answer(Meter())
        done()
    return found


def _idle(cell: Cell, count: int) -> list[Spent]:
    """Time decisions without changes."""
    found: list[Spent] = []
    for _ in range(count):
        meter = Meter()
        said = meter.time(lambda: cell.core.decide(cell.now))
        assert not said, f"nothing changed, and the core still emits {said[0].name}"
        found.append(meter.spent())
    return found


def run(scale: Scale, *, changes: int, form: Output) -> None:
    """Run the benchmark and print its results."""
    machine = this_machine()
    with counting("changes", total=changes) as advance:
        found = measure(scale, changes=changes, say=output.print_note, done=advance)
    print_figures(machine, asdict(found), _rows(found), form=form)


def _rows(found: CycleReport) -> list[tuple[str, str]]:
    return [
        (
            "input",
            f"{found.gpus} GPUs, all used by {found.running} jobs; {found.pending} pending in {found.queues} queues",
        ),
        ("fill the fleet", _once(found.fill)),
        ("first, all jobs new", f"{_once(found.first)}, {found.first_decisions} decisions"),
        ("  longest decision", _once(found.first_decide_max)),
        (f"  {WAITING_S / 60:.0f} minutes later", f"{_once(found.waiting)} in all, {found.victims} preempted"),
        ("one ended, one arrived", _often(found.changed)),
        ("nothing changed", _often(found.idle)),
        ("during the changes", f"{found.placed} placed, {found.preempted} preempted"),
    ]


def _once(spent: Spent) -> str:
    return f"{spent.wall_ms:,.1f} ms ({spent.cpu_ms:,.1f} ms CPU)"


def _often(spread: Spread) -> str:
    return (
        f"{spread.wall_median_ms:.2f} ms median, {spread.wall_min_ms:.2f} min, {spread.wall_max_ms:.2f} max "
        f"({spread.cpu_median_ms:.2f} ms CPU median) of {spread.runs}"
    )
