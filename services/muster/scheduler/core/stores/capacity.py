"""The cluster's capacity by resource, what each job holds as its queue counts it, and the demand of jobs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster.placement import DEVICE_MILLI, TaskShape
from muster.placement import Slot as Place
from muster.quota.amounts import Amounts, held_amounts, model_resource
from muster.scheduler.core.stores.jobs import EquivalenceClass, JobRecord
from muster.schemas.facts.node import NodeJoined
from muster.schemas.facts.queue import CPU, GPU, MEMORY
from muster.schemas.job import Slot


class Capacity:
    """The capacity of all nodes of the cluster, usable or not."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}
        """By resource."""
        self.models: dict[str, str] = {}
        """The GPU model of each node."""
        self.nodes_by_gpus: dict[str, Counter[int]] = {}
        """By GPU model, the number of nodes with each number of GPUs."""
        self._of: dict[str, Amounts] = {}

    def set(self, node: str, description: NodeJoined | None) -> bool:
        """Set a node's description, None if it left the cluster, and return whether its GPU model changed."""
        before = self.models.get(node, "")
        if description is None:
            self.models.pop(node, None)
        else:
            self.models[node] = description.gpu_model
        now = _offer(description) if description is not None else {}
        was = self._of.pop(node, {})
        self._count(before, was, -1)
        self._count(self.models.get(node, ""), now, 1)
        if now:
            self._of[node] = now
        for resource in (*was, *(resource for resource in now if resource not in was)):
            total = self.totals.get(resource, 0) + now.get(resource, 0) - was.get(resource, 0)
            if total:
                self.totals[resource] = total
            else:
                self.totals.pop(resource, None)
        return self.models.get(node, "") != before

    def _count(self, model: str, offered: Amounts, change: int) -> None:
        gpus = offered.get(GPU, 0) // DEVICE_MILLI
        if not model or not gpus:
            return
        sizes = self.nodes_by_gpus.setdefault(model, Counter())
        sizes[gpus] += change
        if not sizes[gpus]:
            del sizes[gpus]
            if not sizes:
                del self.nodes_by_gpus[model]

    def model_of(self, node: str) -> str:
        """Return the model of a node's GPUs; "" if the node is not part of the cluster."""
        return self.models.get(node, "")


def amounts_of(
    job_class: EquivalenceClass, slots: Sequence[Slot] | Sequence[Place], models: Mapping[str, str]
) -> Amounts:
    """Return what slots of a job of this class hold. `models` are by node.

    If all replicas are placed on nodes of one model, the result is cached per class, model and size of shares.
    """
    if not job_class.has_fixed_size or len(slots) != job_class.replicas:
        return held_amounts(slots, job_class.gang, lambda node: models.get(node, ""))
    model = models.get(slots[0].node, "")
    if len(slots) > 1 and any(models.get(slot.node, "") != model for slot in slots):
        return held_amounts(slots, job_class.gang, lambda node: models.get(node, ""))
    key: tuple[str | int, ...] = (model,)
    if job_class.has_shares:
        key = (model, *[slot.gpu_milli for slot in slots])
    known = job_class.held_on.get(key)
    if known is None:
        known = job_class.held_on[key] = held_amounts(slots, job_class.gang, lambda node: models.get(node, ""))
    return known


def _offer(node: NodeJoined) -> Amounts:
    milli = (len(node.gpu_uuids) - len(node.absent)) * DEVICE_MILLI
    offered = {GPU: milli, CPU: node.cpu_milli, MEMORY: node.memory_mib}
    if resource := model_resource(node.gpu_model):
        offered[resource] = milli
    return {resource: amount for resource, amount in offered.items() if amount}


DEMAND_SHAPES_MAX = 4_096
"""Task shapes counted for the fragmentation score; beyond it all counts are reset."""

DEMAND_TASKS_MAX = 65_536
"""Tasks counted; beyond it all counts are halved, so that recent tasks count more."""


@dataclass(slots=True)
class Demand:
    """How often each task shape was requested: the typical demand of the fragmentation score."""

    tasks: Counter[TaskShape] = field(default_factory=Counter)
    total: int = 0
    seen: int = 0

    def count(self, record: JobRecord) -> None:
        """Count the tasks of one more job."""
        if len(self.tasks) >= DEMAND_SHAPES_MAX:
            self.tasks.clear()
            self.total = 0
        for group in record.job_class.gang.groups:
            self.tasks[group.shape] += group.replicas
            self.total += group.replicas
        self.seen += 1
        if self.total > DEMAND_TASKS_MAX:
            self.tasks = Counter({shape: half for shape, n in self.tasks.items() if (half := n // 2)})
            self.total = self.tasks.total()
