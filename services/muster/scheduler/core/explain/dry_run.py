"""The outcome for a job if it were submitted now: refused, placed, placed after preemption, or queued.

Where scaling may add nodes and devices, a job that the present nodes can never hold waits for new ones.
"""

from collections.abc import Mapping

from muster.cluster.gangs import gang_of
from muster.cluster.node_records import NodeTable
from muster.core import Instant, after
from muster.placement import Fleet, GangRequest, Hold, Shortage
from muster.quota.amounts import gang_amounts
from muster.scheduler.core.admit.access import passable
from muster.scheduler.core.admit.arrivals import NO_SHARING, OF_NO_SHARING, REPLICAS_MAX
from muster.scheduler.core.admit.quota import ceiling_of
from muster.scheduler.core.explain.expected import NAMED_MAX, Expected, expected_start
from muster.scheduler.core.explain.why import kept_for_others
from muster.scheduler.core.order import rank
from muster.scheduler.core.preempt.preemption import Preemptions
from muster.scheduler.core.reasons import OF_NODES, Blocked, Reason, hint_of, of_ceiling, of_shortage
from muster.scheduler.core.requeue import Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import EquivalenceClass, JobBook, JobRecord
from muster.scheduler.core.stores.pending_queue import Place
from muster.scheduler.core.stores.pending_queues import PendingQueues
from muster.schemas.job import Job, JobSpec, Phase
from muster.schemas.queries import DryRunAnswer

_TRIAL = "dry-run"

# the job's field to report when no fleet of these nodes could hold the job
_FIELDS: Mapping[str, str] = {
    Reason.MODEL: "task_groups.gpu_models",
    Reason.GPU: "task_groups.gpus",
    Reason.FRAGMENTED: "task_groups.gpus",
    Reason.CPU: "task_groups.cpu_milli",
    Reason.MEMORY: "task_groups.memory_mib",
    Reason.TOPOLOGY: "topology",
    Reason.NON_PREEMPTIBLE: "preemptible",
}


def dry_run(state: State, spec: JobSpec, now: Instant, *, may_grow: bool = False) -> DryRunAnswer:
    """Return the answer; the state is unchanged. `may_grow`: see `Limits`."""
    refused = _never(state, spec)
    if refused is not None:
        return refused
    record = _record(state, spec, now)
    lacking = _lacking(state.nodes, state.fleet, record.job_class.gang)
    if lacking is None:
        return _now(state, record, now)
    reason = of_shortage(lacking).reason
    if may_grow and reason in OF_NODES:
        return _now(state, record, now, lacks=lacking.detail)
    return DryRunAnswer(refused=True, field=_FIELDS.get(reason, "task_groups"), reason=reason, detail=lacking.detail)


def _lacking(nodes: NodeTable, fleet: Fleet, gang: GangRequest) -> Shortage | None:
    """Return why these nodes could not hold the gang even if empty; None if they could, or if no node is known."""
    if all(record.description is None for record in nodes.values()):
        return None  # the fleet is not known yet; the job waits for it
    return fleet.could_ever_fit(gang)


def _now(state: State, record: JobRecord, now: Instant, *, lacks: str = "") -> DryRunAnswer:
    """Return the answer for a job that is placed or waits. `lacks` says what has to be added before it fits."""
    job_class, fleet = record.job_class, state.fleet
    ceiling = ceiling_of(state.queues, record)
    with state.bookings.opened(passable(state.bookings, record, now)):
        holds: tuple[Hold, ...] | Shortage | None = fleet.find(job_class.gang)
    if holds is None:
        holds = fleet.shortage(job_class.gang)
    if ceiling is None and not isinstance(holds, Shortage):
        nodes = tuple(dict.fromkeys(hold.slot.node for hold in holds))
        return DryRunAnswer(placed=True, nodes=nodes, expected_start_at=now, expected_basis="there is room for it now")
    blocked: Blocked | None = None
    if ceiling is not None:
        blocked = of_ceiling(ceiling, wanted=job_class.amounts_least)
    elif isinstance(holds, Shortage):
        blocked = kept_for_others(state.bookings, fleet, job_class.gang, now) or of_shortage(holds)
    assert blocked is not None, "what is admitted and has a place is placed"
    preempts = Preemptions(state, Requeue()).would_ask(record, now)
    expected = expected_start(state, record, now)
    if preempts:
        expected = _when_they_are_gone(state.jobs, preempts, now)
    never = state.queues.never(record.queue, job_class.amounts_least, preemptible=job_class.preemptible)
    return DryRunAnswer(
        reason=blocked.reason,
        detail=blocked.detail,
        position=position(state.pending, record.queue, (record.rank, record.routed_seq))[0],
        cure=hint_of(blocked.reason, never=never, lacks=lacks, may_grow=bool(lacks)),
        preempts=preempts,
        expected_start_at=expected.at,
        expected_basis=expected.basis,
    )


def _when_they_are_gone(jobs: JobBook, preempts: tuple[str, ...], now: Instant) -> Expected:
    specs = [jobs.records[job_id].job.spec for job_id in preempts]
    grace_s = max(spec.grace_s for spec in specs)
    names = ", ".join(spec.name for spec in specs[:NAMED_MAX])
    more = f" and {len(specs) - NAMED_MAX} more" if len(specs) > NAMED_MAX else ""
    verb = "makes" if len(specs) == 1 else "make"
    return Expected(after(now, grace_s), f"{names}{more} {verb} way, within {grace_s:g} s")


def position(pending_queues: PendingQueues, queue: str, place: Place) -> tuple[int, int]:
    """Return the position, from 1, among the queue's waiting jobs, and the number of waiting jobs."""
    places = [
        other for pending in pending_queues.queues.values() if pending.queue == queue for other, _ in pending.jobs
    ]
    return 1 + sum(other < place for other in places), len(places)


def _job(spec: JobSpec) -> Job:
    return Job(id="A" * 26, spec=spec, principal=_TRIAL, idempotency_key=_TRIAL, body_hash="")


def _record(state: State, spec: JobSpec, now: Instant) -> JobRecord:
    job, policy = _job(spec), state.queues.policy(spec.queue_name)
    total_s, slice_s = policy.run_times(spec)
    return JobRecord(
        job=job,
        job_class=EquivalenceClass(
            gang_of(job), preemptible=spec.preemptible, bound_s=slice_s if spec.preemptible else total_s
        ),
        queue=spec.queue_name,
        routed_seq=state.progress.folded + 1,
        phase=Phase.QUEUED,
        queued_at=now,
        total_run_time_s=total_s,
        min_slice_s=slice_s,
        rank=rank(job, policy, came_at=now, used=0.0),
    )


def _never(state: State, spec: JobSpec) -> DryRunAnswer | None:
    """Return the refusal of a job that its queue can never admit, or that is too large; None for other jobs."""
    replicas = sum(group.replicas for group in spec.task_groups)
    if replicas > REPLICAS_MAX:
        detail = f"{replicas} replicas in all, at most {REPLICAS_MAX} are placed at once"
        return DryRunAnswer(refused=True, field="task_groups.replicas", reason=Reason.TOO_LARGE, detail=detail)
    if state.status.described.sharing == NO_SHARING and any(group.gpu_milli for group in spec.task_groups):
        return DryRunAnswer(refused=True, field="task_groups.gpu_milli", reason=Reason.NO_SHARING, detail=OF_NO_SHARING)
    queue = state.queues.queues.get(spec.queue_name)
    if queue is None:
        known = ", ".join(sorted(state.queues.queues)[:8]) or "none yet"
        detail = f"there is no queue {spec.queue_name}; there are: {known}"
        return DryRunAnswer(refused=True, field="queue", reason=Reason.UNKNOWN_QUEUE, detail=detail)
    if queue.spec.closed:
        detail = f"queue {spec.queue_name} takes no new jobs"
        return DryRunAnswer(refused=True, field="queue", reason=Reason.CLOSED_QUEUE, detail=detail)
    gang = gang_of(_job(spec))
    wanted = gang_amounts(gang, [group.replicas_least for group in gang.groups])
    ceiling = state.queues.never(spec.queue_name, wanted, preemptible=spec.preemptible)
    if ceiling is not None:
        blocked = of_ceiling(ceiling, wanted=wanted)
        field = _FIELDS.get(blocked.reason) or _FIELDS.get(_plain(ceiling.resource), "task_groups.gpus")
        return DryRunAnswer(refused=True, field=field, reason=blocked.reason, detail=blocked.detail)
    return None


def _plain(resource: str) -> str:
    """Return the resource without its model and unit."""
    return resource.partition(":")[0].removesuffix("_milli").removesuffix("_mib")
