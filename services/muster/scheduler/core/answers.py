"""Answers to questions, from the core's state alone. A question changes nothing and is never a fact."""

from collections.abc import Iterable, Mapping

from muster.core import Core, Instant
from muster.placement import Shortage
from muster.scheduler.core.amounts import gang_amounts
from muster.scheduler.core.core import SchedulerCore
from muster.scheduler.core.fleet import NodeRecord
from muster.scheduler.core.jobs import HOLDING, WAITING, JobRecord, gang_of
from muster.scheduler.core.reasons import PHASE_REASONS, Blocked, Reason, cure_of, of_ceiling, of_shortage
from muster.scheduler.core.state import REPLICAS_MAX, State
from muster.scheduler.core.turns import Place
from muster.scheduler.core.waiting import entry_of
from muster.scheduler.core.words import why_blocked
from muster.schemas.base import Wire
from muster.schemas.job import Job, JobSpec
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
from muster.schemas.views import JobView, NodeView, QueueView, job_view

_TRIAL = "dry-run"

# which field of a job is to blame when no fleet of these nodes could hold it
_FIELDS: Mapping[str, str] = {
    Reason.MODEL: "task_groups.gpu_models",
    Reason.GPU: "task_groups.gpus",
    Reason.FRAGMENTED: "task_groups.gpus",
    Reason.CPU: "task_groups.cpu_milli",
    Reason.MEMORY: "task_groups.memory_mib",
    Reason.TOPOLOGY: "topology",
}


def answer_job(core: Core, ask: Wire, _now: Instant) -> JobAnswer:
    """`job`: the job as folded, None if it is not remembered."""
    assert isinstance(ask, AskJob)
    state = _settled(core)
    record = state.jobs.records.get(ask.job_id)
    return JobAnswer(job=view_of(record, state.cluster) if record is not None else None)


def answer_why(core: Core, ask: Wire, _now: Instant) -> WhyAnswer:
    """`why`: where the job is in line, what keeps it there, and what would help."""
    assert isinstance(ask, AskJob)
    state = _settled(core)
    record = state.jobs.records.get(ask.job_id)
    if record is None:
        return WhyAnswer()
    view = view_of(record, state.cluster)
    if record.phase not in WAITING:
        reason, detail = PHASE_REASONS.get(record.phase, (Reason.ENDED, f"it ended as {record.phase.value}"))
        return WhyAnswer(job=view, reason=reason, detail=record.reason or detail)
    position, waiting = _position(state, record.queue, entry_of(record)[0])
    blocked = _blocked(state, record)
    kind, known = record.kind, record.queue in state.queues.queues
    never = state.queues.never(record.queue, kind.amounts_least, preemptible=kind.preemptible) if known else None
    return WhyAnswer(
        job=view,
        position=position,
        waiting=waiting,
        reason=blocked.reason,
        detail=blocked.detail,
        cure=cure_of(blocked.reason, never=never),
    )


def answer_dry_run(core: Core, ask: Wire, _now: Instant) -> DryRunAnswer:
    """`dry-run`: refused for ever, placed at once, or waiting, if the job came now."""
    assert isinstance(ask, AskDryRun)
    state = _settled(core)
    refused = _never(state, ask.spec)
    if refused is not None:
        return refused
    job = Job(id="A" * 26, spec=ask.spec, principal=_TRIAL, idempotency_key=_TRIAL, body_hash="")
    gang, queue = gang_of(job), ask.spec.queue_name
    wanted = gang_amounts(gang)
    blocked: Blocked | None = None
    ceiling = state.queues.ceiling(queue, wanted, preemptible=ask.spec.preemptible)
    holds = state.books.fleet.place(gang)
    if ceiling is not None:
        blocked = of_ceiling(ceiling, wanted=wanted)
    elif isinstance(holds, Shortage):
        blocked = of_shortage(holds)
    if blocked is not None or isinstance(holds, Shortage):
        assert blocked is not None
        _, waiting = _position(state, queue, (0, 0))
        return DryRunAnswer(reason=blocked.reason, detail=blocked.detail, position=waiting + 1)
    return DryRunAnswer(placed=True, nodes=tuple(dict.fromkeys(hold.slot.node for hold in holds)))


def answer_queues(core: Core, _ask: Wire, _now: Instant) -> QueuesAnswer:
    """`queues`: all of them, with what is held and how many wait and run."""
    state = _settled(core)
    waiting, running = dict.fromkeys(state.queues.queues, 0), dict.fromkeys(state.queues.queues, 0)
    for record in state.jobs.records.values():
        if record.queue in waiting:
            waiting[record.queue] += record.phase in WAITING
            running[record.queue] += record.phase in HOLDING
    return QueuesAnswer(
        queues=tuple(
            QueueView(
                name=name,
                cluster=state.cluster,
                parent=queue.spec.parent,
                gpu_milli_quota=queue.spec.gpu_milli_quota,
                gpu_milli_limit=queue.spec.gpu_milli_limit,
                gpu_milli_held=queue.held_milli,
                jobs_queued=waiting[name],
                jobs_running=running[name],
                closed=queue.spec.closed,
            )
            for name, queue in sorted(state.queues.queues.items())
        )
    )


def answer_nodes(core: Core, _ask: Wire, _now: Instant) -> NodesAnswer:
    """`nodes`: all that are part of the cluster."""
    state = _settled(core)
    return NodesAnswer(
        nodes=tuple(
            _node_view(name, record, state.cluster)
            for name, record in sorted(state.books.nodes.items())
            if record.description is not None
        )
    )


def answer_queue_check(core: Core, ask: Wire, _now: Instant) -> QueueCheckAnswer:
    """`queue-check`: may the queue be so?"""
    assert isinstance(ask, AskQueueChange)
    refusal = _settled(core).queues.check(ask.spec, {spec.name: spec for spec in ask.accepted})
    return QueueCheckAnswer() if refusal is None else QueueCheckAnswer(field=refusal.field, reason=refusal.reason)


def view_of(record: JobRecord, cluster: str) -> JobView:
    """The job as people see it."""
    return job_view(record.job).model_copy(
        update={
            "queue": record.queue,
            "phase": record.phase,
            "cluster": cluster,
            "attempt": record.attempt,
            "nodes": tuple(dict.fromkeys(slot.node for slot in record.slots)),
            "slots": record.slots,
            "queued_at": record.queued_at,
            "placed_at": record.placed_at,
            "running_at": record.running_at,
            "ended_at": record.ended_at,
            "reason": record.reason,
            "detail": record.detail,
            "exit_code": record.exit_code,
            "preflight": record.preflight,
        }
    )


def _settled(core: Core) -> State:
    """The state without proposals: a question sees only what was folded."""
    assert isinstance(core, SchedulerCore)
    core.state.books.settle()
    return core.state


def _position(state: State, queue: str, place: Place) -> tuple[int, int]:
    """Place from 1 among the waiting of the queue, and how many wait."""
    places = [place for lane in state.line.lanes.values() if lane.queue == queue for place, _ in lane.jobs]
    return 1 + sum(other < place for other in places), len(places)


def _blocked(state: State, record: JobRecord) -> Blocked:
    lane = state.line.lane_of(record)
    if lane is None:
        refusal = state.refusal(record)
        return Blocked(refusal[0].value, refusal[1]) if refusal else Blocked(Reason.ENDED, "it is being cancelled")
    if not lane.is_blocked:
        return Blocked(Reason.TURN, "it has not been tried yet")
    blocked = why_blocked(state, lane)
    if lane.jobs[0][1] == record.id:
        return blocked
    in_front = sum(place < entry_of(record)[0] for place, _ in lane.jobs)
    return Blocked(blocked.reason, f"{blocked.detail}; {in_front} jobs of the same shape are in front of it")


def _never(state: State, spec: JobSpec) -> DryRunAnswer | None:
    """The answer for a job that can never run here; None if it could, if nothing else ran."""
    replicas = sum(group.replicas for group in spec.task_groups)
    if replicas > REPLICAS_MAX:
        detail = f"{replicas} replicas in all, at most {REPLICAS_MAX} are placed at once"
        return DryRunAnswer(refused=True, field="task_groups.replicas", reason=Reason.TOO_LARGE, detail=detail)
    queue = state.queues.queues.get(spec.queue_name)
    if queue is None:
        known = ", ".join(sorted(state.queues.queues)[:8]) or "none yet"
        detail = f"there is no queue {spec.queue_name}; there are: {known}"
        return DryRunAnswer(refused=True, field="queue", reason=Reason.UNKNOWN_QUEUE, detail=detail)
    if queue.spec.closed:
        detail = f"queue {spec.queue_name} takes no new jobs"
        return DryRunAnswer(refused=True, field="queue", reason=Reason.CLOSED_QUEUE, detail=detail)
    job = Job(id="A" * 26, spec=spec, principal=_TRIAL, idempotency_key=_TRIAL, body_hash="")
    wanted = gang_amounts(gang_of(job))
    ceiling = state.queues.never(spec.queue_name, wanted, preemptible=spec.preemptible)
    if ceiling is not None:
        blocked = of_ceiling(ceiling, wanted=wanted)
        field = _FIELDS.get(ceiling.resource.removesuffix("_milli").removesuffix("_mib"), "task_groups.gpus")
        return DryRunAnswer(refused=True, field=field, reason=blocked.reason, detail=blocked.detail)
    if all(record.description is None for record in state.books.nodes.values()):
        return None  # the fleet is not known yet; the job waits for it
    shortage = state.books.fleet.could_ever_fit(gang_of(job))
    if shortage is None:
        return None
    reason = of_shortage(shortage).reason
    return DryRunAnswer(refused=True, field=_FIELDS.get(reason, "task_groups"), reason=reason, detail=shortage.detail)


def _node_view(name: str, record: NodeRecord, cluster: str) -> NodeView:
    shape = record.description
    assert shape is not None
    holds = [hold for of_job in record.jobs.values() for hold in of_job]
    asked = ", ".join(wish.request_id for wish in record.wishes)
    reason = "lost" if record.lost else f"withheld for {asked}" if asked else "" if record.released else "not released"
    return NodeView(
        name=name,
        cluster=cluster,
        gpu_model=shape.gpu_model,
        gpus=len(shape.gpu_uuids),
        gpu_milli_held=sum(hold.slot.gpu_milli * len(hold.slot.devices) for hold in holds),
        cpu_milli=shape.cpu_milli,
        cpu_milli_held=sum(hold.cpu_milli for hold in holds),
        memory_mib=shape.memory_mib,
        memory_mib_held=sum(hold.memory_mib for hold in holds),
        domains=shape.domains,
        usable=record.usable,
        lost=record.lost,
        reason=reason,
        jobs=_sorted(record.jobs),
    )


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
