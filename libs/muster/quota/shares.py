"""Weighted dominant resource fairness on borrowed amounts (Kueue's DRS, `fair_sharing.go`), as a float.

    share(c) = max over r of max(0, usage_r(c) - SubtreeQuota_r(c)) / lendable_r, divided by weight(c)

1.0 means everything that can be lent; 0 means that nothing is borrowed. lendable_r is what c's parent could have if
nothing were held; for an undeclared resource, and above queues without a parent, it is the cluster's capacity.

A tree that declares GPUs is compared by declared resources alone: a queue within its quota borrows nothing, whatever
CPU and memory it uses. GPUs of one model count besides GPUs only if they are declared: otherwise they would count
twice, but only once for a waiting job, which has no model yet.
"""

from collections.abc import Callable, Mapping

from muster.quota.amounts import NO_AMOUNTS, Amounts
from muster.quota.formulas import NOTHING
from muster.quota.tree import QueueRecord
from muster.schemas.facts.queue import GPU

MODEL_MARK = ":"
"""Occurs in the name of a resource of one GPU model."""


def skips(record: QueueRecord) -> Callable[[str], bool]:
    """Return a predicate of the resources that are left out of the comparison in this queue's tree."""
    declared = record.path[-1].declared
    if GPU in declared or any(MODEL_MARK in resource for resource in declared):
        return lambda resource: resource not in declared
    return lambda resource: MODEL_MARK in resource and resource not in declared


def share(record: QueueRecord, capacity: Mapping[str, int], extra: Amounts | None = None) -> float:
    """Return the queue's share, with `extra` counted as held."""
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
    """Return the share computed from the decayed average of held amounts."""
    worst, is_left_out = 0.0, skips(record)
    for resource, cell in record.cells.items():
        borrowed = cell.average_at(now) - cell.subtree
        if borrowed > 0 and not is_left_out(resource):
            worst = max(worst, borrowed / max(1, record.lendable(resource, capacity)))
    return worst / record.spec.weight


def own_share(record: QueueRecord, capacity: Mapping[str, int], extra: Amounts | None = None) -> float:
    """Return the share of the queue's own jobs beside the queues below it: one child of weight 1 without quota."""
    more, is_left_out = extra or NO_AMOUNTS, skips(record)
    worst = 0.0
    for resource in {**record.cells, **more}:
        amount = record.cells.get(resource, NOTHING).own + more.get(resource, 0)
        if amount > 0 and not is_left_out(resource):
            worst = max(worst, amount / max(1, record.lendable_below(resource, capacity)))
    return worst
