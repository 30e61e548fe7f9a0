"""Hierarchical quota: Kueue's formulas (`resource_node.go`), per queue n and resource.

    SubtreeQuota(n) = nominal(n) + sum over children c of (SubtreeQuota(c) - localQuota(c))
    localQuota(n)   = max(0, SubtreeQuota(n) - lendingLimit(n))                    0 without a lending limit
    usage(parent)   = own + sum over children c of max(0, usage(c) - localQuota(c))
    available(root) = SubtreeQuota(root) - usage(root)
    available(n)    = max(0, localQuota(n) - usage(n)) + min(available(parent),
                       SubtreeQuota(n) - localQuota(n) - max(0, usage(n) - localQuota(n)) + borrowingLimit(n))

A tree declares a resource if one of its queues has a quota for it. For an undeclared resource the root has no
SubtreeQuota: there `available(root)` is what the root's borrowing limit leaves, unlimited without one.

Non-preemptible jobs use only nominal quota, so that nominal quota can always be reclaimed: their usage counts against
the nominal quota of their queue, or, if it has none, of the first queue above that has one.

    fixed(n) = own + sum over children c of max(0, fixed(c) - nominal(c))          fixed(n) <= nominal(n) if n names one
"""

from collections.abc import Sequence
from typing import NamedTuple

from muster.quota.amounts import UNLIMITED
from muster.quota.usage import decayed

QUOTA, BORROWING_LIMIT, NON_PREEMPTIBLE = "quota", "borrowing-limit", "non-preemptible"
"""Why a queue may not hold more, as reason codes."""


class Cell:
    """One resource of one queue."""

    __slots__ = (
        "at", "average", "borrowing", "fixed", "half_life_ns", "held", "is_root", "key", "lending", "local", "named",
        "nominal", "own", "own_fixed", "subtree", "usage",
    )  # fmt: skip

    def __init__(self, queue: str, resource: str) -> None:
        self.key = (queue, resource)
        self.is_root = True
        self.named = False
        """Whether the queue's quota names the resource."""
        self.nominal = 0
        self.lending = self.borrowing = UNLIMITED
        self.subtree = self.local = 0
        self.own = self.own_fixed = self.held = self.usage = self.fixed = 0
        """Held by the queue's own jobs, by its non-preemptible own jobs, by all jobs at and below it; then by the
        formulas."""
        self.average = 0.0
        """Decayed average of `held`, as of `at`."""
        self.at = 0
        self.half_life_ns = 1.0

    def localise(self) -> None:
        """Update the part of SubtreeQuota that is never lent."""
        self.local = max(0, self.subtree - self.lending)

    def average_at(self, now: int) -> float:
        """Return the decayed average of the held amount at a later time."""
        return decayed(self.average, self.held, now - self.at if self.at else 0, self.half_life_ns)

    def remember(self, at: int) -> None:
        """Update the average to `at`, before the held amount or the half-life changes."""
        passed_ns = at - self.at
        if passed_ns > 0:
            if self.at and self.average != self.held:
                self.average = decayed(self.average, self.held, passed_ns, self.half_life_ns)
            self.at = at

    @property
    def above(self) -> int:
        """Usage that counts at the queue above."""
        return max(0, self.usage - self.local)

    @property
    def fixed_above(self) -> int:
        """Fixed usage that counts at the queue above."""
        return max(0, self.fixed - self.nominal)

    @property
    def lent(self) -> int:
        """The part of SubtreeQuota that counts at the queue above."""
        return self.subtree - self.local


NOTHING = Cell("", "")
"""The cell of a resource that a queue does not use; never changed."""


class Ceiling(NamedTuple):
    """The limit that prevents a queue from holding more."""

    queue: str
    """The queue whose limit it is, with its `held` amount and `limit`."""
    resource: str
    held: int
    limit: int
    available: int
    """What the requesting queue may still hold; negative after its quota was reduced."""
    reason: str
    """QUOTA, BORROWING_LIMIT or NON_PREEMPTIBLE."""


def available(cells: Sequence[Cell], *, is_declared: bool) -> int:
    """Return how much more may be held. `cells` are of the queue and the queues above it, upwards."""
    left = 0
    for cell in reversed(cells):
        if cell.is_root:
            left = cell.subtree - cell.usage if is_declared else cell.borrowing - cell.usage
        else:
            local, usage = cell.local, cell.usage
            over = usage - local
            left = min(left, cell.subtree - local - max(0, over) + cell.borrowing) + max(0, -over)
    return left


def potential(cells: Sequence[Cell], *, is_declared: bool) -> int:
    """Return `available` if nothing were held anywhere (Kueue's potentialAvailable)."""
    left = 0
    for cell in reversed(cells):
        if cell.is_root:
            left = cell.subtree if is_declared else cell.borrowing
        else:
            left = min(cell.local + left, cell.subtree + cell.borrowing)
    return left


def binding(cells: Sequence[Cell], *, is_declared: bool, is_empty: bool = False) -> tuple[int, Ceiling]:
    """Return the limit that determines `available`: its index in `cells`, and its numbers.

    With `is_empty`, the limit that determines `potential`.
    """
    find = potential if is_empty else available
    left = find(cells, is_declared=is_declared)
    for place, cell in enumerate(cells):
        usage, limit = 0 if is_empty else cell.usage, cell.subtree + cell.borrowing
        if cell.is_root and is_declared:
            return place, Ceiling(*cell.key, usage, cell.subtree, left, QUOTA)
        if cell.is_root:
            return place, Ceiling(*cell.key, usage, limit, left, BORROWING_LIMIT)
        may_borrow = limit - cell.local - max(0, usage - cell.local)
        if may_borrow < find(cells[place + 1 :], is_declared=is_declared):
            return place, Ceiling(*cell.key, usage, limit, left, BORROWING_LIMIT)
    raise AssertionError("the way up ends at a root")


def fixed_cell(cells: Sequence[Cell]) -> Cell:
    """Return the cell with the quota of non-preemptible jobs: the first upwards with a nominal quota, or the root."""
    return next(cell for cell in cells if cell.named or cell.is_root)


def hold(cells: Sequence[Cell], amount: int, *, preemptible: bool) -> None:
    """Add an amount (negative: remove) to the first queue's own jobs. `cells` are of it and upwards."""
    cells[0].own += amount
    usage = amount
    for cell in cells:
        cell.held += amount
        if cell.local:
            before = cell.above
            cell.usage += usage
            usage = cell.above - before
        else:  # all of it counts above
            cell.usage += usage
    if preemptible:
        return
    cells[0].own_fixed += amount
    fixed = amount
    for cell in cells:
        before = cell.fixed_above
        cell.fixed += fixed
        fixed = cell.fixed_above - before
