"""Queues: their tree, what their jobs hold, how much more they may hold, their shares, and requested changes.

The formulas are in `formulas` (limits), `shares` (borrowing) and `usage` (past usage); this module applies them by the
name of a queue.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.quota import formulas, shares, users
from muster.quota.amounts import UNLIMITED, Amounts
from muster.quota.formulas import NOTHING, Ceiling
from muster.quota.policy import DEFAULT, DEPTH_MAX, Policy, resolve
from muster.quota.queue_checks import Refusal, refusal_of
from muster.quota.tree import QueueRecord, attach, link, settle_all, settle_bounds, settle_knobs
from muster.schemas.facts.queue import GPU, PendingQueueChange, QueueSpec, QueueState, Used

__all__ = ["Ceiling", "QueueRecord", "QueueTree", "Refusal"]


@dataclass(slots=True)
class _EarlyUsage:
    """Amounts held in a queue that does not exist (yet): parts of a checkpoint come in any order."""

    amounts: dict[tuple[str, bool], int] = field(default_factory=dict)
    principals: dict[str, int] = field(default_factory=dict)

    def hold(self, amounts: Amounts, *, sign: int, preemptible: bool, principal: str) -> None:
        """Add amounts (sign -1: remove)."""
        for resource, amount in amounts.items():
            key = resource, preemptible
            self.amounts[key] = self.amounts.get(key, 0) + sign * amount
        if principal and (milli := amounts.get(GPU)):
            self.principals[principal] = self.principals.get(principal, 0) + sign * milli

    def move_to(self, record: QueueRecord, *, is_stale: bool) -> None:
        """Count the amounts for the queue, which exists now. `is_stale`: all sums will be computed again."""
        for (resource, preemptible), amount in self.amounts.items():
            if is_stale:  # the sums are computed from what the queues' own jobs hold
                cell = record.cell(resource)
                cell.own += amount
                cell.own_fixed += 0 if preemptible else amount
            else:
                formulas.hold(record.cells_up(resource), amount, preemptible=preemptible)
        for principal, milli in self.principals.items():
            record.principals.add(principal, milli, at=0, half_life_ns=record.policy.half_life_ns)


class QueueTree:
    """All queues, with their usage and limits, and requested changes that wait for an answer."""

    def __init__(self) -> None:
        self.wishes: dict[str, PendingQueueChange] = {}
        """Requested changes by the id of their fact."""
        self.relieved: set[tuple[str, str]] = set()
        """(queue, resource) of which less is held, or more may be held, since a reader cleared the set."""
        self._records: dict[str, QueueRecord] = {}
        self._is_stale = False
        self._early: dict[str, _EarlyUsage] = {}
        self._waiting_for: dict[str, int] = {}
        self.capacity: dict[str, int] = {}
        """The cluster's capacity by resource."""
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
        """Set a queue's spec. `at` is the time for the averages; 0 if it comes from a checkpoint.

        Return whether it is a new queue that affects others at most by what it lends, which `relieved` reports.
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
        """Load the queue from a checkpoint, with its past usage."""
        self.set(state.spec, changed_at=state.changed_at)
        record = self._records[state.spec.name]
        for used in state.used:
            if used.principal:
                record.principals.load(used.principal, average=used.average, at=used.at)
            else:
                cell = record.cell(used.resource)
                cell.average, cell.at = used.average, used.at

    def state_of(self, record: QueueRecord) -> QueueState:
        """Return the queue as a state fact."""
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
        """Return why the queue's spec is invalid; None if it is valid. `accepted` has changes that count as made."""
        return refusal_of(spec, {name: record.spec for name, record in self._records.items()} | dict(accepted or {}))

    def path(self, queue: str) -> tuple[str, ...]:
        """Return the queue and the queues above it; only its name if it does not exist."""
        record = self.queues.get(queue)
        return (queue,) if record is None else tuple(above.name for above in record.path)

    def sides(self, one: str, other: str) -> tuple[str, str] | None:
        """Return the children of the closest common ancestor on either side; the cluster is an ancestor of all.

        None if there are no two sides: it is the same queue, or one is above the other.
        """
        up, down = self.path(one)[::-1], self.path(other)[::-1]
        for mine, theirs in zip(up, down, strict=False):
            if mine != theirs:
                return mine, theirs
        return None

    def policy(self, queue: str) -> Policy:
        """Return the resolved policy of the queue; the defaults if it does not exist."""
        record = self.queues.get(queue)
        return DEFAULT if record is None else record.policy

    def policy_for(self, queue: str, asked: str) -> Policy:
        """Return the policy of a queue; until a user queue is created, of the requested queue above it."""
        return self.policy(queue if queue in self.queues else asked)

    def queue_for(self, asked: str, principal: str) -> str:
        """Return the queue of a principal's job that requests a queue: the user queue if there is a template.

        An operator may have created the user queue before. If another queue has its name, or the number of user queues
        or levels is at its maximum, the job goes to the requested queue.
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
        """Set the cluster's capacity by resource."""
        if totals == self.capacity:
            return
        self.capacity = dict(totals)

    # --- usage -----------------------------------------------------------------------------------------------

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
        """Add amounts held by the queue's jobs (sign -1: remove) from `at` on.

        With `at` 0 the change is a trial, to be undone with the opposite sign, or comes from a checkpoint: past usage
        is unchanged.
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
        """Whether proposed amounts are counted."""
        return bool(self._proposed)

    def propose(self, queue: str, amounts: Amounts, *, preemptible: bool = True) -> None:
        """Count a proposed placement until `withdraw_proposals`."""
        self._proposed.append((queue, amounts, preemptible))
        self.hold(queue, amounts, preemptible=preemptible)

    def withdraw_proposals(self) -> None:
        """Remove all proposed amounts."""
        while self._proposed:
            queue, amounts, preemptible = self._proposed.pop()
            self.hold(queue, amounts, sign=-1, preemptible=preemptible)

    # --- limits ----------------------------------------------------------------------------------------------

    def declares(self, queue: str, resource: str) -> bool:
        """Return whether the queue's tree counts this resource: then the tree is closed for it."""
        record = self.queues.get(queue)
        return record is not None and resource in record.root.declared

    def available(self, queue: str, resource: str, *, preemptible: bool = True) -> int:
        """Return how much more its jobs may hold; negative after quota was reduced; about UNLIMITED without a limit."""
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
        """Return the queues in which usage must fall before more is available: upwards to the binding limit."""
        record = self.queues[queue]
        if resource not in record.bounded:
            return ()
        cells, is_declared = record.cells_up(resource), resource in record.root.declared
        place, _ = formulas.binding(cells, is_declared=is_declared)
        if is_declared:  # for non-preemptible jobs, up to the queue whose nominal quota they use
            place = max(place, cells.index(formulas.fixed_cell(cells)))
        return tuple(cell.key[0] for cell in cells[: place + 1])

    def ceiling(self, queue: str, amounts: Amounts, *, preemptible: bool) -> Ceiling | None:
        """Return the limit that prevents these amounts; None if there is none. Raise KeyError for an unknown queue."""
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
        """Return the limit that prevents these amounts even if nothing else is held; None if there is none."""
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

    # --- borrowing -------------------------------------------------------------------------------------------

    def share(self, node: str, extra: Amounts | None = None) -> float:
        """Return the queue's borrowed part of what can be lent, by weight, with `extra` counted as held by it."""
        return shares.share(self.queues[node], self.capacity, extra)

    def used_share(self, node: str, now: int) -> float:
        """Return the share computed from the decayed past usage."""
        return shares.used_share(self.queues[node], self.capacity, now)

    def is_within_nominal(self, node: str, extra: Amounts) -> bool:
        """Return whether usage and extra stay within SubtreeQuota in every declared resource of extra.

        False if none of them is declared: then nothing is nominal.
        """
        record = self.queues[node]
        declared = [resource for resource, amount in extra.items() if amount and resource in record.root.declared]
        cells = [(record.cells.get(resource, NOTHING), extra[resource]) for resource in declared]
        return bool(cells) and all(cell.usage + amount <= cell.subtree for cell, amount in cells)

    def is_borrowing(self, node: str, resources: Iterable[str]) -> bool:
        """Return whether the queue holds more than its SubtreeQuota of one of these; anything counts if undeclared."""
        cells = self.queues[node].cells
        return any((cell := cells.get(resource, NOTHING)).usage > cell.subtree for resource in resources)

    def principal_share(self, queue: str, principal: str, now: int) -> float:
        """Return the principal's part, 0 to 1, of the decayed GPU usage of the queue's own jobs."""
        record = self.queues.get(queue)
        return 0.0 if record is None else record.principals.share(principal, now, record.policy.half_life_ns)

    # --- inside ----------------------------------------------------------------------------------------------

    def _add(self, spec: QueueSpec, changed_at: int) -> bool:
        record = self._records[spec.name] = QueueRecord(spec, changed_at)
        self._wait_for(spec.parent, 1)
        is_quiet = False
        if self._waiting_for.get(spec.name) or self._is_stale:
            self._is_stale = True  # other queues have it as their parent, and are below it from now on
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
        if parent is not None:
            self._waiting_for[parent] = self._waiting_for.get(parent, 0) + more


def _settle_use(records: Iterable[QueueRecord], at: int) -> None:
    for record in records:
        for cell in record.cells.values():
            if cell.at:
                cell.remember(at)
        record.principals.settle(at, record.policy.half_life_ns)
