"""The tree of queues: parents and children, and the amounts of each resource.

All sums derive from what the queues' own jobs hold. After a change of a queue the sums on its way up are corrected;
only if a queue moved in the tree all sums are computed again.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from muster.quota.amounts import UNLIMITED, borrowing_of, nominal_of
from muster.quota.formulas import NOTHING, Cell, potential
from muster.quota.policy import Policy, resolve
from muster.quota.usage import Principals
from muster.schemas.facts.queue import GPU, QueueSpec


@dataclass(slots=True, eq=False)
class QueueRecord:
    """One queue."""

    spec: QueueSpec
    changed_at: int = 0
    cells: dict[str, Cell] = field(default_factory=dict, repr=False)
    parent: "QueueRecord | None" = field(default=None, repr=False)
    children: "dict[str, QueueRecord]" = field(default_factory=dict, repr=False)
    path: "tuple[QueueRecord, ...]" = field(default=(), repr=False)
    """The queue and the queues above it."""
    policy: Policy = field(default_factory=Policy, repr=False)
    """Its resolved policy."""
    principals: Principals = field(default_factory=Principals, repr=False)
    declared: dict[str, int] = field(default_factory=dict, repr=False)
    """At a root, the number of queues of the tree whose quota names each resource."""
    bounded: frozenset[str] = frozenset()
    """Resources that may be refused."""
    lendables: dict[str, int] = field(default_factory=dict, repr=False)
    """What could be lent to a child, cached since the root's epoch was `lendables_epoch`."""
    epoch: int = 0
    lendables_epoch: int = 0
    ups: dict[str, tuple[Cell, ...]] = field(default_factory=dict, repr=False)
    """Cached cells of the queue and the queues above it, by resource."""

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.spec.name

    @property
    def root(self) -> "QueueRecord":
        """The top of its tree."""
        return self.path[-1]

    @property
    def held_milli(self) -> int:
        """Milli-GPUs held by its jobs and those of the queues below it."""
        return self.cells.get(GPU, NOTHING).held

    @property
    def own_milli(self) -> int:
        """Milli-GPUs held by its own jobs."""
        return self.cells.get(GPU, NOTHING).own

    def held(self) -> dict[str, int]:
        """Return all amounts held by its jobs and those of the queues below it."""
        return {resource: cell.held for resource, cell in self.cells.items() if cell.held}

    def cells_up(self, resource: str) -> tuple[Cell, ...]:
        """Return this queue's cell of the resource and the cells above it, created where they are missing."""
        cells = self.ups.get(resource)
        if cells is None:
            cells = self.ups[resource] = tuple(record.cell(resource) for record in self.path)
        return cells

    def cell(self, resource: str) -> Cell:
        """Return the cell of one resource, created if it is missing."""
        cell = self.cells.get(resource)
        if cell is None:
            cell = self.cells[resource] = Cell(self.spec.name, resource)
            cell.is_root, cell.half_life_ns = self.parent is None, self.policy.half_life_ns
        return cell

    def lendable(self, resource: str, capacity: Mapping[str, int]) -> int:
        """Return the maximum that could be lent to it: all that its parent could have, or the cluster has."""
        if self.parent is None:
            return capacity.get(resource, 0)
        return self.parent.lendable_below(resource, capacity)

    def lendable_below(self, resource: str, capacity: Mapping[str, int]) -> int:
        """Return the maximum that could be lent to a child of this queue."""
        root = self.path[-1]
        if resource not in root.declared:
            return capacity.get(resource, 0)
        if self.lendables_epoch != root.epoch:
            self.lendables, self.lendables_epoch = {}, root.epoch
        lendable = self.lendables.get(resource)
        if lendable is None:
            lendable = self.lendables[resource] = potential(self.cells_up(resource), is_declared=True)
        return lendable

    def subtree(self) -> "Iterator[QueueRecord]":
        """Yield this queue and all queues below it, the lowest first."""
        stack, order = [self], list[QueueRecord]()
        while stack:
            record = stack.pop()
            order.append(record)
            stack.extend(record.children.values())
        return reversed(order)


def link(records: Mapping[str, QueueRecord]) -> None:
    """Set parents, children and paths from the specs. A cycle, possible in a log with gaps, is cut."""
    for record in records.values():
        record.parent = None
        record.children = {}
    for name in sorted(records):  # a cycle is cut at the same place, in whatever order the queues were folded
        record = records[name]
        above = records.get(record.spec.parent or "")
        walked = above
        while walked is not None and walked is not record:
            walked = walked.parent
        if above is not None and walked is None:
            record.parent = above
            above.children[name] = record
    for record in records.values():
        record.path = tuple(_way_up(record))


def attach(record: QueueRecord, parent: QueueRecord | None) -> None:
    """Insert a new queue that has no queues below it."""
    record.parent = parent
    record.path = (record, *(parent.path if parent is not None else ()))
    if parent is not None:
        parent.children[record.name] = record


def settle_all(records: Mapping[str, QueueRecord]) -> None:
    """Compute every sum again from what the queues' own jobs hold."""
    roots = [record for record in records.values() if record.parent is None]
    for record in records.values():
        record.ups, record.declared = {}, {}
        for resource in _named(record.spec):
            record.cell(resource)
        for cell in record.cells.values():
            _set_bounds(cell, record.spec)
            cell.is_root = record.parent is None
            cell.subtree, cell.held, cell.usage, cell.fixed = cell.nominal, cell.own, cell.own, cell.own_fixed
    for root in roots:
        for record in root.subtree():
            for resource, cell in record.cells.items():
                cell.localise()
                if cell.named:
                    root.declared[resource] = root.declared.get(resource, 0) + 1
                if record.parent is not None:
                    above = record.parent.cell(resource)
                    above.subtree += cell.lent
                    above.held += cell.held
                    above.usage += cell.above
                    above.fixed += cell.fixed_above
        settle_knobs(root)


def settle_knobs(top: QueueRecord) -> None:
    """Resolve again the policies of a queue and the queues below it."""
    for record in top.subtree():
        record.policy = resolve(above.spec for above in record.path)
        for cell in record.cells.values():
            cell.half_life_ns = record.policy.half_life_ns
    forget_bounds(top.root)


def forget_bounds(root: QueueRecord) -> None:
    """Invalidate what could be lent and what is bounded, in the whole tree."""
    root.epoch += 1
    for record in root.subtree():
        record.bounded = _bounded(record)


def settle_bounds(record: QueueRecord) -> None:
    """Correct the sums on the way up after the queue's quota or limits changed."""
    root, declared, bounded = record.root, record.root.declared.keys() | (), record.bounded
    for resource in _named(record.spec) | record.cells.keys():
        cells = record.cells_up(resource)
        first = cells[0]
        before = first.lent, first.above, first.fixed_above
        nominal, named = first.nominal, first.named
        _set_bounds(first, record.spec)
        first.subtree += first.nominal - nominal
        first.localise()
        if first.named != named:
            _declare(root, resource, 1 if first.named else -1)
        _pass_up(cells, before)
    root.epoch += 1
    record.bounded = _bounded(record)
    if root.declared.keys() != declared or (record.children and record.bounded != bounded):
        forget_bounds(root)


def _pass_up(cells: tuple[Cell, ...], before: tuple[int, int, int]) -> None:
    """Correct the cells above a changed one. `before`: its lent amount, and its usages that counted above."""
    for lower, cell in itertools.pairwise(cells):
        now = lower.lent, lower.above, lower.fixed_above
        if now == before:
            return
        more = [value - old for value, old in zip(now, before, strict=True)]
        before = cell.lent, cell.above, cell.fixed_above
        cell.subtree += more[0]
        cell.usage += more[1]
        cell.fixed += more[2]
        cell.localise()


def _declare(root: QueueRecord, resource: str, more: int) -> None:
    count = root.declared.get(resource, 0) + more
    if count:
        root.declared[resource] = count
    else:
        del root.declared[resource]


def _set_bounds(cell: Cell, spec: QueueSpec) -> None:
    resource = cell.key[1]
    nominal = nominal_of(spec).get(resource)
    cell.named, cell.nominal = nominal is not None, nominal or 0
    cell.borrowing = borrowing_of(spec).get(resource, UNLIMITED)
    cell.lending = spec.lending_limit.get(resource, UNLIMITED)


def _named(spec: QueueSpec) -> set[str]:
    return {*nominal_of(spec), *borrowing_of(spec), *spec.lending_limit}


def _bounded(record: QueueRecord) -> frozenset[str]:
    limits = {resource for above in record.path for resource in borrowing_of(above.spec)}
    return frozenset(record.root.declared.keys() | limits)


def _way_up(record: QueueRecord) -> Iterator[QueueRecord]:
    above: QueueRecord | None = record
    while above is not None:
        yield above
        above = above.parent
