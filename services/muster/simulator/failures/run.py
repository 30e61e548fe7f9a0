"""Weeks of one job on a fleet that fails: run them, and count what they cost."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from muster.core import Core, Fact, Instant, after, seconds_between
from muster.health.core.config import HealthConfig
from muster.health.core.core import HealthCore
from muster.health.core.fold_health import LEMON
from muster.scheduler.core.cycle import Limits
from muster.schemas.facts.health import FaultObserved, HealthMoved
from muster.schemas.facts.queue import QueueSpec
from muster.simulator.engine import CHECKPOINT_NEVER, START, Engine, join_nodes, set_queue
from muster.simulator.failures.account import Account, Bucket, RunWatch
from muster.simulator.failures.calendar import DAY_S, Incident, incidents, lemons_of
from muster.simulator.failures.scene import GPUS, QUEUE, Scene
from muster.simulator.failures.world import World
from muster.simulator.load.play import EXPLAIN_EVERY_S, TRIAL_MS_PER_S, pace_of

STEP_S = 1.0
SURVEY_EVERY_S = 6 * 3600.0
BLAME_S = 15.0
"""Time for blame after the end of a program: one scrape interval, and the time to report."""

Reached = Callable[[float], None]
"""Called with the progress in virtual days."""


@dataclass(slots=True)
class _Tally:
    """Results of health. false: units that were suspected although nothing is broken. out_ns: node-time out of use.

    sick: the nodes that fail more often than others, whose history is a reason to suspect them.
    """

    sick: frozenset[str]
    quarantines: int = 0
    false: int = 0
    lemons: set[str] = field(default_factory=set)
    brakes: int = 0
    faults: int = 0
    persons: int = 0
    out_ns: int = 0
    _out: dict[str, tuple[Instant, set[str]]] = field(default_factory=dict)

    def watch(self, fact: Fact, *, is_broken: Callable[[str], bool]) -> None:
        """Fold one fact."""
        match fact.payload:
            case FaultObserved():
                self.faults += 1
                if fact.payload.code == LEMON:
                    self.lemons.add(fact.subject_id)
            case HealthMoved():
                self._moved(fact, fact.payload, is_broken)
            case _ if fact.name == "brake-tripped":
                self.brakes += 1
            case _ if fact.kind == "node" and fact.name in ("lost", "cordon-forwarded"):
                self._gone(fact.subject_id, fact.name, fact.time)
            case _ if fact.kind == "node" and fact.name in ("returned", "resume-forwarded"):
                before = "lost" if fact.name == "returned" else "cordon-forwarded"
                self._back(fact.subject_id, before, fact.time)

    def _moved(self, fact: Fact, moved: HealthMoved, is_broken: Callable[[str], bool]) -> None:
        self.persons += moved.needs_person
        if fact.name == "suspect":
            self.quarantines += 1
            self.false += not (self._is_lost(moved.node) or is_broken(moved.node) or self._is_sick(moved))
            self._gone(moved.node, fact.subject_id, fact.time)
        elif fact.name == "healthy":
            self._back(moved.node, fact.subject_id, fact.time)

    def _is_lost(self, node: str) -> bool:
        """Return whether the node's host is broken, which no page shows."""
        return node in self._out and "lost" in self._out[node][1]

    def _is_sick(self, moved: HealthMoved) -> bool:
        return moved.node in self.sick and LEMON in moved.codes

    def _gone(self, node: str, why: str, at: Instant) -> None:
        since, reasons = self._out.setdefault(node, (at, set()))
        reasons.add(why)
        assert since <= at, "facts come in order"

    def _back(self, node: str, why: str, at: Instant) -> None:
        """Count a node as back once nothing keeps it out of use: a job that needs all its GPUs cannot use some."""
        since, reasons = self._out.get(node, (at, set[str]()))
        reasons.discard(why)
        if not reasons and self._out.pop(node, None) is not None:
            self.out_ns += at - since

    def close(self, at: Instant) -> None:
        """Close the tally."""
        for since, _ in self._out.values():
            self.out_ns += at - since
        self._out.clear()


@dataclass(frozen=True, slots=True)
class Outcome:
    """wall_s: of the job. spent_s: the whole of it, by bucket. interruptions: by cause. again: runs that ended by an
    incident that had ended one before. struck: incidents that were injected; on_lemons: of those, on lemons.

    given_up: why the scheduler ended the job, each time it was submitted again. quarantines: of nodes and devices.
    false: of what was not broken. repair_gpu_h: GPU-hours out of use. by_hand: repairs by people.
    """

    with_health: bool
    wall_s: float
    spent_s: dict[str, float]
    interruptions: dict[str, int]
    again: int
    runs: int
    struck: int
    on_lemons: int
    lemons: int
    lemons_found: int
    quarantines: int
    false: int
    brakes: int
    faults: int
    repair_gpu_h: float
    by_hand: int
    given_up: tuple[str, ...]
    facts: int

    @property
    def effective(self) -> float:
        """Return the share of the time whose work checkpoints kept."""
        return self.spent_s[Bucket.KEPT.value] / self.wall_s

    @property
    def total_interruptions(self) -> int:
        """Planned ones among them."""
        return sum(self.interruptions.values())


def play(scene: Scene, config: HealthConfig, *, reached: Reached | None = None) -> Outcome:
    """Run it. config: of health, where it watches."""
    health = HealthCore(config) if scene.with_health else None
    account = Account(scene.times.restart_s, scene.times.saving_s, START)
    sick = lemons_of(tuple(scene.fleet()), scene.odds, seed=scene.seed)
    run, tally = RunWatch(account), _Tally(sick)
    engine = _engine(scene, health)
    world = World(engine, scene, account, run, health)

    def watch(fact: Fact) -> None:
        tally.watch(fact, is_broken=lambda node: node in world.hurts)
        run.watch(fact)
        world.watch(fact)

    engine.watch = watch
    join_nodes(engine)
    set_queue(engine, QueueSpec(name=QUEUE), at="queues[0]")
    struck = incidents(tuple(scene.fleet()), scene.odds, days=scene.days, seed=scene.seed, rack_nodes=scene.rack_nodes)
    world.schedule(struck)
    _let_pass(engine, scene, run, reached)
    account.close(engine.now)
    tally.close(engine.now)
    return _outcome(world, tally, struck)


def _engine(scene: Scene, health: HealthCore | None) -> Engine:
    limits = Limits(
        unschedulable_interval_s=EXPLAIN_EVERY_S,
        checkpoint_every_facts=CHECKPOINT_NEVER,
        trial_ms_per_s=TRIAL_MS_PER_S,
        survey_every_s=SURVEY_EVERY_S,
        blame_s=BLAME_S if health is not None else 0.0,
    )
    beside: dict[str, Core] = {"health": health} if health is not None else {}
    return Engine(
        scene.fleet(), behaviour=scene.behaviour(), start=START, limits=limits, pace=pace_of(STEP_S), beside=beside
    )


def _let_pass(engine: Engine, scene: Scene, run: RunWatch, reached: Reached | None) -> None:
    """Run until the end; if the job is given up, submit it again from its newest checkpoint."""
    submitted, told = 1, 0.0
    engine.at(START, lambda: engine.route(scene.job(0)))
    for moment in engine.moments(after(START, scene.days * DAY_S)):
        days = seconds_between(START, moment) / DAY_S
        if reached is not None and days >= told + 0.25:
            told = days
            reached(days)
        if len(run.given_up) == submitted:
            engine.at(after(moment, scene.times.finds_s), partial(engine.route, scene.job(submitted)))
            submitted += 1


def _outcome(world: World, tally: _Tally, struck: tuple[Incident, ...]) -> Outcome:
    scene, engine, account, run = world.scene, world.engine, world.account, world.run
    lemons = tally.sick
    on_lemons = Counter(any(node in lemons for node in one.nodes) for one in struck)[True]
    return Outcome(
        with_health=scene.with_health,
        wall_s=seconds_between(START, engine.now),
        spent_s={bucket.value: account.seconds(bucket) for bucket in Bucket},
        interruptions=dict(account.interruptions.most_common()),
        again=account.again,
        runs=account.runs,
        struck=len(struck),
        on_lemons=on_lemons,
        lemons=len(lemons),
        lemons_found=len(tally.lemons & lemons),
        quarantines=tally.quarantines,
        false=tally.false,
        brakes=tally.brakes,
        faults=tally.faults,
        repair_gpu_h=tally.out_ns * GPUS / 3600 / 1e9,
        by_hand=world.by_hand,
        given_up=tuple(run.given_up),
        facts=engine.seq,
    )
