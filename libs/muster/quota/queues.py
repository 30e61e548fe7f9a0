"""Queues: their tree, what their jobs hold, how much more they may hold, who borrows how much, and changes to come.

The formulas are in `quota` (what may be held), `shares` (who borrows how much) and `usage` (what was held lately); here
they are asked by the name of a queue.
"""

from collections.abc import Iterable

from muster.quota import formulas, shares
from muster.quota.amounts import UNLIMITED, Amounts
from muster.quota.formulas import NOTHING, Ceiling
from muster.quota.queue_checks import Refusal
from muster.quota.queue_records import QueueRecords
from muster.quota.tree import QueueRecord
from muster.schemas.facts.queue import GPU

__all__ = ["Ceiling", "QueueRecord", "QueueTree", "Refusal"]


class QueueTree(QueueRecords):
    """All queues, with what they hold and may hold. capacity: what the cluster has, by resource."""

    def __init__(self) -> None:
        super().__init__()
        self.capacity: dict[str, int] = {}
        self._proposed: list[tuple[str, Amounts, bool]] = []

    def set_capacity(self, totals: Amounts) -> None:
        """What the cluster has of each resource: nodes that are part of it."""
        if totals == self.capacity:
            return
        self.capacity = dict(totals)

    # --- what is held ----------------------------------------------------------------------------------------

    def hold(
        self,
        queue: str,
        amounts: Amounts,
        *,
        sign: int = 1,
        preemptible: bool = True,
        at: int = 0,
        principal: str = "",
    ) -> None:
        """Its jobs hold so much more (sign -1: less) from `at` on.

        At 0 it is only tried, to be undone by the opposite sign, or told by a checkpoint: what was held lately is left
        as it is, and nobody is taken to be relieved.
        """
        record = self._records.get(queue) if not self._is_stale else self.queues.get(queue)
        if record is None:
            self._hold_homeless(queue, amounts, sign=sign, preemptible=preemptible, principal=principal)
            return
        ups, bounded = record.ups, record.bounded
        for resource, amount in amounts.items():
            cells = ups.get(resource) or record.cells_up(resource)
            if at:
                for cell in cells:
                    cell.remember(at)
                if sign < 0 and resource in bounded:
                    self.relieved.update([cell.key for cell in cells])
            formulas.hold(cells, amount if sign > 0 else -amount, preemptible=preemptible)
        if principal and (milli := amounts.get(GPU)):
            record.principals.add(principal, sign * milli, at=at, half_life_ns=record.policy.half_life_ns)

    @property
    def has_proposals(self) -> bool:
        """Whether something is counted that is only proposed."""
        return bool(self._proposed)

    def propose(self, queue: str, amounts: Amounts, *, preemptible: bool = True) -> None:
        """Count a placement that is only proposed, until `withdraw_proposals`."""
        self._proposed.append((queue, amounts, preemptible))
        self.hold(queue, amounts, preemptible=preemptible)

    def withdraw_proposals(self) -> None:
        """Forget everything that was proposed."""
        while self._proposed:
            queue, amounts, preemptible = self._proposed.pop()
            self.hold(queue, amounts, sign=-1, preemptible=preemptible)

    # --- what may be held ------------------------------------------------------------------------------------

    def declares(self, queue: str, resource: str) -> bool:
        """Whether the queue's tree counts this resource: then the tree is closed for it."""
        record = self.queues.get(queue)
        return record is not None and resource in record.root.declared

    def available(self, queue: str, resource: str, *, preemptible: bool = True) -> int:
        """How much more its jobs may hold; negative after quota was taken away; about UNLIMITED if not bounded."""
        record = self.queues[queue]
        if resource not in record.bounded:
            return UNLIMITED
        cells, is_declared = record.cells_up(resource), resource in record.root.declared
        left = formulas.available(cells, is_declared=is_declared)
        if preemptible or not is_declared:
            return left
        bound = formulas.fixed_cell(cells)
        return min(left, bound.nominal - bound.fixed)

    def waits_on(self, queue: str, resource: str) -> tuple[str, ...]:
        """Where less must be held before more is available: the queue and those above it, up to what binds it."""
        record = self.queues[queue]
        if resource not in record.bounded:
            return ()
        cells, is_declared = record.cells_up(resource), resource in record.root.declared
        place, _ = formulas.binding(cells, is_declared=is_declared)
        if is_declared:  # of what may not be preempted, where its nominal quota comes from
            place = max(place, cells.index(formulas.fixed_cell(cells)))
        return tuple(cell.key[0] for cell in cells[: place + 1])

    def ceiling(self, queue: str, amounts: Amounts, *, preemptible: bool) -> Ceiling | None:
        """What stops so much more from being held; None if nothing does. Raises KeyError if the queue is not there."""
        record = self.queues[queue]
        for resource, amount in amounts.items():
            if resource not in record.bounded or amount <= 0:
                continue
            cells, is_declared = record.cells_up(resource), resource in record.root.declared
            if not preemptible and is_declared:
                bound = formulas.fixed_cell(cells)
                if amount > bound.nominal - bound.fixed:
                    left = bound.nominal - bound.fixed
                    return Ceiling(*bound.key, bound.fixed, bound.nominal, left, formulas.NON_PREEMPTIBLE)
            if amount > formulas.available(cells, is_declared=is_declared):
                return formulas.binding(cells, is_declared=is_declared)[1]
        return None

    def never(self, queue: str, amounts: Amounts, *, preemptible: bool) -> Ceiling | None:
        """What stops so much from being held even if nothing else were; None if nothing does."""
        record = self.queues[queue]
        for resource, amount in amounts.items():
            if resource not in record.bounded or amount <= 0:
                continue
            cells, is_declared = record.cells_up(resource), resource in record.root.declared
            bound = formulas.fixed_cell(cells)
            if not preemptible and is_declared and amount > bound.nominal:
                return Ceiling(*bound.key, 0, bound.nominal, bound.nominal, formulas.NON_PREEMPTIBLE)
            if amount > formulas.potential(cells, is_declared=is_declared):
                return formulas.binding(cells, is_declared=is_declared, is_empty=True)[1]
        return None

    # --- who borrows -----------------------------------------------------------------------------------------

    def share(self, node: str, extra: Amounts | None = None) -> float:
        """What the queue borrows of what can be lent, by weight. extra: counted as held at this very queue besides."""
        return shares.share(self.queues[node], self.capacity, extra)

    def used_share(self, node: str, now: int) -> float:
        """The same for what it held lately."""
        return shares.used_share(self.queues[node], self.capacity, now)

    def is_within_nominal(self, node: str, extra: Amounts) -> bool:
        """Whether usage and extra stay within SubtreeQuota in every resource of extra that the tree declares.

        False if it declares none of them: then nothing is nominal.
        """
        record = self.queues[node]
        declared = [resource for resource, amount in extra.items() if amount and resource in record.root.declared]
        cells = [(record.cells.get(resource, NOTHING), extra[resource]) for resource in declared]
        return bool(cells) and all(cell.usage + amount <= cell.subtree for cell, amount in cells)

    def is_borrowing(self, node: str, resources: Iterable[str]) -> bool:
        """Whether it holds more of one of these than its SubtreeQuota; of what is not declared, anything at all."""
        cells = self.queues[node].cells
        return any((cell := cells.get(resource, NOTHING)).usage > cell.subtree for resource in resources)

    def principal_share(self, queue: str, principal: str, now: int) -> float:
        """Which part of the GPUs that the queue's own jobs held lately the principal held, 0 to 1."""
        record = self.queues.get(queue)
        return 0.0 if record is None else record.principals.share(principal, now, record.policy.half_life_ns)
