"""Nodes that single jobs are kept off. Jobs that avoid the same nodes share a class, and so a pending queue.

The placement engine knows nothing of it: while a place is looked for, what is idle on these nodes counts as held.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from muster.placement import Fleet, Hold
from muster.placement import Slot as Place
from muster.scheduler.core.stores.bookings import KEPT


@contextmanager
def closed(fleet: Fleet, nodes: Collection[str]) -> Iterator[None]:
    """For a while nothing is idle on these nodes; nobody is told that anything came free afterwards."""
    taken: list[Hold] = []
    try:
        for name in sorted(nodes):
            for hold in _idle(fleet, name):
                fleet.hold(hold)
                taken.append(hold)
        yield
    finally:
        for hold in reversed(taken):
            fleet.withdraw(hold)


def is_apart(holds: Iterable[Hold], nodes: Collection[str]) -> bool:
    """Whether none of these places is on one of the nodes."""
    return all(hold.slot.node not in nodes for hold in holds)


def _idle(fleet: Fleet, name: str) -> Iterator[Hold]:
    """All that is idle on a node, one hold per amount that its devices have left; CPU and memory stand on the first."""
    node = fleet.ledger.nodes.get(name)
    if node is None:
        return
    by_share: dict[int, list[int]] = {}
    for index in node.shape.devices:
        if node.idle[index]:
            by_share.setdefault(node.idle[index], []).append(index)
    cpu, memory = node.cpu_milli, node.memory_mib
    for share, devices in sorted(by_share.items()):
        yield Hold(cpu, memory, Place(KEPT, 0, name, tuple(devices), share))
        cpu = memory = 0
    if cpu or memory:
        yield Hold(cpu, memory, Place(KEPT, 0, name, (), 0))
