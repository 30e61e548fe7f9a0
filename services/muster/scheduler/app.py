"""Wires the scheduler service: its limits, the queries that it answers, and its metrics while it leads.

Counters follow each fact: time to placement, job outcomes, runs that were lost. Gauges (teams, queues, nodes and GPUs)
are set every `SHOW_S`, because a surge of jobs changes them thousands of times a second. Teams and queues are label
values up to a limit; all others are counted under `other`. A job or node is never a label value.
"""

import asyncio
import logging
import math
import os
from collections import Counter as Sums
from collections.abc import Sequence
from functools import partial

from nats.aio.client import Client
from prometheus_client import Counter, Gauge, Histogram

from muster.bus.clock import SystemTime, TimeSource
from muster.bus.gauges import BoundedLabels, LeaderGauges
from muster.bus.logs import LineLimiter
from muster.bus.service import CoreService, Hosted, LeaderHandle
from muster.bus.settings import Settings
from muster.bus.tracing import Exemplars, about, sampled_one_in
from muster.checks.plan import plan_of
from muster.checks.suites import policy_of
from muster.cluster.node_records import NodeRecord
from muster.core import Fact, Instant
from muster.core.fact import Core
from muster.core.instant import seconds_between
from muster.quota.amounts import borrowing_of, model_resource, nominal_of
from muster.quota.queues import QueueRecord
from muster.scheduler.core import SchedulerCore, answers
from muster.scheduler.core import answers as reservation_answers
from muster.scheduler.core.cycle import Limits
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.declaration import DECLARATION
from muster.scheduler.tally import STATES, Tally, changed_by
from muster.schemas.facts.job import REQUEUED, JobFinished, JobPlaced, JobQueued, QueuedReason
from muster.schemas.facts.queue import GPU
from muster.schemas.registry import StreamRole

TEAMS_MAX = 64
QUEUES_MAX = 128
MODELS_MAX = 32
_MILLI = 1000

_TEAM_JOBS = Gauge("muster_team_jobs", "Live jobs of the team, by state.", ("team", "state"))
_TEAM_GPUS = Gauge("muster_team_gpus_held", "GPUs held by the team's jobs.", ("team",))
_QUEUE_JOBS = Gauge("muster_queue_jobs", "Live jobs of the queue, without the queues below it.", ("queue", "state"))
_QUEUE_HELD = Gauge("muster_queue_gpus_held", "GPUs held by jobs of the queue and the queues below it.", ("queue",))
_QUEUE_NOMINAL = Gauge("muster_queue_gpus_nominal", "Nominal quota in GPUs; 0 without a quota.", ("queue",))
_QUEUE_LIMIT = Gauge("muster_queue_gpus_limit", "GPUs that the queue may hold; +Inf without a limit.", ("queue",))
_QUEUE_SHARE = Gauge("muster_queue_share", "Borrowed part of the lendable resources, by weight.", ("queue",))
_QUEUE_USED = Gauge("muster_queue_used_share", "The queue's share, computed from its decayed past usage.", ("queue",))
_QUEUE_WAIT = Gauge("muster_queue_oldest_wait_seconds", "Time that the queue's oldest job has waited.", ("queue",))
_NODES = Gauge("muster_nodes", "Nodes of the cluster, by state.", ("state",))
_GPUS = Gauge("muster_gpus", "GPUs of the cluster's nodes, by model.", ("model",))
_GPUS_HELD = Gauge("muster_gpus_held", "GPUs that jobs hold, by model.", ("model",))
_GPUS_UNUSABLE = Gauge("muster_gpus_unusable", "GPUs on which no new jobs are placed, by model.", ("model",))
_ANOMALIES = Gauge("muster_anomalies", "Facts that fitted no state since the core was created.", ("service",))

_NODE_STATES = ("usable", "lost", "withheld", "unreleased")


class Standing:
    """Sets the gauges of one leader term after the other. Shares the label values of `teams` with the counters."""

    def __init__(self, teams: BoundedLabels) -> None:
        self._gauges = LeaderGauges()
        self._teams = teams
        self._queues, self._models = BoundedLabels(QUEUES_MAX), BoundedLabels(MODELS_MAX)
        self._fleet_version = -1
        self._shown_models: set[str] = set()

    def show(self, state: State, tally: Tally, *, now: Instant) -> None:
        """Set all gauges from the state at `now`."""
        self._show_teams(tally)
        self._show_queues(state, tally, now)
        self._show_held(tally)
        if state.grants.changes != self._fleet_version:  # else nodes need not be walked through
            self._fleet_version = state.grants.changes
            self._show_fleet(state)
        self._gauges.show(_ANOMALIES, state.anomalies.total(), "scheduler")

    def hide(self) -> None:
        """Remove the gauges when the leader term ends."""
        self._gauges.hide()
        self._fleet_version, self._shown_models = -1, set()

    def _show_teams(self, tally: Tally) -> None:
        jobs, milli = Sums[tuple[str, str]](), Sums[str]()
        for (team, standing), count in tally.by_team.items():
            jobs[self._teams.of(team), standing] += count
            milli[self._teams.of(team)] += 0
        for team, held in tally.team_milli.items():
            milli[self._teams.of(team)] += held
        for team, held in milli.items():
            self._gauges.show(_TEAM_GPUS, held / _MILLI, team)
            for standing in STATES:
                self._gauges.show(_TEAM_JOBS, jobs[team, standing], team, standing)

    def _show_queues(self, state: State, tally: Tally, now: Instant) -> None:
        tree, label = state.queues, self._queues.of
        jobs, held = Sums[tuple[str, str]](), Sums[str]()
        for (queue, standing), count in tally.by_queue.items():
            jobs[label(queue), standing] += count
        for queue, milli in tally.queue_milli.items():
            for above in tree.queues[queue].path if queue in tree.queues else ():
                held[label(above.name)] += milli
        together: dict[str, list[QueueRecord]] = {}
        for name, record in tree.queues.items():
            together.setdefault(label(name), []).append(record)
        for shown, records in together.items():
            names = [record.name for record in records]
            waits = [since for name in names if (since := tally.oldest_wait(name))]
            show = self._gauges.show
            show(_QUEUE_HELD, held[shown] / _MILLI, shown)
            show(_QUEUE_NOMINAL, sum(map(_nominal_milli, records)) / _MILLI, shown)
            show(_QUEUE_LIMIT, sum(map(_limit_gpus, records)), shown)
            show(_QUEUE_SHARE, max(map(tree.share, names)), shown)
            show(_QUEUE_USED, max(tree.used_share(name, now) for name in names), shown)
            show(_QUEUE_WAIT, max(0.0, seconds_between(min(waits), now)) if waits else 0.0, shown)
            for standing in STATES:
                show(_QUEUE_JOBS, jobs[shown, standing], shown, standing)

    def _show_held(self, tally: Tally) -> None:
        held = Sums[str]()
        for resource, milli in tally.model_milli.items():
            held[self._model(resource)] += milli
        for model, milli in held.items():
            self._gauges.show(_GPUS_HELD, milli / _MILLI, model)

    def _show_fleet(self, state: State) -> None:
        nodes, gpus, unusable = Sums[str](), Sums[str](), Sums[str]()
        devices = state.grants.devices
        for record in state.nodes.values():
            if record.description is None:
                continue
            nodes[_node_state(record)] += 1
            present = record.description.present.values()
            if not present:
                continue
            model = self._model(model_resource(record.description.gpu_model))
            gpus[model] += len(present)
            if record.usable:
                unusable[model] += sum(uuid in devices and not devices[uuid].usable for uuid in present)
            else:
                unusable[model] += len(present)
        for standing in _NODE_STATES:
            self._gauges.show(_NODES, nodes[standing], standing)
        self._shown_models |= gpus.keys()  # a model that left the cluster is shown as 0
        for model in self._shown_models:
            self._gauges.show(_GPUS, gpus[model], model)
            self._gauges.show(_GPUS_UNUSABLE, unusable[model], model)

    def _model(self, resource: str) -> str:
        return self._models.of(resource.partition(":")[2])


def _node_state(record: NodeRecord) -> str:
    if record.lost:
        return "lost"
    if record.wishes:
        return "withheld"
    return "usable" if record.released else "unreleased"


def _nominal_milli(record: QueueRecord) -> int:
    return nominal_of(record.spec).get(GPU, 0)


def _limit_gpus(record: QueueRecord) -> float:
    """Return the GPUs that the queue may hold: its quota and borrowing limit; infinite without a borrowing limit."""
    borrowing = borrowing_of(record.spec).get(GPU)
    return math.inf if borrowing is None else (_nominal_milli(record) + borrowing) / _MILLI


SHOW_S = 2.0
"""Interval between two updates of the gauges; shorter than any scrape interval."""

FAILURES_TOLD_PER_S = 10
PLACE_SLOW_S = 1.0
"""A placement that takes longer always gets an exemplar, so that its trace can be found from the metrics."""

_WAITS_S = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0)
_TERMINAL = frozenset({"succeeded", "failed", "cancelled", "timed-out"})

_PLACE_S = Histogram(
    "muster_submit_to_placed_seconds",
    "Time from submission to first placement, in seconds. waited: whether the job was reported unschedulable before.",
    ("waited",),
    buckets=_WAITS_S,
)
_PLACE_AT_ONCE_S, _PLACE_TOLD_S = _PLACE_S.labels("no"), _PLACE_S.labels("yes")
_PLACED = Counter("muster_jobs_placed", "Placements of jobs, over all attempts.", ("team",))
_WAITED_S = Counter("muster_jobs_waited_seconds", "Total time that jobs waited in a queue before placement.", ("team",))
_ENDED = Counter("muster_jobs_ended", "Jobs that ended, by outcome.", ("team", "outcome"))
_REQUEUED = Counter("muster_jobs_requeued", "Jobs that were queued again after an attempt, by reason.", ("reason",))
for _reason in (*QueuedReason, REQUEUED):
    if _reason is not QueuedReason.SUBMITTED:
        _REQUEUED.labels(str(_reason))  # exported as 0 before the first, so that `rate()` sees the first increase

_logger = logging.getLogger(__name__)


class SchedulerSink:
    """The metrics and log lines of a leader, as a `Sink`. One instance serves successive leader terms.

    `time` paces the log lines. One in `one_in` traces is sent to a collector whole; None takes it from the environment.
    """

    def __init__(self, *, time: TimeSource | None = None, one_in: int | None = None) -> None:
        self._time = time or SystemTime()
        self._teams = BoundedLabels(TEAMS_MAX)
        self._placed: dict[str, tuple[Counter, Counter]] = {}
        self._ends: dict[tuple[str, str], Counter] = {}
        self._exemplars = Exemplars(sampled_one_in(os.environ) if one_in is None else one_in)
        self._standing = Standing(self._teams)
        self._telling = LineLimiter(FAILURES_TOLD_PER_S)
        self._tally = Tally()
        self._core: SchedulerCore | None = None
        self._showing: asyncio.Task[None] | None = None
        self._now = Instant(0)

    async def open(self, core: Core, connection: Client, leader: LeaderHandle) -> None:  # noqa: ARG002 - the port
        """Count the jobs of the state, and start to update the gauges."""
        assert isinstance(core, SchedulerCore), "these are metrics of the scheduler"
        self._core = core
        self._tally = Tally()
        self._tally.see_all(core.state.jobs.records.values())
        self._now = self._time.wall()
        self._showing = asyncio.create_task(self._keep_showing(core.state), name="scheduler metrics")

    async def after_fold(self, facts: Sequence[Fact], *, last_seq: int, now: Instant) -> None:  # noqa: ARG002 - the port
        """Count what the folded facts report."""
        assert self._core is not None, "a sink is opened first"
        assert self._showing is not None, "showing begins with the term"
        if self._showing.done():
            self._showing.result()  # raises the error of the task, so that the service recovers
        self._now = now
        state = self._core.state
        records = state.jobs.records
        for fact in facts:
            if fact.kind == "job" and fact.writer == "scheduler":
                self._count(fact, records.get(fact.subject_id))
        for job_id in changed_by(facts, state):
            self._tally.see(job_id, records.get(job_id))

    async def close(self) -> None:
        """Stop updating the gauges and remove them."""
        showing, self._showing, self._core = self._showing, None, None
        if showing is not None:
            showing.cancel()
            await asyncio.wait((showing,))
        self._standing.hide()

    def _count(self, fact: Fact, record: JobRecord | None) -> None:
        if record is None:
            return
        match fact.payload:
            case JobPlaced(attempt=attempt):
                placed, waited_s = self._of_team(record.job.spec.team)
                placed.inc()
                waited_s.inc(max(0.0, seconds_between(record.queued_at, fact.time)))
                if attempt == 1 and record.job.submitted_at:
                    took_s = max(0.0, seconds_between(record.job.submitted_at, fact.time))
                    exemplar = self._exemplars.of(fact.trace, slow=took_s > PLACE_SLOW_S)
                    (_PLACE_TOLD_S if record.explained_at else _PLACE_AT_ONCE_S).observe(took_s, exemplar)
            case JobQueued() as queued if queued.reason is not QueuedReason.SUBMITTED:
                _REQUEUED.labels(queued.shown_reason).inc()
            case JobFinished() as finished if fact.name in _TERMINAL:
                self._ended(record.job.spec.team, fact.name).inc()
                if fact.name == "failed" and self._telling.allows(self._time.monotonic_s()):
                    self._tell(fact, finished, record)

    def _of_team(self, name: str) -> tuple[Counter, Counter]:
        """Return the team's counters with their labels bound: looking up labels costs as much as counting."""
        team = self._teams.of(name)
        known = self._placed.get(team)
        if known is None:
            known = self._placed[team] = _PLACED.labels(team), _WAITED_S.labels(team)
        return known

    def _ended(self, name: str, outcome: str) -> Counter:
        key = self._teams.of(name), outcome
        known = self._ends.get(key)
        if known is None:
            known = self._ends[key] = _ENDED.labels(*key)
        return known

    def _tell(self, fact: Fact, finished: JobFinished, record: JobRecord) -> None:
        unsaid = self._telling.left_out()
        _logger.info(
            "job %s of team %s failed with exit code %d: %s%s",
            record.id, record.job.spec.team, finished.exit_code, finished.reason or "no reason was given",
            f"; {unsaid} more jobs failed since the last line" if unsaid else "",
            extra=about(fact.trace),
        )  # fmt: skip

    async def _keep_showing(self, state: State) -> None:
        while True:
            self._standing.show(state, self._tally, now=self._now)
            await asyncio.sleep(SHOW_S)


BLAME_MARGIN_S = 2.0
"""Time added to the reading interval, until health has reported a fault and the scheduler has folded the fact."""
BLAME_DERIVED_S_MAX = 60.0
"""Upper limit of a derived wait: with a longer reading interval, a job's places are not kept for the next reading."""


def blame_s_of(settings: Settings) -> float:
    """Return how long to wait before judging a job's error, in seconds; 0 if no health checks run.

    The default is one reading interval and a margin.
    """
    if settings.scheduler.blame_s is not None:
        return settings.scheduler.blame_s
    if not (settings.telemetry.enabled and settings.health.enabled):
        return 0.0
    return min(settings.telemetry.interval_s + BLAME_MARGIN_S, BLAME_DERIVED_S_MAX)


def services(settings: Settings) -> tuple[CoreService | Hosted, ...]:
    """Return the services of one cluster's scheduler."""
    sink = SchedulerSink()
    limits = Limits(
        unschedulable_interval_s=settings.scheduler.unschedulable_interval_s,
        checkpoint_every_facts=settings.scheduler.checkpoint_every_facts,
        may_grow=settings.scaling.mode != "off" and bool(settings.scaling.groups),
        heartbeat_s=settings.federation.heartbeat_s,
        blame_s=blame_s_of(settings),
        blame_unread=settings.scheduler.blame_s is not None,
        plan_of=partial(plan_of, policy=policy_of(settings.preflight)),
    )
    return (
        CoreService(
            declaration=DECLARATION,
            role=StreamRole.LOG,
            core=lambda: SchedulerCore(cluster=settings.cluster, limits=limits),
            sink=lambda: sink,
            queries={
                "job": answers.answer_job,
                "why": answers.answer_why,
                "dry-run": answers.answer_dry_run,
                "queues": answers.answer_queues,
                "nodes": answers.answer_nodes,
                "cluster": answers.answer_cluster,
                "queue-check": answers.answer_queue_check,
                "reservations": reservation_answers.answer_reservations,
                "reservation-check": reservation_answers.answer_reservation_check,
            },
        ),
    )
