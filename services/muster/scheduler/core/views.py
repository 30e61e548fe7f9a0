"""Jobs, nodes and queues as people see them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from muster.books.node_reasons import in_words, node_reasons
from muster.core import Instant
from muster.quota.amounts import borrowing_of, nominal_of
from muster.quota.queues import QueueRecord, QueueTree
from muster.scheduler.core.fleet import DeviceRecord, NodeRecord
from muster.scheduler.core.jobs import JobRecord
from muster.schemas.job import Phase
from muster.schemas.views import JobView, NodeView, QueueView, job_view


def view_of(record: JobRecord, cluster: str) -> JobView:
    """The job as people see it."""
    is_running = record.phase is Phase.RUNNING
    reserved_at = record.reserved.starts_at if record.reserved is not None else 0
    return replace(
        job_view(record.job),
        queue=record.queue,
        phase=record.phase,
        cluster=cluster,
        attempt=record.attempt,
        nodes=tuple(dict.fromkeys(slot.node for slot in record.slots)),
        slots=record.slots,
        queued_at=record.queued_at,
        placed_at=record.placed_at,
        running_at=record.running_at,
        ended_at=record.ended_at,
        reason=record.reason,
        detail=record.detail,
        exit_code=record.exit_code,
        preflight=record.preflight,
        preemptions=record.preemptions,
        ran_s=record.ran_s,
        checkpointed_at=record.checkpointed_at,
        slice_ends_at=record.slice_end() if is_running and record.kind.preemptible else 0,
        reserved_at=reserved_at,
        made_way_for=record.made_way_for,
        priority=record.effective_priority,
        held=record.held is not None,
        retries_used=record.retries_used,
        failures_in_row=record.failures_in_row,
        node_losses=record.node_losses,
        preflight_failures=record.preflight_failures,
        excluded=tuple(one.node for one in record.excluded),
        lost_s=record.lost_s,
        lost_last_s=record.lost_last_s,
    )


def queue_view(
    record: QueueRecord, tree: QueueTree, cluster: str, now: Instant, *, queued: int, running: int
) -> QueueView:
    """The queue as people see it. queued, running: how many of its own jobs."""
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
    """The node as people see it; it is part of the cluster. devices: those that are not as their node."""
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
