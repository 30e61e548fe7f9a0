"""The same fleet three times: left alone, upgraded by a campaign, and drained by hand; and what each of them cost."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from muster.core import Core, Fact, Instant, after, seconds_between
from muster.scheduler.core.cycle import Limits
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.facts.node import RunningJobs
from muster.schemas.facts.operations import CheckOrder
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.facts.upgrade import CampaignEnded, CampaignSpec, CampaignStartRequested
from muster.schemas.job import Phase
from muster.simulator.engine import CHECKPOINT_NEVER, START, Engine, join_nodes, set_queue
from muster.simulator.load.play import EXPLAIN_EVERY_S, TRIAL_MS_PER_S, pace_of
from muster.upgrader.core import UpgraderCore
from muster.upgrader.core.config import UpgradeConfig, Validation
from muster.upgrader.core.outlook import nodes_of
from muster_tools.demo.upgrade.account import Account
from muster_tools.demo.upgrade.naive import NaiveDrain
from muster_tools.demo.upgrade.scene import GANG_NODES, GPUS, QUEUE, SHORT_S, Scene

SETTLES_S = 600.0
"""Jobs are running by then; the upgrade begins."""
FEED_S = 900.0
BACKLOG = 4
STARVING_S = 2 * 86_400.0
DAYS_MAX = 30.0
STEP_S = 5.0
SURVEY_EVERY_S = 6 * 3600.0
LIMITS = Limits(
    unschedulable_interval_s=EXPLAIN_EVERY_S,
    checkpoint_every_facts=CHECKPOINT_NEVER,
    trial_ms_per_s=TRIAL_MS_PER_S,
    survey_every_s=SURVEY_EVERY_S,
)
"""Weeks go by: who waits hears why, and is looked for in the whole fleet, a few times a day."""
VALIDATION = Validation((CheckOrder(check="device-count"), CheckOrder(check="gpu-health")))

Reached = Callable[[str, float], None]
"""Told how far it is: which run, and virtual days."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run. took_s: until the last node was upgraded, None: not within DAYS_MAX. killed, moved: jobs that were
    stopped without a checkpoint of that run, and with one. redone_gpu_h: work that has to be done again. idle_gpu_h:
    GPUs that no job held until the end. nodes_out: out of use at one time, at the most.
    """

    name: str
    took_s: float | None
    killed: int
    moved: int
    redone_gpu_h: float
    idle_gpu_h: float
    nodes_out: int
    upgraded: int
    facts: int


@dataclass(slots=True)
class _Watch:
    """Everything that is counted of one run."""

    account: Account = field(default_factory=Account)
    out: set[str] = field(default_factory=set)
    most_out: int = 0
    upgraded: set[str] = field(default_factory=set)
    ended_at: int = 0

    def __call__(self, fact: Fact) -> None:
        self.account.watch(fact)
        if fact.name == "withheld":
            self.out.add(fact.subject_id)
            self.most_out = max(self.most_out, len(self.out))
        elif fact.name == "withhold-withdrawn":
            self.out.discard(fact.subject_id)
        elif fact.name == "checks-reported":
            self.upgraded.add(fact.subject_id)
        elif isinstance(fact.payload, CampaignEnded):
            self.ended_at = fact.time


def campaign(scene: Scene, *, max_unavailable: str = "5%", running: RunningJobs = RunningJobs.FINISH) -> CampaignSpec:
    """The driver of all nodes."""
    return CampaignSpec.model_validate(
        {
            "name": "driver-580",
            "component": "driver",
            "version": "580.105",
            "max_unavailable": max_unavailable,
            "takes_s": scene.action_s + scene.check_s,
            "action_limit_s": 4 * scene.action_s,
            "suite": "validate",
            "running": running,
        }
    )


def upgraded_in_turns(scene: Scene, spec: CampaignSpec, *, reached: Reached | None = None) -> Outcome:
    """By a campaign of the upgrader."""
    core = UpgraderCore(UpgradeConfig(suites={"validate": VALIDATION}))
    watch = _Watch()
    engine = _engine(scene, watch, "upgrader", core)

    def start() -> None:
        asked = CampaignStartRequested(spec=spec, principal="ann")
        engine.write("federation", "campaign", spec.name, "start-forwarded", asked)

    engine.at(after(START, SETTLES_S), start)
    ended = _run(engine, watch, "campaign", lambda: bool(watch.ended_at), reached)
    return _outcome(scene, "campaign", engine, watch, ended)


def drained_by_hand(
    scene: Scene, spec: CampaignSpec, *, running: RunningJobs = RunningJobs.REQUEUE, reached: Reached | None = None
) -> Outcome:
    """As many nodes at a time as the campaign may take, in the order of their names."""
    most = nodes_of(spec.max_unavailable, scene.nodes)
    core = NaiveDrain(spec, VALIDATION, list(scene.fleet()), most=most, running=running)
    watch = _Watch()
    engine = _engine(scene, watch, "upgrader", core)
    name = "naive drain" if running is RunningJobs.REQUEUE else "cordon and wait"

    def start() -> None:
        core.begins = True
        engine.decide_once("upgrader")

    engine.at(after(START, SETTLES_S), start)
    ended = _run(engine, watch, name, lambda: bool(core.done_at), reached)
    return _outcome(scene, name, engine, watch, ended)


def left_alone(scene: Scene, *, for_s: float) -> float:
    """GPU-hours that idle in so many seconds where nothing is upgraded: gangs leave gaps."""
    watch = _Watch()
    engine = _engine(scene, watch, "upgrader", UpgraderCore(UpgradeConfig()))
    _run(engine, watch, "left alone", lambda: engine.now >= after(START, SETTLES_S + for_s), None)
    return _idle(scene, watch, engine.now)


def _engine(scene: Scene, watch: _Watch, writer: str, core: Core) -> Engine:
    """The fleet, full of jobs, and the line behind them."""
    engine = Engine(
        scene.fleet(),
        behaviour=scene.behaviour(),
        start=START,
        limits=LIMITS,
        pace=pace_of(STEP_S),
        watch=watch,
        beside={writer: core},
    )
    join_nodes(engine)
    set_queue(engine, QueueSpec(name=QUEUE, starving_after_s=STARVING_S), at="queues[0]")

    def arrive() -> None:
        for job, worked_s in scene.running():
            watch.account.worked_s[job.id] = worked_s
            engine.route(job)

    engine.at(START, arrive)
    _feed(engine, scene)
    return engine


def _feed(engine: Engine, scene: Scene) -> None:
    """A short job comes every now and then, and long ones, so that BACKLOG of every size always wait."""
    short, long = count(), count()

    def come() -> None:
        engine.route(scene.short(next(short)))
        records = engine.scheduler.state.jobs.records.values()
        waiting = Counter(record.job.spec.task_groups[0].replicas for record in records if _waits(record))
        for nodes in sorted(set(GANG_NODES)):
            for _ in range(BACKLOG - waiting[min(nodes, scene.nodes)]):
                engine.route(scene.next(next(long), nodes))
        engine.at(after(engine.now, FEED_S), come)

    engine.at(after(START, SETTLES_S), come)


def _waits(record: JobRecord) -> bool:
    return record.phase is Phase.QUEUED and record.job.spec.total_run_time_s > max(SHORT_S)


def _run(engine: Engine, watch: _Watch, name: str, is_over: Callable[[], bool], reached: Reached | None) -> bool:
    told = 0.0
    for moment in engine.moments(after(START, DAYS_MAX * 86_400)):
        days = seconds_between(START, moment) / 86_400
        if reached is not None and days >= told + 0.25:
            told = days
            reached(name, days)
        if is_over():
            watch.account.count(engine.now)
            return True
    watch.account.count(engine.now)
    return False


def _idle(scene: Scene, watch: _Watch, now: Instant) -> float:
    all_gpu_h = scene.nodes * GPUS * seconds_between(START, now) / 3600
    return all_gpu_h - watch.account.busy_gpu_h


def _outcome(scene: Scene, name: str, engine: Engine, watch: _Watch, ended: bool) -> Outcome:
    account = watch.account
    return Outcome(
        name=name,
        took_s=seconds_between(after(START, SETTLES_S), engine.now) if ended else None,
        killed=sum(account.killed.values()),
        moved=sum(account.moved.values()),
        redone_gpu_h=account.redone_gpu_h,
        idle_gpu_h=_idle(scene, watch, engine.now),
        nodes_out=watch.most_out,
        upgraded=len(watch.upgraded),
        facts=engine.seq,
    )
