"""Compares the share of a pending job's queue with the shares of targets' queues, while targets are taken in trial.

Shares are compared at the children of the closest common ancestor of the two queues (in Kueue: almost-LCA), on the side
of the preemptor and of the target. A result is cached until something is taken on either side.
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster.quota.amounts import Amounts
from muster.quota.queues import QueueTree
from muster.quota.shares import MODEL_MARK, own_share
from muster.schemas.facts.queue import CPU, GPU, MEMORY

OWN = ""
"""The own jobs of a queue beside the queues below it: one more child of weight 1 without quota."""


class Sides(NamedTuple):
    """The queues from each of two queues up to below their closest common ancestor.

    Empty if the queue itself is the ancestor. The last of each is the child of the ancestor on that side.
    """

    preemptor: tuple[str, ...]
    target: tuple[str, ...]
    apart: bool
    """Whether the two queues have no common ancestor but the cluster."""

    @property
    def node(self) -> str:
        """The child of the ancestor on the preemptor's side, or OWN."""
        return self.preemptor[-1] if self.preemptor else OWN


class Standing(NamedTuple):
    """The comparison of the pending job's queue with the queue of a target."""

    borrows: bool
    """Whether every queue on the target's side holds more than its quota."""
    is_within: bool = False
    """Whether every queue on the preemptor's side stays within its quota with the job."""
    is_foreign: bool = False
    """Whether there is no common tree, and one of the two trees counts what the job needs."""
    share_before: float = 0.0
    """Share on the preemptor's side before anything was taken."""
    preemptor_share: float = 0.0
    """Share on the preemptor's side with the job."""
    target_share: float = 0.0
    """Share on the target's side."""


def shares_up(tree: QueueTree, queue: str) -> dict[str, float]:
    """Return what a queue and the queues above it borrow now; the value of OWN is for its own jobs."""
    return {OWN: own_share(tree.queues[queue], tree.capacity)} | {name: tree.share(name) for name in tree.path(queue)}


class ShareComparison:
    """Compares one queue with all others. `amounts`: what the job needs; `before`: the result of `shares_up`."""

    def __init__(
        self, tree: QueueTree, queue: str, amounts: Amounts, *, preemptible: bool, before: Mapping[str, float]
    ) -> None:
        self._tree = tree
        self._queue = queue
        self._amounts = amounts
        self._preemptible = preemptible
        self._before = before
        self._sides: dict[str, Sides] = {}
        self._weighty: dict[str, frozenset[str]] = {}
        # caches that depend on the usage of the tree
        self._shares_with_job: dict[str, float] = {}
        self._within: dict[str, bool] = {}
        self._standings: dict[str, Standing] = {}
        self._finals: dict[str, dict[tuple[tuple[str, int], ...], bool]] = {}

    def standing(self, queue: str) -> Standing:
        """Return the comparison with a queue, given the parts that are taken."""
        standing = self._standings.get(queue)
        if standing is None:
            standing = self._standings[queue] = self._stand(queue)
        return standing

    def is_final(self, queue: str, amounts: Amounts) -> bool:
        """Return whether share(xa with the job) <= share(ya without these amounts)."""
        weighed = self._weighed(queue, amounts)
        known, key = self._finals.setdefault(queue, {}), tuple(weighed.items())
        answer = known.get(key)
        if answer is None:
            sides = self.sides(queue)
            ours = self.share_with_job(sides.node)
            self._tree.hold(queue, weighed, sign=-1)
            answer = known[key] = ours <= self._target_share(queue, sides)
            self._tree.hold(queue, weighed)
        return answer

    def share_with_job(self, node: str) -> float:
        """Return the preemptor's share with the job at `node`: the queue or one above it, or OWN."""
        share = self._shares_with_job.get(node)
        if share is None:
            tree, queue = self._tree, self._queue
            amounts = self._weighed(queue, self._amounts)
            tree.hold(queue, amounts, preemptible=self._preemptible)
            share = tree.share(node) if node else own_share(tree.queues[queue], tree.capacity)
            self._shares_with_job[node] = share
            tree.hold(queue, amounts, sign=-1, preemptible=self._preemptible)
        return share

    def is_within(self, node: str) -> bool:
        """Return whether the queue or one above it stays within its quota with the job."""
        answer = self._within.get(node)
        if answer is None:
            answer = self._within[node] = self._tree.is_within_nominal(node, self._amounts)
        return answer

    def take(self, queue: str, amounts: Amounts) -> None:
        """Count these amounts of a queue's jobs as no longer held (negative: as held in addition)."""
        self._tree.hold(queue, self._weighed(queue, amounts), sign=-1)
        moved = frozenset(self._tree.path(queue))
        if not moved.isdisjoint(self._tree.path(self._queue)):
            for known in (self._shares_with_job, self._within):
                for node in [node for node in known if node in moved or (not node and queue == self._queue)]:
                    del known[node]
        for other in [other for other in self._standings if self._concerns(other, queue, moved)]:
            del self._standings[other]
            self._finals.pop(other, None)

    def sides(self, queue: str) -> Sides:
        """Return the two paths up to where they meet."""
        sides = self._sides.get(queue)
        if sides is None:
            own, theirs = self._tree.path(self._queue), self._tree.path(queue)
            common = next((name for name in own if name in theirs), None)
            if common is None:
                sides = Sides(own, theirs, apart=True)
            else:
                sides = Sides(own[: own.index(common)], theirs[: theirs.index(common)], apart=False)
            self._sides[queue] = sides
        return sides

    # --- inside ----------------------------------------------------------------------------------------------

    def _concerns(self, other: str, queue: str, moved: frozenset[str]) -> bool:
        """Return whether taking jobs of `queue` changes the comparison with `other`."""
        sides = self._sides[other]
        if not moved.isdisjoint(sides.target) or not moved.isdisjoint(sides.preemptor):
            return True
        return (not sides.target and queue == other) or (not sides.preemptor and queue == self._queue)

    def _stand(self, queue: str) -> Standing:
        sides, tree = self.sides(queue), self._tree
        if queue not in tree.queues:
            return Standing(borrows=False)
        if sides.target:  # own jobs have no quota beside the queues below: all that they hold is borrowed
            needs = self._needs(queue)
            if not all(tree.is_borrowing(name, needs) for name in sides.target):
                return Standing(borrows=False)
        return Standing(
            borrows=True,
            is_within=bool(sides.preemptor) and all(map(self.is_within, sides.preemptor)),
            is_foreign=sides.apart and self._is_counted(queue),
            share_before=self._before[sides.node],
            preemptor_share=self.share_with_job(sides.node),
            target_share=self._target_share(queue, sides),
        )

    def _target_share(self, queue: str, sides: Sides) -> float:
        tree = self._tree
        return tree.share(sides.target[-1]) if sides.target else own_share(tree.queues[queue], tree.capacity)

    def _needs(self, queue: str) -> list[str]:
        """Return the resources by which borrowing is judged: the needed ones that the queue's tree counts.

        If the tree counts neither GPUs nor, for a job without GPUs, CPU or memory, then the scarce resource is not
        counted, and all of it is borrowed.
        """
        counted = [name for name in self._amounts if self._tree.declares(queue, name)]
        main = self._main()
        return counted if any(name in main for name in counted) else [*counted, *main]

    def _main(self) -> list[str]:
        gpus = [name for name in self._amounts if name.startswith(GPU)]
        return gpus or [name for name in (CPU, MEMORY) if name in self._amounts]

    def _is_counted(self, queue: str) -> bool:
        """Return whether either tree counts what the job needs: trees lend nothing to each other."""
        main, tree = self._main(), self._tree
        return any(tree.declares(one, name) for one in (queue, self._queue) for name in main)

    def _weighed(self, queue: str, amounts: Amounts) -> Amounts:
        """Return the amounts without those on which neither a share nor a limit of the queue's tree depends."""
        weighty = self._weighty.get(queue)
        if weighty is None:
            record = self._tree.queues.get(queue)
            declared = frozenset(record.root.declared if record is not None else ())
            counts_gpus = any(name == GPU or MODEL_MARK in name for name in declared)
            weighty = declared if counts_gpus else declared | {GPU, CPU, MEMORY}
            weighty = self._weighty[queue] = weighty | (record.bounded if record is not None else frozenset())
        return {name: amount for name, amount in amounts.items() if name in weighty}
