"""Whose failure the end of a run was: the job's own, or that of what it ran on.

Pods that end with an error on hardware that health withholds, or on a node that is lost, ended because of it: no retry
of the job is used. Health may see the fault a moment after the process died of it, so where it watches, an error of a
job with GPUs is judged only `blame_s` later; until then the job holds its places. Where nobody reads pages of GPUs
nothing would come of that: telemetry tells what jobs used only of pages that it read, and so that it does.
"""

from muster.cluster.grants import Grants
from muster.cluster.node_records import DEVICE, NodeTable
from muster.core import Instant, after
from muster.scheduler.core.lifecycle import preflight
from muster.scheduler.core.stores.holders import Holders
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.facts.job import PodsOutcome
from muster.schemas.facts.node import WithholdWish

READ_LATELY_S = 86_400.0
"""Pages that were read so long ago are taken to be read still; of a running job telemetry tells far oftener."""

HEALTH = "health"
"""Who withholds what fails."""


def infrastructure(record: JobRecord, nodes: NodeTable, grants: Grants, holders: Holders) -> str:
    """What is wrong with something that the job holds, in words; "" if nothing is known to be."""
    for name in dict.fromkeys(slot.node for slot in record.slots):
        node = nodes.get(name)
        if node is None or node.description is None:
            return f"node {name} left"
        if node.lost:
            return f"node {name} is lost"
        if (wish := _of_health(node.wishes)) is not None:
            return f"health withholds node {name}: {wish.reason or wish.request_id}"
    for uuid, device in grants.devices.items():
        wish = _of_health(device.wishes)
        if wish is not None and record.id in holders.of(DEVICE, uuid):
            return f"health withholds device {uuid}: {wish.reason or wish.request_id}"
    return ""


def pages_are_read(read_at: int, now: Instant) -> bool:
    """Whether somebody looks at the pages of GPUs. read_at: the newest reading that a fact told of, 0: none."""
    return bool(read_at) and now <= after(Instant(read_at), READ_LATELY_S)


def judged_at(record: JobRecord, *, blame_s: float) -> Instant:
    """When the end of a run is judged: at once, but for an error of a job with GPUs that nobody stopped.

    One before its first step is no failure of the job, whatever comes out.
    """
    exited = record.exited
    is_doubtful = exited is not None and exited.outcome is PodsOutcome.FAILED and record.stop_reason is None
    is_early = preflight.ended_before_first_step(record)
    if not blame_s or not is_doubtful or is_early or not record.job_class.gpu_milli or record.cancel_fact:
        return Instant(record.exited_at)
    return after(Instant(record.exited_at), blame_s)


def _of_health(wishes: tuple[WithholdWish, ...]) -> WithholdWish | None:
    return next((wish for wish in wishes if wish.by == HEALTH and (wish.answered or not wish.from_at)), None)
