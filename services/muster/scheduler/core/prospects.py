"""Where in the tree of queues there are jobs that could make way, so that most lanes are put aside by a few numbers."""

import itertools
from collections.abc import Iterator, Mapping

from muster.quota.queues import QueueTree
from muster.quota.shares import own_share
from muster.scheduler.core.rules import Rules, Wanting, shares_up

_CLUSTER = ""
"""Stands above all queues without a parent."""

_OWN = ""
"""Stands among the children of a queue for its own jobs."""


class Prospects:
    """Queues with jobs past their slice. ripe: these, and the lowest priority among their jobs.

    Holds as long as the tree's sums do.
    """

    def __init__(self, tree: QueueTree, ripe: Mapping[str, int]) -> None:
        self._tree = tree
        self._ripe = {queue: priority for queue, priority in ripe.items() if queue in tree.queues}
        self._below: dict[str, dict[str, list[str]]] = {}
        self._shares: dict[tuple[str, str], float] = {}
        self._before: dict[str, dict[str, float]] = {}
        for queue in self._ripe:
            path = (*tree.path(queue), _CLUSTER)
            self._below.setdefault(queue, {})[_OWN] = [queue]
            for name, above in itertools.pairwise(path):
                self._below.setdefault(above, {}).setdefault(name, []).append(queue)

    def before(self, queue: str) -> dict[str, float]:
        """What the queue and those above it borrow now."""
        shares = self._before.get(queue)
        if shares is None:
            shares = self._before[queue] = shares_up(self._tree, queue)
        return shares

    def reach(self, wanting: Wanting, rules: Rules) -> dict[str, int]:
        """Queues whose jobs may have to make way, and below which priority these have to be."""
        found = {queue: rules.reach(queue) for queue in self._reachable(wanting, rules)}
        return {queue: below for queue, below in found.items() if self._ripe[queue] < below}

    def _reachable(self, wanting: Wanting, rules: Rules) -> Iterator[str]:
        queue = wanting.record.queue
        if self._ripe.get(queue, wanting.priority + 1) <= wanting.priority:
            yield queue
        path = (*self._tree.path(queue), _CLUSTER)
        for node, above in ((_OWN, queue), *itertools.pairwise(path)):
            for child, queues in self._below.get(above, {}).items():
                if child != node and not rules.is_hopeless(node, self._share(above, child)):
                    yield from queues

    def _share(self, above: str, child: str) -> float:
        share = self._shares.get((above, child))
        if share is None:
            tree = self._tree
            share = tree.share(child) if child != _OWN else own_share(tree.queues[above], tree.capacity)
            self._shares[above, child] = share
        return share
