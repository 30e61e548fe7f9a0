"""Jobs, nodes and queues as people see them."""

from collections.abc import Iterable, Mapping

from muster.cluster.node_reasons import in_words, node_reasons
from muster.cluster.node_records import DeviceRecord, NodeRecord
from muster.core import Instant
from muster.quota.amounts import borrowing_of, nominal_of
from muster.quota.queues import QueueRecord, QueueTree
from muster.scheduler.core.jobs import JobRecord
from muster.schemas.job import Phase
from muster.schemas.views import JobView, NodeView, QueueView, follow_state, job_view


def view_of(record: JobRecord, cluster: str) -> JobView:
    """The job as people see it."""
    row = job_view(record.job, cluster=cluster)
    follow_state(row, record)
    if record.phase is Phase.RUNNING and record.kind.preemptible:
        row.slice_ends_at = record.slice_end()
    return row


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
