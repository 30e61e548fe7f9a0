"""Queues: their tree, what their jobs hold, how much more they may hold, who borrows how much, and changes to come.

The formulas are in `quota` (what may be held), `shares` (who borrows how much) and `usage` (what was held lately); here
they are asked by the name of a queue.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.quota import formulas, shares, users
from muster.quota.amounts import UNLIMITED, Amounts
from muster.quota.formulas import NOTHING, Ceiling
from muster.quota.policy import DEFAULT, Policy, resolve
from muster.quota.queue_checks import Refusal, refusal_of
from muster.quota.tree import DEPTH_MAX, QueueRecord, attach, link, settle_all, settle_bounds, settle_knobs
from muster.schemas.facts.queue import GPU, QueueSpec, QueueState, QueueWish, Used

__all__ = ["Ceiling", "QueueRecord", "QueueTree", "Refusal"]


@dataclass(slots=True)
class _EarlyUsage:
    """What is held for a queue that is not there (yet): parts of a checkpoint come in any order."""

    amounts: dict[tuple[str, bool], int] = field(default_factory=dict)
    principals: dict[str, int] = field(default_factory=dict)

    def hold(self, amounts: Amounts, *, sign: int, preemptible: bool, principal: str) -> None:
        """Count so much more (sign -1: less)."""
        for resource, amount in amounts.items():
            key = resource, preemptible
            self.amounts[key] = self.amounts.get(key, 0) + sign * amount
        if principal and (milli := amounts.get(GPU)):
            self.principals[principal] = self.principals.get(principal, 0) + sign * milli

    def move_to(self, record: QueueRecord, *, is_stale: bool) -> None:
        """Count it for the queue, which is there now. is_stale: all sums will be made anew."""
        for (resource, preemptible), amount in self.amounts.items():
            if is_stale:  # from what the queues' own jobs hold
                cell = record.cell(resource)
                cell.own += amount
                cell.own_fixed += 0 if preemptible else amount
            else:
                formulas.hold(record.cells_up(resource), amount, preemptible=preemptible)
        for principal, milli in self.principals.items():
            record.principals.add(principal, milli, at=0, half_life_ns=record.policy.half_life_ns)


class QueueTree:
    """All queues, with what they hold and may hold, and the changes that wait for an answer.

    capacity: what the cluster has, by resource. relieved: (queue, resource) of which less is held, or more may be held,
    since somebody last took note of it.
    """

    def __init__(self) -> None:
        self.wishes: dict[str, QueueWish] = {}
        self.relieved: set[tuple[str, str]] = set()
        self._records: dict[str, QueueRecord] = {}
        self._is_stale = False
        self._early: dict[str, _EarlyUsage] = {}
        self._waiting_for: dict[str, int] = {}
        self.capacity: dict[str, int] = {}
        self._proposed: list[tuple[str, Amounts, bool]] = []

    @property
    def queues(self) -> dict[str, QueueRecord]:
        """All queues by name."""
        if self._is_stale:
            self._is_stale = False
            link(self._records)
            settle_all(self._records)
        return self._records

    # --- the tree --------------------------------------------------------------------------------------------

    def set(self, spec: QueueSpec, *, changed_at: int, at: int = 0) -> bool:
        """The queue is so from now on. at: when, for the averages; 0 if nothing changed at a moment (a checkpoint).

        Returns whether it is a new queue that others feel by what it may lend them at most, which `relieved` says.
        """
        record = self._records.get(spec.name)
        if record is None:
            return self._add(spec, changed_at)
        before, record.spec, record.changed_at = record.spec, spec, changed_at
        self._wait_for(before.parent, -1)
        self._wait_for(spec.parent, 1)
        if before.parent != spec.parent:
            if at and not self._is_stale:
                _settle_use(self._records.values(), at)
            self._is_stale = True
        elif not self._is_stale:
            if at and before.half_life_s != spec.half_life_s:
                _settle_use(record.subtree(), at)
            settle_bounds(record)
            settle_knobs(record)
        return False

    def load(self, state: QueueState) -> None:
        """The queue as a checkpoint says, with what it held lately."""
        self.set(state.spec, changed_at=state.changed_at)
        record = self._records[state.spec.name]
        for used in state.used:
            if used.principal:
                record.principals.load(used.principal, average=used.average, at=used.at)
            else:
                cell = record.cell(used.resource)
                cell.average, cell.at = used.average, used.at

    def state_of(self, record: QueueRecord) -> QueueState:
        """The queue as a state fact."""
        used = [
            Used(resource=resource, average=cell.average, at=cell.at)
            for resource, cell in sorted(record.cells.items())
            if cell.at
        ]
        used += [
            Used(resource=GPU, average=use.average, at=use.at, principal=name)
            for name, use in record.principals
            if use.at
        ]
        return QueueState(spec=record.spec, changed_at=record.changed_at, used=tuple(used))

    def check(self, spec: QueueSpec, accepted: Mapping[str, QueueSpec] | None = None) -> Refusal | None:
        """Why the queue may not be so; None if it may. accepted: changes to be thought of as made."""
        return refusal_of(spec, {name: record.spec for name, record in self._records.items()} | dict(accepted or {}))

    def path(self, queue: str) -> tuple[str, ...]:
        """The queue and those above it; only its name if it is not there."""
        record = self.queues.get(queue)
        return (queue,) if record is None else tuple(above.name for above in record.path)

    def sides(self, one: str, other: str) -> tuple[str, str] | None:
        """The children of the closest common ancestor on either side; the cluster is an ancestor of all.

        None if there are no two sides: it is the same queue, or one stands above the other.
        """
        up, down = self.path(one)[::-1], self.path(other)[::-1]
        for mine, theirs in zip(up, down, strict=False):
            if mine != theirs:
                return mine, theirs
        return None

    def policy(self, queue: str) -> Policy:
        """All knobs of the queue, inherited ones resolved; the defaults if it is not there."""
        record = self.queues.get(queue)
        return DEFAULT if record is None else record.policy

    def policy_for(self, queue: str, asked: str) -> Policy:
        """The policy of a queue, or of the one above it, which was asked for, as long as it is not made."""
        return self.policy(queue if queue in self.queues else asked)

    def queue_for(self, asked: str, principal: str) -> str:
        """Where a job of this principal that asks for this queue goes: to the principal's own if there is a template.

        An operator may have made that queue before. If another queue bears its name, or there are USERS_MAX of them or
        no level is left, the jobs go to the queue itself.
        """
        above = self.queues.get(asked)
        if above is None or above.spec.user_template is None:
            return asked
        for name in users.names(asked, principal):
            own = self._records.get(name)
            if own is not None and own.parent is above:
                return name
            if own is None:
                return name if len(above.children) < users.USERS_MAX and len(above.path) < DEPTH_MAX else asked
        return asked

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
            early = self._early.setdefault(queue, _EarlyUsage())
            early.hold(amounts, sign=sign, preemptible=preemptible, principal=principal)
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

    # --- inside ----------------------------------------------------------------------------------------------

    def _add(self, spec: QueueSpec, changed_at: int) -> bool:
        record = self._records[spec.name] = QueueRecord(spec, changed_at)
        self._wait_for(spec.parent, 1)
        is_quiet = False
        if self._waiting_for.get(spec.name) or self._is_stale:
            self._is_stale = True  # others name it as their parent: they stand below it from now on
            record.path = (record,)
        else:
            attach(record, self._records.get(spec.parent or ""))
            declared = set(record.root.declared)
            settle_bounds(record)
            record.policy = resolve(above.spec for above in record.path)
            for cell in record.cells.values():
                cell.half_life_ns = record.policy.half_life_ns
            is_quiet = declared == record.root.declared.keys()
            self.relieved.update(cell.key for cells in record.ups.values() for cell in cells)
        early = self._early.pop(spec.name, None)
        if early is not None:
            early.move_to(record, is_stale=self._is_stale)
        return is_quiet

    def _wait_for(self, parent: str | None, more: int) -> None:
        """So many queues name this parent."""
        if parent is not None:
            self._waiting_for[parent] = self._waiting_for.get(parent, 0) + more


def _settle_use(records: Iterable[QueueRecord], at: int) -> None:
    for record in records:
        for cell in record.cells.values():
            if cell.at:
                cell.remember(at)
        record.principals.settle(at, record.policy.half_life_ns)
