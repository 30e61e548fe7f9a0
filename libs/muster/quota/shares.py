"""Weighted dominant resource fairness on what is borrowed (Kueue's DRS, `fair_sharing.go`), as a plain float.

    share(c) = max over r of max(0, usage_r(c) - SubtreeQuota_r(c)) / lendable_r, divided by weight(c)

1.0 means all that can be lent; 0 that nothing is borrowed. lendable_r is what c's parent could have if nothing were
held; of a resource that the tree does not declare, and above the parentless queues, it is what the cluster has.

A tree that declares GPUs is compared by what it declares alone: who stays within quota borrows nothing, whatever CPU
and memory that takes. GPUs of one model count besides GPUs only where they are declared, or they would count twice, and
against a job that waits and has no model yet they would count once.
"""

from collections.abc import Callable, Mapping

from muster.quota.amounts import NO_AMOUNTS, Amounts
from muster.quota.formulas import NOTHING
from muster.quota.tree import QueueRecord
from muster.schemas.facts.queue import GPU

MODEL_MARK = ":"
"""In the name of a resource that is one GPU model."""


def skips(record: QueueRecord) -> Callable[[str], bool]:
    """Which resources are left out of the comparison in this queue's tree."""
    declared = record.path[-1].declared
    if GPU in declared or any(MODEL_MARK in resource for resource in declared):
        return lambda resource: resource not in declared
    return lambda resource: MODEL_MARK in resource and resource not in declared


def share(record: QueueRecord, capacity: Mapping[str, int], extra: Amounts | None = None) -> float:
    """What the queue borrows. extra: what is thought of as held besides."""
    worst = 0.0
    more, is_left_out = extra or NO_AMOUNTS, skips(record)
    for resource, cell in record.cells.items():
        borrowed = cell.usage + more.get(resource, 0) - cell.subtree
        if borrowed > 0 and not is_left_out(resource):
            worst = max(worst, borrowed / max(1, record.lendable(resource, capacity)))
    for resource, amount in more.items():
        if amount > 0 and resource not in record.cells and not is_left_out(resource):
            worst = max(worst, amount / max(1, record.lendable(resource, capacity)))
    return worst / record.spec.weight


def used_share(record: QueueRecord, capacity: Mapping[str, int], now: int) -> float:
    """The same for the decayed average of all that was held."""
    worst, is_left_out = 0.0, skips(record)
    for resource, cell in record.cells.items():
        borrowed = cell.average_at(now) - cell.subtree
        if borrowed > 0 and not is_left_out(resource):
            worst = max(worst, borrowed / max(1, record.lendable(resource, capacity)))
    return worst / record.spec.weight


def own_share(record: QueueRecord, capacity: Mapping[str, int], extra: Amounts | None = None) -> float:
    """What the jobs of the queue itself borrow beside the queues below it: as one child of weight 1 without quota."""
    more, is_left_out = extra or NO_AMOUNTS, skips(record)
    worst = 0.0
    for resource in {**record.cells, **more}:
        amount = record.cells.get(resource, NOTHING).own + more.get(resource, 0)
        if amount > 0 and not is_left_out(resource):
            worst = max(worst, amount / max(1, record.lendable_below(resource, capacity)))
    return worst
