"""Admission of one gang: quota is checked before and after a place is found.

The request is compared with quota first. A placed gang may hold more than it requested: of a GPU model, which is known
only once it has a place, or of GPUs, if it takes whole nodes. If the quota of a model is used up, other models are
tried. An elastic gang takes as many replicas as quota and free capacity allow, at least `min_replicas`.
"""

from collections.abc import Sequence

from muster.placement import GangRequest, Hold
from muster.quota.amounts import Amounts, gang_amounts, model_resource
from muster.quota.formulas import Ceiling
from muster.quota.queues import QueueTree
from muster.scheduler.core.reasons import of_ceiling
from muster.scheduler.core.stores.capacity import Capacity, amounts_of
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.core.stores.pending_queue import PendingQueue, QuotaBlock
from muster.scheduler.core.stores.pending_queues import PendingQueues
from muster.scheduler.core.stores.proposals import Proposals
from muster.schemas.facts.queue import GPU

MODELS_TRIED_MAX = 8
"""GPU models that one attempt excludes because their quota is used up."""


def ceiling_of(tree: QueueTree, record: JobRecord) -> Ceiling | None:
    """Return the limit that keeps the job from running with its minimum replicas; None if quota admits them."""
    wanted = record.job_class
    return tree.ceiling(record.queue, wanted.amounts_least, preemptible=wanted.preemptible)


def hold_least(tree: QueueTree, record: JobRecord, *, sign: int = 1) -> None:
    """Count the job's minimum amounts as held in its queue; sign -1 removes them."""
    wanted = record.job_class
    tree.hold(record.queue, wanted.amounts_least, sign=sign, preemptible=wanted.preemptible)


class Admission:
    """Admits gangs, or blocks their pending queues."""

    def __init__(
        self, queues: QueueTree, pending_queues: PendingQueues, proposals: Proposals, capacity: Capacity
    ) -> None:
        self._queues = queues
        self._pending_queues = pending_queues
        self._proposals = proposals
        self._capacity = capacity

    def admit(self, record: JobRecord, pending: PendingQueue) -> tuple[Hold, ...] | None:
        """Propose places for a job of a pending queue, in the fleet and in its queue; return None if it has to wait."""
        gang = self._within_quota(pending)
        job_class, proposals = pending.job_class, self._proposals
        barred = list[str]()
        first: tuple[Ceiling, Amounts] | None = None
        while gang is not None:
            avoided = job_class.avoided
            holds = proposals.propose_apart(record.id, gang, avoided) if avoided else proposals.propose(record.id, gang)
            if holds is None:
                break
            held = amounts_of(job_class, [hold.slot for hold in holds], self._capacity.models)
            ceiling = self._queues.ceiling(pending.queue, held, preemptible=job_class.preemptible)
            if ceiling is None:
                self._queues.propose(pending.queue, held, preemptible=job_class.preemptible)
                return holds
            proposals.retract(record.id)
            first = first or (ceiling, held)
            models = self._models(holds, ceiling.resource)
            barred += models
            gang = gang.without_models(models) if models and len(barred) < MODELS_TRIED_MAX else None
        if first is not None:
            self._block(pending, *first, depends_on_place=True)
        elif gang is not None:
            self._pending_queues.block_on_capacity(pending)
        return None

    def _within_quota(self, pending: PendingQueue) -> GangRequest | None:
        """Return the gang with the replicas that quota allows; else block the pending queue and return None."""
        job_class, queues = pending.job_class, self._queues
        ceiling = queues.ceiling(pending.queue, job_class.amounts, preemptible=job_class.preemptible)
        if ceiling is None:
            return job_class.gang
        wanted = job_class.amounts
        if job_class.gang.is_elastic:
            wanted = job_class.amounts_least
            ceiling = queues.ceiling(pending.queue, wanted, preemptible=job_class.preemptible)
            if ceiling is None:
                return job_class.gang.limited(self._most(pending))
        self._block(pending, ceiling, wanted, depends_on_place=False)
        return None

    def _most(self, pending: PendingQueue) -> Sequence[int]:
        """Return how many replicas of each group quota allows; the first group comes first."""
        job_class = pending.job_class
        counts = [group.replicas_least for group in job_class.gang.groups]
        for at, group in enumerate(job_class.gang.groups):
            least, most = counts[at], group.replicas
            while least < most:
                middle = (least + most + 1) // 2
                counts[at] = middle
                asked = gang_amounts(job_class.gang, counts)
                if self._queues.ceiling(pending.queue, asked, preemptible=job_class.preemptible) is None:
                    least = middle
                else:
                    most = middle - 1
            counts[at] = least
        return counts

    def _block(self, pending: PendingQueue, ceiling: Ceiling, wanted: Amounts, *, depends_on_place: bool) -> None:
        block = QuotaBlock(
            ceiling.resource,
            of_ceiling(ceiling, wanted=wanted),
            amounts=wanted,
            depends_on_place=depends_on_place,
            is_provisional=self._queues.has_proposals,
        )
        self._pending_queues.block_on_quota(pending, block)

    def _models(self, holds: Sequence[Hold], resource: str) -> list[str]:
        if not resource.startswith(f"{GPU}:"):
            return []
        models = {self._capacity.model_of(hold.slot.node) for hold in holds}
        return sorted(model for model in models if model_resource(model) == resource)
