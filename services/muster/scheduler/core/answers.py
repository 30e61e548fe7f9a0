"""Answers to queries, from the core's state alone. A query changes nothing and is never a fact."""

from collections.abc import Iterable, Mapping

from muster.cluster.node_reasons import in_words, node_reasons
from muster.cluster.node_records import DeviceRecord, NodeRecord
from muster.core import Core, Instant
from muster.quota.amounts import borrowing_of, nominal_of
from muster.quota.queues import QueueRecord, QueueTree
from muster.scheduler.core.core import SchedulerCore
from muster.scheduler.core.explain.dry_run import dry_run, position
from muster.scheduler.core.explain.summary import summarise
from muster.scheduler.core.explain.why import explain
from muster.scheduler.core.reasons import PHASE_REASONS, Reason, hint_of
from muster.scheduler.core.reserve.requests import refusal
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import RESERVATION
from muster.scheduler.core.stores.jobs import HOLDING, WAITING, JobRecord
from muster.scheduler.core.stores.pending_queue import entry_of
from muster.schemas.apiserver import ClusterView
from muster.schemas.base import Wire
from muster.schemas.job import Phase
from muster.schemas.queries import (
    AskDryRun,
    AskJob,
    AskQueueChange,
    AskReservation,
    DryRunAnswer,
    JobAnswer,
    NodesAnswer,
    QueueCheckAnswer,
    QueuesAnswer,
    ReservationsAnswer,
    WhyAnswer,
)
from muster.schemas.views import JobView, NodeView, QueueView, ReservationView, follow_state, job_view


def answer_job(core: Core, ask: Wire, _now: Instant) -> JobAnswer:
    """Answer `job`: return the job as folded, None if it is not remembered."""
    assert isinstance(ask, AskJob)
    state = _settled(core)
    record = state.jobs.records.get(ask.job_id)
    return JobAnswer(job=view_of(record, state.cluster) if record is not None else None)


def answer_why(core: Core, ask: Wire, now: Instant) -> WhyAnswer:
    """Answer `why`: return the job's position, why it waits, a hint, and the latest expected start."""
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
    place, waiting = position(state.pending, record.queue, entry_of(record)[0])
    blocked = explain(state, record, now)
    if record.is_set_aside:
        then = "released" if record.held is not None else "then"
        later = f"{blocked.detail}; {then}, it would be number {place} of {waiting + 1} in line"
        place, blocked = 0, blocked._replace(detail=later)
    job_class, known = record.job_class, record.queue in state.queues.queues
    never = (
        state.queues.never(record.queue, job_class.amounts_least, preemptible=job_class.preemptible) if known else None
    )
    expected = core.expectations.of(record, now)
    lacking = None if expected.at else state.fleet.could_ever_fit(job_class.gang)
    return WhyAnswer(
        job=view,
        position=place,
        waiting=waiting,
        reason=blocked.reason,
        detail=blocked.detail,
        cure=hint_of(
            blocked.reason, never=never, lacks=lacking.detail if lacking is not None else "", may_grow=core.may_grow
        ),
        expected_start_at=expected.at,
        expected_basis=expected.basis,
    )


def answer_dry_run(core: Core, ask: Wire, now: Instant) -> DryRunAnswer:
    """Answer `dry-run`: return whether the job would be refused, placed at once, or wait, if it were submitted now."""
    assert isinstance(ask, AskDryRun)
    state = _settled(core)
    assert isinstance(core, SchedulerCore)
    return dry_run(state, ask.spec, now, may_grow=core.may_grow)


def answer_queues(core: Core, _ask: Wire, now: Instant) -> QueuesAnswer:
    """Answer `queues`: return all queues with their limits, amounts held and borrowed, and numbers of jobs."""
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
    """Answer `nodes`: return all nodes that are part of the cluster."""
    state = _settled(core)
    return NodesAnswer(
        nodes=tuple(
            node_view(name, record, state.cluster, state.grants.devices)
            for name, record in sorted(state.nodes.items())
            if record.description is not None
        )
    )


def answer_cluster(core: Core, _ask: Wire, _now: Instant) -> ClusterView:
    """Answer `cluster`: return the cluster's description and its utilization."""
    state = _settled(core)
    reported = summarise(state).model_dump(exclude={"cluster"})
    return ClusterView(name=state.cluster, **state.status.described.model_dump(), **reported)


def answer_queue_check(core: Core, ask: Wire, _now: Instant) -> QueueCheckAnswer:
    """Answer `queue-check`: return whether the queue change is valid, else the field and the reason."""
    assert isinstance(ask, AskQueueChange)
    refusal = _settled(core).queues.check(ask.spec, {spec.name: spec for spec in ask.accepted})
    return QueueCheckAnswer() if refusal is None else QueueCheckAnswer(field=refusal.field, reason=refusal.reason)


def _settled(core: Core) -> State:
    """Return the state without proposals: a query sees only what was folded."""
    assert isinstance(core, SchedulerCore)
    core.state.proposals.settle()
    return core.state


def answer_reservations(core: Core, _ask: Wire, now: Instant) -> ReservationsAnswer:
    """Answer `reservations`: return all booked reservations by name, each with its current or next start."""
    assert isinstance(core, SchedulerCore)
    state = core.state
    state.proposals.settle()
    views = []
    for name, reservation in sorted(state.reservations.booked.items()):
        booking = state.bookings.all.get(RESERVATION + name)
        views.append(
            ReservationView(
                name=name,
                cluster=state.cluster,
                spec=reservation.spec,
                active=reservation.starts_at <= now < reservation.ends_at,
                next_starts_at=reservation.starts_at,
                held_gpu_milli=booking.kept_milli if booking is not None else 0,
            )
        )
    return ReservationsAnswer(reservations=tuple(views))


def answer_reservation_check(core: Core, ask: Wire, now: Instant) -> QueueCheckAnswer:
    """Answer `reservation-check`: return whether the reservation is valid; an empty field means that it is."""
    assert isinstance(core, SchedulerCore)
    assert isinstance(ask, AskReservation)
    core.state.proposals.settle()
    found = refusal(core.state, ask.spec, now)
    return QueueCheckAnswer() if found is None else QueueCheckAnswer(field=found.field, reason=found.reason)


def view_of(record: JobRecord, cluster: str) -> JobView:
    """Return the job as users see it."""
    row = job_view(record.job, cluster=cluster)
    follow_state(row, record)
    if record.phase is Phase.RUNNING and record.job_class.preemptible:
        row.slice_ends_at = record.slice_end()
    return row


def queue_view(
    record: QueueRecord, tree: QueueTree, cluster: str, now: Instant, *, queued: int, running: int
) -> QueueView:
    """Return the queue as users see it, with the numbers of its own queued and running jobs."""
    spec = record.spec
    return QueueView(
        name=spec.name,
        cluster=cluster,
        parent=spec.parent,
        gpu_milli_quota=spec.gpu_milli_quota,
        gpu_milli_limit=spec.gpu_milli_limit,
        gpu_milli_held=record.held_milli,
        jobs_queued=queued,
        jobs_running=running,
        closed=spec.closed,
        quota=nominal_of(spec),
        borrowing_limit=borrowing_of(spec),
        lending_limit=dict(spec.lending_limit),
        held=record.held(),
        weight=spec.weight,
        order=record.policy.order,
        share=tree.share(spec.name),
        used_share=tree.used_share(spec.name, now),
        spec=spec,
    )


def node_view(name: str, record: NodeRecord, cluster: str, devices: Mapping[str, DeviceRecord]) -> NodeView:
    """Return a node of the cluster as users see it. `devices` has the devices whose state differs from their node's."""
    shape = record.description
    assert shape is not None
    holds = [hold for of_job in record.jobs.values() for hold in of_job]
    uuids = shape.present.values() if devices else ()
    reasons = node_reasons(
        cordon=record.cordon,
        wishes=record.wishes,
        devices={uuid: devices[uuid].wishes for uuid in uuids if uuid in devices},
        lost=record.lost,
        released=record.released,
        is_held=bool(record.jobs),
    )
    return NodeView(
        name=name,
        cluster=cluster,
        gpu_model=shape.gpu_model,
        gpus=len(shape.present),
        gpu_milli_held=sum(hold.slot.gpu_milli * len(hold.slot.devices) for hold in holds),
        cpu_milli=shape.cpu_milli,
        cpu_milli_held=sum(hold.cpu_milli for hold in holds),
        memory_mib=shape.memory_mib,
        memory_mib_held=sum(hold.memory_mib for hold in holds),
        domains=shape.domains,
        usable=record.usable,
        lost=record.lost,
        reason=in_words(reasons),
        reasons=reasons,
        jobs=_sorted(record.jobs),
        device_domains=shape.device_domains,
        group=shape.group,
    )


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
