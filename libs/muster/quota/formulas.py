"""Hierarchical quota: Kueue's formulas (`resource_node.go`), per queue n and resource.

    SubtreeQuota(n) = nominal(n) + sum over children c of (SubtreeQuota(c) - localQuota(c))
    localQuota(n)   = max(0, SubtreeQuota(n) - lendingLimit(n))                    0 without a lending limit
    usage(parent)   = own + sum over children c of max(0, usage(c) - localQuota(c))
    available(root) = SubtreeQuota(root) - usage(root)
    available(n)    = max(0, localQuota(n) - usage(n)) + min(available(parent),
                      SubtreeQuota(n) - localQuota(n) - max(0, usage(n) - localQuota(n)) + borrowingLimit(n))

A tree declares a resource if one of its queues names it in its quota. Of a resource that it does not declare the root
has no SubtreeQuota: there `available(root)` is what the root's borrowing limit leaves, unlimited without one.

What may not be preempted lives on nominal quota, so that nominal quota can always be reclaimed: what a queue holds so
is counted against its own nominal quota, and, where it names none, against that of the queue above.

    fixed(n) = own + sum over children c of max(0, fixed(c) - nominal(c))          fixed(n) <= nominal(n) if n names one
"""

from collections.abc import Sequence
from typing import NamedTuple

from muster.quota.amounts import UNLIMITED
from muster.quota.usage import decayed

QUOTA, BORROWING_LIMIT, NON_PREEMPTIBLE = "quota", "borrowing-limit", "non-preemptible"
"""Why a queue may not hold more, as the reasons' vocabulary has it."""


class Cell:
    """One resource at one queue.

    named: the queue's quota names it. own, own_fixed: held by its own jobs, and by those that may not be preempted.
    held: with the queues below, all of it; usage, fixed: what of it counts here, by the formulas. average, at: of held.
    """

    __slots__ = (
        "at", "average", "borrowing", "fixed", "half_life_ns", "held", "is_root", "key", "lending", "local", "named",
        "nominal", "own", "own_fixed", "subtree", "usage",
    )  # fmt: skip

    def __init__(self, queue: str, resource: str) -> None:
        self.key = (queue, resource)
        self.is_root = True
        self.named = False
        self.nominal = 0
        self.lending = self.borrowing = UNLIMITED
        self.subtree = self.local = 0
        self.own = self.own_fixed = self.held = self.usage = self.fixed = 0
        self.average = 0.0
        self.at = 0
        self.half_life_ns = 1.0

    def localise(self) -> None:
        """What of SubtreeQuota is never lent."""
        self.local = max(0, self.subtree - self.lending)

    def average_at(self, now: int) -> float:
        """The decayed average of what is held, at a later moment."""
        return decayed(self.average, self.held, now - self.at if self.at else 0, self.half_life_ns)

    def remember(self, at: int) -> None:
        """Bring the average up to date: what is held, or the half-life, changes at this moment."""
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
"""Stands for a resource that a queue has nothing to do with; never changed."""


class Ceiling(NamedTuple):
    """What stops more from being held: of which queue, resource and bound.

    held and limit: of `queue`, the one whose bound it is. available: what the asking queue may still hold, negative
    after quota was taken away. reason: QUOTA, BORROWING_LIMIT or NON_PREEMPTIBLE.
    """

    queue: str
    resource: str
    held: int
    limit: int
    available: int
    reason: str


def available(cells: Sequence[Cell], *, is_declared: bool) -> int:
    """How much more may be held. cells: of the queue and those above it, upwards."""
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
    """`available` if nothing were held anywhere (Kueue's potentialAvailable)."""
    left = 0
    for cell in reversed(cells):
        if cell.is_root:
            left = cell.subtree if is_declared else cell.borrowing
        else:
            left = min(cell.local + left, cell.subtree + cell.borrowing)
    return left


def binding(cells: Sequence[Cell], *, is_declared: bool, is_empty: bool = False) -> tuple[int, Ceiling]:
    """Which of the bounds on the way up makes `available` what it is: its place in `cells`, and in numbers.

    is_empty: which makes `potential` what it is.
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
    """Whose nominal quota bounds what may not be preempted: the first queue upwards that names one, or the root."""
    return next(cell for cell in cells if cell.named or cell.is_root)


def hold(cells: Sequence[Cell], amount: int, *, preemptible: bool) -> None:
    """The own jobs of the first queue hold so much more (negative: less). cells: of it and those above it, upwards."""
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
