"""Answers to questions, from the core's state alone. A question changes nothing and is never a fact."""

from muster.core import Core, Instant
from muster.scheduler.core.core import SchedulerCore
from muster.scheduler.core.dry_runs import dry_run, position
from muster.scheduler.core.explained import explain
from muster.scheduler.core.jobs import HOLDING, WAITING
from muster.scheduler.core.reasons import PHASE_REASONS, Reason, cure_of
from muster.scheduler.core.state import State
from muster.scheduler.core.summary import summarise
from muster.scheduler.core.views import node_view, queue_view, view_of
from muster.scheduler.core.waiting import entry_of
from muster.schemas.apiserver import ClusterView
from muster.schemas.base import Wire
from muster.schemas.queries import (
    AskDryRun,
    AskJob,
    AskQueueChange,
    DryRunAnswer,
    JobAnswer,
    NodesAnswer,
    QueueCheckAnswer,
    QueuesAnswer,
    WhyAnswer,
)


def answer_job(core: Core, ask: Wire, _now: Instant) -> JobAnswer:
    """`job`: the job as folded, None if it is not remembered."""
    assert isinstance(ask, AskJob)
    state = _settled(core)
    record = state.jobs.records.get(ask.job_id)
    return JobAnswer(job=view_of(record, state.cluster) if record is not None else None)


def answer_why(core: Core, ask: Wire, now: Instant) -> WhyAnswer:
    """`why`: where the job is in line, what keeps it there, what would help, and when it starts at the latest."""
    assert isinstance(ask, AskJob)
    state = _settled(core)
    assert isinstance(core, SchedulerCore)
    record = state.jobs.records.get(ask.job_id)
    if record is None:
        return WhyAnswer()
    view = view_of(record, state.cluster)
    if record.phase not in WAITING:
        reason, detail = PHASE_REASONS.get(record.phase, (Reason.ENDED, f"it ended as {record.phase.value}"))
        return WhyAnswer(job=view, reason=reason, detail=record.reason or detail)
    place, waiting = position(state, record.queue, entry_of(record)[0])
    blocked = explain(state, record, now)
    if record.is_set_aside:
        then = "released" if record.held is not None else "then"
        later = f"{blocked.detail}; {then}, it would be number {place} of {waiting + 1} in line"
        place, blocked = 0, blocked._replace(detail=later)
    kind, known = record.kind, record.queue in state.queues.queues
    never = state.queues.never(record.queue, kind.amounts_least, preemptible=kind.preemptible) if known else None
    expected = core.expectations.of(record, now)
    lacking = None if expected.at else state.fleet.could_ever_fit(kind.gang)
    return WhyAnswer(
        job=view,
        position=place,
        waiting=waiting,
        reason=blocked.reason,
        detail=blocked.detail,
        cure=cure_of(
            blocked.reason, never=never, lacks=lacking.detail if lacking is not None else "", may_grow=core.may_grow
        ),
        expected_start_at=expected.at,
        expected_basis=expected.basis,
    )


def answer_dry_run(core: Core, ask: Wire, now: Instant) -> DryRunAnswer:
    """`dry-run`: refused for ever, placed at once, or waiting, if the job came now."""
    assert isinstance(ask, AskDryRun)
    state = _settled(core)
    assert isinstance(core, SchedulerCore)
    return dry_run(state, ask.spec, now, may_grow=core.may_grow)


def answer_queues(core: Core, _ask: Wire, now: Instant) -> QueuesAnswer:
    """`queues`: all of them, with what they may hold and hold, what they borrow, and how many wait and run."""
    state = _settled(core)
    waiting, running = dict.fromkeys(state.queues.queues, 0), dict.fromkeys(state.queues.queues, 0)
    for record in state.jobs.records.values():
        if record.queue in waiting:
            waiting[record.queue] += record.phase in WAITING
            running[record.queue] += record.phase in HOLDING
    return QueuesAnswer(
        queues=tuple(
            queue_view(queue, state.queues, state.cluster, now, queued=waiting[name], running=running[name])
            for name, queue in sorted(state.queues.queues.items())
        )
    )


def answer_nodes(core: Core, _ask: Wire, _now: Instant) -> NodesAnswer:
    """`nodes`: all that are part of the cluster."""
    state = _settled(core)
    return NodesAnswer(
        nodes=tuple(
            node_view(name, record, state.cluster, state.grants.devices)
            for name, record in sorted(state.nodes.items())
            if record.description is not None
        )
    )


def answer_cluster(core: Core, _ask: Wire, _now: Instant) -> ClusterView:
    """`cluster`: what it is and how full it is."""
    state = _settled(core)
    told = summarise(state).model_dump(exclude={"cluster"})
    return ClusterView(name=state.cluster, **state.described.model_dump(), **told)


def answer_queue_check(core: Core, ask: Wire, _now: Instant) -> QueueCheckAnswer:
    """`queue-check`: may the queue be so?"""
    assert isinstance(ask, AskQueueChange)
    refusal = _settled(core).queues.check(ask.spec, {spec.name: spec for spec in ask.accepted})
    return QueueCheckAnswer() if refusal is None else QueueCheckAnswer(field=refusal.field, reason=refusal.reason)


def _settled(core: Core) -> State:
    """The state without proposals: a question sees only what was folded."""
    assert isinstance(core, SchedulerCore)
    core.state.proposals.settle()
    return core.state
