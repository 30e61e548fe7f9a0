"""The same fleet without upgrade, upgraded by a campaign, and drained manually, with the cost of each."""

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
"""Time until jobs run and the upgrade begins."""
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
"""Limits for simulated weeks: pending jobs get a new reason, and a search of the whole fleet, a few times a day."""
VALIDATION = Validation((CheckOrder(check="device-count"), CheckOrder(check="gpu-health")))

Reached = Callable[[str, float], None]
"""Called with the name of the run and the virtual days that have passed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one run."""

    name: str
    took_s: float | None
    """Time until the last node was upgraded, None if that took more than DAYS_MAX."""
    killed: int
    """Jobs that were stopped without a checkpoint of that run."""
    moved: int
    """Jobs that were stopped with a checkpoint of that run."""
    redone_gpu_h: float
    """Work that has to be repeated."""
    idle_gpu_h: float
    """GPU-hours without a job until the end."""
    nodes_out: int
    """Maximum number of unavailable nodes."""
    upgraded: int
    facts: int


@dataclass(slots=True)
class _Watch:
    """All counters of one run."""

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
    """Return a driver upgrade of all nodes."""
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
    """Upgrade the fleet by a campaign of the upgrader."""
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
    """Drain nodes in the order of their names, as many at once as the campaign may take."""
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
    """Return the GPU-hours that idle in this time without an upgrade: gangs leave gaps."""
    watch = _Watch()
    engine = _engine(scene, watch, "upgrader", UpgraderCore(UpgradeConfig()))
    _run(engine, watch, "left alone", lambda: engine.now >= after(START, SETTLES_S + for_s), None)
    return _idle(scene, watch, engine.now)


def _engine(scene: Scene, watch: _Watch, writer: str, core: Core) -> Engine:
    """Return the fleet, full of jobs, with pending jobs."""
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
    """Submit a short job from time to time, and long ones so that BACKLOG of every size are always pending."""
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
