"""Weighted dominant resource fairness on what is borrowed (Kueue's DRS, `fair_sharing.go`), as a plain float.

    share(c) = max over r of max(0, usage_r(c) - SubtreeQuota_r(c)) / lendable_r, divided by weight(c)

1.0 means all that can be lent; 0 that nothing is borrowed. lendable_r is what c's parent could have if nothing were
held; of a resource that the tree does not declare, and above the parentless queues, it is what the cluster has.
"""

from collections.abc import Mapping

from muster.scheduler.core.amounts import NO_AMOUNTS, Amounts
from muster.scheduler.core.quota import NOTHING
from muster.scheduler.core.tree import QueueRecord


def share(record: QueueRecord, capacity: Mapping[str, int], extra: Amounts | None = None) -> float:
    """What the queue borrows. extra: what is thought of as held besides."""
    worst = 0.0
    more = extra or NO_AMOUNTS
    for resource, cell in record.cells.items():
        borrowed = cell.usage + more.get(resource, 0) - cell.subtree
        if borrowed > 0:
            worst = max(worst, borrowed / max(1, record.lendable(resource, capacity)))
    for resource, amount in more.items():
        if amount > 0 and resource not in record.cells:
            worst = max(worst, amount / max(1, record.lendable(resource, capacity)))
    return worst / record.spec.weight


def used_share(record: QueueRecord, capacity: Mapping[str, int], now: int) -> float:
    """The same for the decayed average of all that was held."""
    worst = 0.0
    for resource, cell in record.cells.items():
        borrowed = cell.average_at(now) - cell.subtree
        if borrowed > 0:
            worst = max(worst, borrowed / max(1, record.lendable(resource, capacity)))
    return worst / record.spec.weight


def used_total(record: QueueRecord, capacity: Mapping[str, int], now: int) -> float:
    """What the queue holds and held lately, as a part of what the cluster has, dominant resource, by weight."""
    worst = 0.0
    for resource, cell in record.cells.items():
        worst = max(worst, (cell.held + cell.average_at(now)) / max(1, capacity.get(resource, 0)))
    return worst / record.spec.weight


def own_share(record: QueueRecord, capacity: Mapping[str, int], extra: Amounts | None = None) -> float:
    """What the jobs of the queue itself borrow beside the queues below it: as one child of weight 1 without quota."""
    more = extra or NO_AMOUNTS
    worst = 0.0
    for resource in {**record.cells, **more}:
        amount = record.cells.get(resource, NOTHING).own + more.get(resource, 0)
        if amount > 0:
            worst = max(worst, amount / max(1, record.lendable_below(resource, capacity)))
    return worst
