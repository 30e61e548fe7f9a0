"""What the cluster has of each resource, what each job holds as its queue counts it, and what jobs ask for."""

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
    """What the nodes have that are part of the cluster, whether they can be used now or not.

    totals: by resource. models: of the GPUs of each node.
    """

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}
        self.models: dict[str, str] = {}
        self._of: dict[str, Amounts] = {}

    def set(self, node: str, description: NodeJoined | None) -> bool:
        """The node is so from now on; None: it is not part of the cluster. Returns whether its model is another one."""
        before = self.models.get(node, "")
        if description is None:
            self.models.pop(node, None)
        else:
            self.models[node] = description.gpu_model
        now = _offer(description) if description is not None else {}
        was = self._of.pop(node, {})
        if now:
            self._of[node] = now
        for resource in (*was, *(resource for resource in now if resource not in was)):
            total = self.totals.get(resource, 0) + now.get(resource, 0) - was.get(resource, 0)
            if total:
                self.totals[resource] = total
            else:
                self.totals.pop(resource, None)
        return self.models.get(node, "") != before

    def model_of(self, node: str) -> str:
        """The model of a node's GPUs; "" if the node is not part of the cluster."""
        return self.models.get(node, "")


def amounts_of(
    job_class: EquivalenceClass, slots: Sequence[Slot] | Sequence[Place], models: Mapping[str, str]
) -> Amounts:
    """What slots of a job of this class hold. models: by node.

    Where all replicas are there, on nodes of one model, the answer is found once per class, model and size of shares.
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
"""Task shapes counted for the fragmentation score; beyond it all counts start afresh."""

DEMAND_TASKS_MAX = 65_536
"""Tasks counted; beyond it all counts are halved, so that the newest count most."""


@dataclass(slots=True)
class Demand:
    """How often each task shape was asked for: what the fragmentation score takes as typical."""

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
