"""Nodes from which single jobs are excluded. Jobs with the same exclusions share a class, and so a pending queue.

The placement engine knows no exclusions: during a search, idle capacity of these nodes counts as held.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from muster.placement import Fleet, Hold
from muster.placement import Slot as Place
from muster.scheduler.core.stores.bookings import KEPT


@contextmanager
def closed(fleet: Fleet, nodes: Collection[str]) -> Iterator[None]:
    """Count everything on these nodes as held for a while; nothing is reported as freed afterwards."""
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
    """Return whether none of these places is on one of the nodes."""
    return all(hold.slot.node not in nodes for hold in holds)


def _idle(fleet: Fleet, name: str) -> Iterator[Hold]:
    """Yield all that is idle on a node, one hold per free share of devices; the first one has the CPU and memory."""
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
