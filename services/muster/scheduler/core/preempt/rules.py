"""Which jobs a pending job may preempt: the one policy, asked while targets are chosen.

Let w be the pending job, x its queue, z the target, y its queue. xa and ya are the children of the closest common
ancestor of x and y on either side. Shares are of what is borrowed at this time (decision 0018). In `Standing`,
share(xa) is share_before, share(xa with w) is preemptor_share, and share(ya) is target_share.

- within queue: y is x, and z has a lower priority (or, if the policy says so, the same priority and came later)
- reclaim: x and every queue between it and the common ancestor stay within their quota with w, while ya and every
  queue between it and y hold more than their quota
- fair share: final: share(xa with w) <= share(ya without z); initial: share(xa with w) < share(ya), one z per queue;
  both require share(xa) < share(ya) now
- over slice: w starves, z has no higher priority, and y is x or share(xa with w) <= share(ya)

A queue that borrows nothing never loses a job. No two jobs preempt each other in turn. By final share z would come back
only if share(ya) <= share(xa), which was false when it was preempted; by initial share only if share(ya) < share(xa
with w), which is at most share(ya); by reclaim only from a queue that borrows, and x did not. By over slice, z has to
starve in between.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple

from muster.core import Instant, after
from muster.placement import GangRequest
from muster.quota.amounts import Amounts
from muster.quota.policy import Policy
from muster.quota.queues import QueueTree
from muster.scheduler.core.preempt.standing import ShareComparison, Standing
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.facts.queue import FairShareRule, OverSlice, Reclaim, WithinQueue
from muster.schemas.job import Slot

ABOVE_ALL = 1_001
"""Higher than every priority that a job can have."""


class Rule(StrEnum):
    """Why a job may be preempted."""

    WITHIN_QUEUE = "lower priority in the queue"
    RECLAIM = "nominal quota is reclaimed"
    FINAL_SHARE = "fair share, final"
    INITIAL_SHARE = "fair share, initial"
    OVER_SLICE = "over its slice, for one that starves"
    DEFRAGMENT = "another place is idle"


class Wanting(NamedTuple):
    """The pending job, and the amounts that it needs to run."""

    record: JobRecord
    amounts: Amounts
    gang: GangRequest
    """With the minimum replicas."""
    starves: bool

    @property
    def priority(self) -> int:
        """The job's priority."""
        return self.record.effective_priority


class Part(NamedTuple):
    """A part of a job that may be preempted: the replicas that it cannot run without, or one replica that it can."""

    record: JobRecord
    amounts: Amounts
    """What the queue counts less if this part is taken; of the whole job if that ends it."""
    slots: tuple[Slot, ...]
    is_whole: bool = True
    """Whether taking the part ends the job."""
    is_leaving: bool = False
    """Whether the part leaves anyway."""


def starving_at(record: JobRecord, policy: Policy) -> Instant:
    """Return when a waiting job starves: then it may preempt jobs past their slice, and gets a reservation."""
    return after(Instant(record.queued_at), policy.starving_after_s)


class Rules:
    """The policy for one pending job, given the parts that are already taken.

    `take` changes the usage of the tree; `put_back` and `undo` restore it. `before` is the result of `shares_up`.
    """

    def __init__(
        self, tree: QueueTree, wanting: Wanting, parts: Mapping[str, Part], before: Mapping[str, float]
    ) -> None:
        record = wanting.record
        self._policy = tree.policy(record.queue)
        self.fair_share = self._policy.fair_share
        """The fair-share rules that apply."""
        self.taken: dict[str, Rule | None] = {}
        """The rule of each taken part; None for parts that leave anyway, and where the rule was not needed."""
        self.asks = 0
        """How often `rule_of` was called."""
        self._tree = tree
        self._wanting = wanting
        self._parts = parts
        self._queue = record.queue
        self._preemptible = record.job.spec.preemptible
        self._starves = wanting.starves and self._policy.over_slice is OverSlice.STARVING
        self._comparison = ShareComparison(
            tree, self._queue, wanting.amounts, preemptible=self._preemptible, before=before
        )
        self._taken_of: dict[str, dict[str, None]] = {}
        self._removed: dict[str, dict[str, int]] = {}

    # --- interface of the search for victims -----------------------------------------------------------------

    def may_take(self, key: str) -> bool:
        """Return whether this part may be taken in addition to the parts that are taken."""
        part = self._parts[key]
        return part.is_leaving or self.rule_of(key) is not None

    def take(self, key: str) -> None:
        """Take the part."""
        part = self._parts[key]
        # the rule matters only for the initial share, which applies once per queue
        is_asked = FairShareRule.INITIAL_SHARE in self.fair_share and not part.is_leaving
        self.taken[key] = self.rule_of(key) if is_asked else None
        self._taken_of.setdefault(part.record.id, {})[key] = None
        self._settle(part.record)

    def put_back(self, key: str) -> None:
        """Undo taking the part."""
        part = self._parts[key]
        del self.taken[key], self._taken_of[part.record.id][key]
        self._settle(part.record)

    def admits(self) -> bool:
        """Return whether quota admits the job, given the parts that are taken."""
        return self._tree.ceiling(self._queue, self._wanting.amounts, preemptible=self._preemptible) is None

    def undo(self) -> None:
        """Put back all parts."""
        for key in tuple(self.taken):
            self.put_back(key)

    # --- early exclusion of queues ---------------------------------------------------------------------------

    def is_hopeless(self, node: str, theirs: float) -> bool:
        """Return whether no job below a sibling of `node` may be preempted.

        `node` is the queue or one above it, or OWN for its own jobs beside the queues below it. `theirs` is the
        sibling's share.
        """
        if theirs <= 0:
            return True
        may_reclaim = self._policy.reclaim is not Reclaim.NEVER and self._comparison.is_within(self._queue)
        return not may_reclaim and self._comparison.share_with_job(node) > theirs

    def reach(self, queue: str) -> int:
        """Return the priority below which jobs of this queue may be preempted now; 0 if none may."""
        mine, policy = self._wanting.priority, self._policy
        if queue == self._queue:
            return {
                WithinQueue.NEVER: mine + 1 if self._starves else 0,
                WithinQueue.LOWER_PRIORITY: mine + 1 if self._starves else mine,
                WithinQueue.LOWER_OR_NEWER_EQUAL: mine + 1,
            }[policy.within_queue]
        standing = self._comparison.standing(queue)
        if self._is_fair(standing, policy.fair_share) or (self._is_reclaim(standing) and policy.reclaim is Reclaim.ANY):
            return ABOVE_ALL
        if self._is_over_slice(standing):
            return mine + 1
        return mine if self._is_reclaim(standing) else 0

    def rule_of(self, key: str) -> Rule | None:
        """Return the rule by which a part may be taken now, the strongest claim first; None if it may not."""
        self.asks += 1
        part = self._parts[key]
        record, mine, theirs = part.record, self._wanting.priority, part.record.effective_priority
        if record.queue == self._queue:
            return self._rule_within(record)
        standing, reclaim = self._comparison.standing(record.queue), self._policy.reclaim
        if self._is_reclaim(standing) and (theirs < mine or reclaim is Reclaim.ANY):
            return Rule.RECLAIM
        if self._is_fair(standing, self.fair_share):
            is_final = FairShareRule.FINAL_SHARE in self.fair_share
            if is_final and self._comparison.is_final(record.queue, self._still_held(part)):
                return Rule.FINAL_SHARE
        if self._is_over_slice(standing) and theirs <= mine:
            return Rule.OVER_SLICE
        is_initial = FairShareRule.INITIAL_SHARE in self.fair_share and self._is_fair(standing, self.fair_share)
        if is_initial and standing.preemptor_share < standing.target_share and not self._is_taken_by_initial(record):
            return Rule.INITIAL_SHARE
        return None

    # --- inside ----------------------------------------------------------------------------------------------

    def _rule_within(self, record: JobRecord) -> Rule | None:
        within, wanting, theirs = self._policy.within_queue, self._wanting, record.effective_priority
        is_newer = theirs == wanting.priority and record.routed_seq > wanting.record.routed_seq
        if theirs < wanting.priority and within is not WithinQueue.NEVER:
            return Rule.WITHIN_QUEUE
        if is_newer and within is WithinQueue.LOWER_OR_NEWER_EQUAL:
            return Rule.WITHIN_QUEUE
        return Rule.OVER_SLICE if self._starves and theirs <= wanting.priority else None

    def _is_reclaim(self, standing: Standing) -> bool:
        return standing.borrows and standing.is_within and self._policy.reclaim is not Reclaim.NEVER

    @staticmethod
    def _is_fair(standing: Standing, shares: Collection[FairShareRule]) -> bool:
        if not standing.borrows or standing.is_foreign or not shares:
            return False
        return standing.share_before < standing.target_share and standing.preemptor_share <= standing.target_share

    def _is_over_slice(self, standing: Standing) -> bool:
        if not self._starves or not standing.borrows or standing.is_foreign:
            return False
        return standing.preemptor_share <= standing.target_share

    def _is_taken_by_initial(self, record: JobRecord) -> bool:
        others = (self._parts[key].record for key, rule in self.taken.items() if rule is Rule.INITIAL_SHARE)
        return any(other.queue == record.queue and other is not record for other in others)

    def _still_held(self, part: Part) -> Amounts:
        """Return the amounts that the tree would count less if this part were taken in addition."""
        removed = self._removed.get(part.record.id)
        if part.is_whole:
            whole = part.record.counted
            return {name: amount - removed.get(name, 0) for name, amount in whole.items()} if removed else whole
        return {} if self._is_ended(part.record) else part.amounts

    def _is_ended(self, record: JobRecord) -> bool:
        return any(self._parts[key].is_whole for key in self._taken_of.get(record.id, ()))

    def _settle(self, record: JobRecord) -> None:
        """Let the tree count what the job holds without the parts that are taken."""
        keys = self._taken_of.get(record.id, {})
        now: dict[str, int] = {}
        if not any(self._parts[key].is_leaving for key in keys):
            if self._is_ended(record):
                now = dict(record.counted)
            else:
                for key in keys:
                    for name, amount in self._parts[key].amounts.items():
                        now[name] = now.get(name, 0) + amount
        before = self._removed.pop(record.id, {})
        if now:
            self._removed[record.id] = now
        if now != before:
            change = {name: now.get(name, 0) - before.get(name, 0) for name in {**before, **now}}
            self._comparison.take(record.queue, change)
