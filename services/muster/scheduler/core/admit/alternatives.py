"""The requests that a job may count as: quota counts GPUs as held, which the request does not always determine.

A job that allows several GPU models counts for the model of its nodes, and a job of whole nodes with all their GPUs.
Where quota depends on that, each model is judged by itself, as if the job had requested it.
"""

from dataclasses import dataclass

from muster.placement import DEVICE_MILLI, GangRequest
from muster.quota.amounts import Amounts, gang_amounts, model_resource
from muster.quota.queues import QueueTree
from muster.scheduler.core.stores.capacity import Capacity
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.facts.queue import GPU

MODELS_TRIED_MAX = 8
"""GPU models that are tried for one job: those of which the cluster has most."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One request that a job may count as."""

    gang: GangRequest
    amounts: Amounts
    """What the minimum replicas count."""


def alternatives(record: JobRecord, gang: GangRequest, tree: QueueTree, capacity: Capacity) -> tuple[Alternative, ...]:
    """Return the requests that the job may count as in its queue: one, or one for each GPU model.

    gang: the job's, perhaps with fewer replicas. The queue must exist.
    """
    bounded = tree.queues[record.queue].bounded
    by_model = any(resource.startswith(f"{GPU}:") for resource in bounded)
    if not record.job_class.is_counted_by_place or not (by_model or GPU in bounded):
        return (Alternative(gang, record.job_class.amounts_least),)
    models = sorted(capacity.nodes_by_gpus, key=lambda model: (-capacity.totals.get(model_resource(model), 0), model))
    found = []
    for model in models:
        restricted = gang.of_model(model)
        if restricted is not None:
            found.append(Alternative(restricted, _amounts(restricted, model, max(capacity.nodes_by_gpus[model]))))
    return tuple(found[:MODELS_TRIED_MAX]) or (Alternative(gang, record.job_class.amounts_least),)


def _amounts(gang: GangRequest, model: str, gpus_per_node: int) -> Amounts:
    """Return what the minimum replicas hold on nodes of this model and size."""
    amounts = gang_amounts(gang, [group.replicas_least for group in gang.groups])
    more_milli = sum(
        group.replicas_least * (gpus_per_node - group.shape.gpus) * DEVICE_MILLI - group.shape.gpu_milli
        for group in gang.groups
        if group.shape.full_node
    )
    if more_milli > 0:
        for resource in (GPU, model_resource(model)):
            amounts[resource] = amounts.get(resource, 0) + more_milli
    return amounts
