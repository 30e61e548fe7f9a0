"""The past of a planned cluster as facts, at their times, until the time at which the scenario begins.

The scheduler itself emits `changed` and `queued`, so that it resolves run times, ranks and queues per user; none of its
other past decisions are recorded. Nodes exist from the start but are released only at the beginning, so that no job is
placed before.
"""

import dataclasses
from collections.abc import Callable
from itertools import groupby

from muster.agent.core.behaviour import Behaviour
from muster.core import Draft, Instant, after
from muster.core.virtual import Watch
from muster.scheduler.core.cycle import Limits
from muster.schemas.facts.job import JobCheckpointed, JobFinished, JobPlaced, JobReserved, JobRunning, PodsStarted
from muster.schemas.facts.job_requests import JobHoldRequested
from muster.schemas.facts.node import NodeLost, Released, WithholdRequested
from muster.schemas.facts.reservation import BookingRefused, ReserveRequested
from muster.schemas.job import Slot
from muster.simulator.engine import Engine, Pace, join_nodes, set_queue, survey_fabrics
from muster.simulator.errors import InputError
from muster.simulator.scenario.jobs import PlannedJob, Run
from muster.simulator.scenario.model import NodeState
from muster.simulator.scenario.plan import NOW, Plan

_GRANTS = frozenset({"released", "withheld", "booked"})


def release_nodes(engine: Engine) -> None:
    """Release the nodes and book what is reserved in advance; nothing else is decided."""
    engine.settle_core("scheduler", only=lambda draft: draft.name in _GRANTS and draft.kind != "job")


def reserve_for_starving(engine: Engine, plan: Plan, started: Callable[[Plan], Engine]) -> None:
    """Say in the engine, whose nodes are released, what was reserved before. started: an engine that folded a plan."""
    waiting = [job for job in plan.jobs if job.run is None]
    if all(job.starves_at > NOW for job in waiting):
        return
    earlier = tuple(job for job in plan.jobs if job.run is not None or job.starves_at <= NOW)
    before = started(dataclasses.replace(plan, jobs=earlier))
    release_nodes(before)
    before.settle_core("scheduler", only=_is_reservation)
    for record in before.scheduler.state.jobs.records.values():
        if record.reserved is not None:
            engine.write("scheduler", "job", record.id, "reserved", record.reserved, trace=record.job.trace)


def _is_reservation(draft: Draft) -> bool:
    return isinstance(draft.payload, JobReserved) and not draft.payload.victims


DAY_S = 86_400.0
FOR_EVER_S = 1e9
PRINCIPAL = "scenario"
AT_ONCE = Behaviour(seed=1, start_s=0.0, run_s=FOR_EVER_S, run_sigma=0.0, node_repair_s=FOR_EVER_S)
"""Pods start and end at once, and a job without a run time runs forever."""

_SAID_IN_THE_PAST = frozenset(
    {("job", "queued"), ("job", "held"), ("job", "failed"), ("queue", "changed"), ("queue", "change-refused")}
)


def engine_at_start(
    plan: Plan,
    *,
    behaviour: Behaviour = AT_ONCE,
    watch: Watch | None = None,
    limits: Limits | None = None,
    pace: Pace | None = None,
) -> Engine:
    """Return an engine at NOW that has folded the past; at NOW only the nodes were released. Raises InputError."""

    def started(of: Plan, watch: Watch | None = None) -> Engine:
        return _with_past(of, behaviour=behaviour, watch=watch, limits=limits, pace=pace)

    engine = started(plan, watch)
    release_nodes(engine)
    reserve_for_starving(engine, plan, started)
    return engine


def _with_past(
    plan: Plan, *, behaviour: Behaviour, watch: Watch | None, limits: Limits | None, pace: Pace | None
) -> Engine:
    """Return the engine with its past. Nodes are released last, by a scheduler without memory of failed placements."""
    moments = [job.submitted_at for job in plan.jobs]
    begin = after(min(moments, default=NOW), -DAY_S)
    scaled = None if plan.scaling is None else plan.scaling.begin()
    scaled_nodes = {} if scaled is None else scaled.groups.first_nodes()
    descriptions = {name: node.description for name, node in plan.nodes.items() if name not in scaled_nodes}
    engine = Engine(
        descriptions,
        behaviour=behaviour,
        start=begin,
        watch=watch,
        limits=limits,
        pace=pace,
        scaled=scaled,
        keeps_log=True,
    )
    join_nodes(engine)
    survey_fabrics(engine)
    _withhold(engine, plan)
    for at, spec in plan.queues:
        set_queue(engine, spec.model_copy(update={"closed": False}), at=at)
    for moment, acts in groupby(sorted(_past(engine, plan), key=lambda event: event[:2]), key=lambda event: event[:2]):
        engine.now = moment[0]
        for _, _, act in acts:
            act()
        if moment[1] == _SUBMIT:
            _queue_up(engine, plan)
    engine.now = NOW
    _begin(engine, plan)
    engine.restart_scheduler()
    engine.keeps_log = False
    engine.log.clear()
    return engine


_SUBMIT, _START, _CHECKPOINT = range(3)
_Event = tuple[Instant, int, Callable[[], None]]


def _past(engine: Engine, plan: Plan) -> list[_Event]:
    """Return the events before NOW in order: submissions first, then starts, then checkpoints."""
    events: list[_Event] = []
    for job in plan.jobs:
        if job.run is None and job.submitted_at >= NOW:
            continue
        events.append((job.submitted_at, _SUBMIT, _Act(engine, job).submit))
        if job.run is None:
            continue
        run = _Act(engine, job, plan.assigned[job.name], job.run)
        events.append((job.run.started_at, _START, run.start))
        if job.run.checkpointed_at is not None:
            events.append((job.run.checkpointed_at, _CHECKPOINT, run.checkpoint))
    return events


class _Act:
    """Past events of one job."""

    def __init__(self, engine: Engine, job: PlannedJob, slots: tuple[Slot, ...] = (), run: Run | None = None) -> None:
        self._engine = engine
        self._job = job
        self._slots = slots
        self._run = run

    def submit(self) -> None:
        _submit(self._engine, self._job)

    def start(self) -> None:
        slice_s = self._engine.scheduler.state.jobs.records[self._job.job.id].min_slice_s
        self._say("scheduler", JobPlaced(attempt=1, slots=self._slots, slice_s=slice_s), "placed")
        self._say("agent", PodsStarted(attempt=1), "pods-started")
        self._say("scheduler", JobRunning(attempt=1), "running")

    def checkpoint(self) -> None:
        self._say("agent", JobCheckpointed(attempt=1), "checkpointed")

    def _say(self, writer: str, payload: JobPlaced | PodsStarted | JobRunning | JobCheckpointed, name: str) -> None:
        job = self._job.job
        self._engine.write(writer, "job", job.id, name, payload, trace=job.trace)


def _submit(engine: Engine, planned: PlannedJob) -> None:
    job = planned.job
    engine.route(job)
    if planned.held:
        hold = JobHoldRequested(principal=PRINCIPAL)
        engine.write("federation", "job", job.id, "hold-forwarded", hold, trace=job.trace)


def _queue_up(engine: Engine, plan: Plan) -> None:
    """Let the scheduler say `queued` of those that came, and make the queues that they need."""
    for fact in engine.settle_core("scheduler", only=_belongs_to_the_past):
        if fact.name == "failed" and isinstance(fact.payload, JobFinished):
            at = next(job.at for job in plan.jobs if job.job.id == fact.subject_id)
            raise InputError(at, f"the scheduler refuses it: {fact.payload.reason}")


def _belongs_to_the_past(draft: Draft) -> bool:
    return (draft.kind, draft.name) in _SAID_IN_THE_PAST


def _withhold(engine: Engine, plan: Plan) -> None:
    for name, node in plan.nodes.items():
        if node.state not in (NodeState.READY, NodeState.LOST):
            request = WithholdRequested(request_id=f"{PRINCIPAL}-{node.state.value}", reason=node.state.value)
            engine.write("gateway", "node", name, "withhold-requested", request)
        for device in node.bad_gpus:
            request = WithholdRequested(request_id=f"{PRINCIPAL}-bad", reason="bad_gpus")
            engine.write("health", "device", node.description.gpu_uuids[device], "withhold-requested", request)


def _begin(engine: Engine, plan: Plan) -> None:
    """Apply the events at NOW: released and lost nodes, closed queues, reservations, and the submissions of now."""
    for name, node in plan.nodes.items():
        if node.state is NodeState.READY:
            engine.write("scheduler", "node", name, "released", Released())
        if node.state is NodeState.LOST:
            engine.write("agent", "node", name, "lost", NodeLost(reason="as the scenario says"))
    for at, spec in plan.queues:
        if spec.closed:
            set_queue(engine, spec, at=at)
    for at, booking in plan.reservations:
        engine.write(
            "federation", "reservation", booking.name, "reserve-forwarded",
            ReserveRequested(spec=booking, principal=PRINCIPAL),
        )  # fmt: skip
        for draft in engine.scheduler.decide(engine.now):
            if isinstance(draft.payload, BookingRefused):
                raise InputError(f"{at}.{draft.payload.field}", draft.payload.reason)
    for job in plan.jobs:
        if job.run is None and job.submitted_at >= NOW:
            _submit(engine, job)
