"""The records of all queues: how a change of one is taken in, what a checkpoint holds of them, where each stands."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.quota import formulas, users
from muster.quota.amounts import Amounts
from muster.quota.policy import DEFAULT, Policy, resolve
from muster.quota.queue_checks import Refusal, refusal_of
from muster.quota.tree import (
    DEPTH_MAX,
    QueueRecord,
    attach,
    link,
    settle_all,
    settle_bounds,
    settle_knobs,
)
from muster.schemas.facts.queue import GPU, QueueSpec, QueueState, QueueWish, Used


@dataclass(slots=True)
class _Homeless:
    """What is held for a queue that is not there (yet): parts of a checkpoint come in any order."""

    amounts: dict[tuple[str, bool], int] = field(default_factory=dict)
    principals: dict[str, int] = field(default_factory=dict)


class QueueRecords:
    """All queues, and the changes that wait for an answer.

    relieved: (queue, resource) of which less is held, or more may be held, since somebody last took note of it.
    """

    def __init__(self) -> None:
        self.wishes: dict[str, QueueWish] = {}
        self.relieved: set[tuple[str, str]] = set()
        self._records: dict[str, QueueRecord] = {}
        self._is_stale = False
        self._homeless: dict[str, _Homeless] = {}
        self._waiting_for: dict[str, int] = {}

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
                self._settle_use(self._records.values(), at)
            self._is_stale = True
        elif not self._is_stale:
            if at and before.half_life_s != spec.half_life_s:
                self._settle_use(record.subtree(), at)
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

        None if there are no two sides: it is the same queue, or one stands above the other (see `side_below`).
        """
        up, down = self.path(one)[::-1], self.path(other)[::-1]
        for mine, theirs in zip(up, down, strict=False):
            if mine != theirs:
                return mine, theirs
        return None

    def side_below(self, above: str, below: str) -> str:
        """The child of `above` that is `below` or stands above it. Raises ValueError if `above` is not above it."""
        path = self.path(below)
        return path[path.index(above) - 1]

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
        homeless = self._homeless.pop(spec.name, None)
        if homeless is not None:
            self._take_in(record, homeless)
        return is_quiet

    def _take_in(self, record: QueueRecord, homeless: _Homeless) -> None:
        """The queue is there now for which so much is held."""
        for (resource, preemptible), amount in homeless.amounts.items():
            if self._is_stale:  # all sums are made anew from what the queues' own jobs hold
                cell = record.cell(resource)
                cell.own += amount
                cell.own_fixed += 0 if preemptible else amount
            else:
                formulas.hold(record.cells_up(resource), amount, preemptible=preemptible)
        for principal, milli in homeless.principals.items():
            record.principals.add(principal, milli, at=0, half_life_ns=record.policy.half_life_ns)

    def _hold_homeless(self, queue: str, amounts: Amounts, *, sign: int, preemptible: bool, principal: str) -> None:
        home = self._homeless.setdefault(queue, _Homeless())
        for resource, amount in amounts.items():
            key = resource, preemptible
            home.amounts[key] = home.amounts.get(key, 0) + sign * amount
        if principal and (milli := amounts.get(GPU)):
            home.principals[principal] = home.principals.get(principal, 0) + sign * milli

    def _wait_for(self, parent: str | None, more: int) -> None:
        """So many queues name this parent."""
        if parent is not None:
            self._waiting_for[parent] = self._waiting_for.get(parent, 0) + more

    @staticmethod
    def _settle_use(records: Iterable[QueueRecord], at: int) -> None:
        for record in records:
            for cell in record.cells.values():
                if cell.at:
                    cell.remember(at)
            record.principals.settle(at, record.policy.half_life_ns)
