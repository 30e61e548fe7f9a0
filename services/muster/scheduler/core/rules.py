"""Whom a job that waits may preempt: the one policy, asked while victims are chosen.

Let w be the job that waits, x its queue, z the one that would make way, y its queue. xa and ya are the children of the
closest common ancestor of x and y on either side; shares are of what is borrowed, at this moment (decision 0018).

  within queue  y is x and z has the lower priority (or, if the queue says so, the same and came later)
  reclaim       x and every queue between it and the common ancestor stay within their quota with w, while ya and every
                queue between it and y hold more than theirs
  fair share    final: share(xa with w) <= share(ya without z); initial: share(xa with w) < share(ya), one z per queue;
                in both share(xa) < share(ya) now
  over slice    w starves, z has no higher priority, and y is x or share(xa with w) <= share(ya)

Who borrows nothing is never taken from. No pair preempts each other in turn. By final-share z would come back only if
share(ya) <= share(xa), which was not so when it went; by initial-share only if share(ya) < share(xa with w), which is
at most share(ya); by reclaim only from a queue that borrows, and x did not. Over slice, it has to starve in between.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from muster.core import Instant, after
from muster.scheduler.core.amounts import Amounts
from muster.scheduler.core.jobs import JobRecord
from muster.scheduler.core.policy import Policy
from muster.scheduler.core.queues import QueueTree
from muster.scheduler.core.shares import own_share
from muster.schemas.facts.queue import CPU, GPU, MEMORY, FairShareRule, OverSlice, Reclaim, WithinQueue
from muster.schemas.job import Slot

ABOVE_ALL = 1_001
"""Above every priority that a job can have."""


class Rule(StrEnum):
    """Why somebody may be asked to make way."""

    WITHIN_QUEUE = "lower priority in the queue"
    RECLAIM = "nominal quota is reclaimed"
    FINAL_SHARE = "fair share, final"
    INITIAL_SHARE = "fair share, initial"
    OVER_SLICE = "over its slice, for one that starves"
    DEFRAGMENT = "another place is idle"


class Wanting(NamedTuple):
    """The job that waits. amounts: what it needs to run."""

    record: JobRecord
    amounts: Amounts
    starves: bool

    @property
    def priority(self) -> int:
        """Its class."""
        return self.record.job.spec.priority


class Part(NamedTuple):
    """What could be taken of a job: all that it cannot run without, or one replica that it can.

    amounts: what its queue counts less if this is taken, of the whole job where that ends it (is_whole). slots: of this
    part. is_leaving: it goes anyway.
    """

    record: JobRecord
    amounts: Amounts
    slots: tuple[Slot, ...]
    is_whole: bool = True
    is_leaving: bool = False


class _Sides(NamedTuple):
    """Two queues and their closest common ancestor. mine, theirs: the queues below it, upwards, xa and ya last.

    Empty where the queue is itself the ancestor: then its own jobs stand beside the queues below it, as one more child
    of weight 1 without quota. apart: there is no common ancestor but the cluster.
    """

    mine: tuple[str, ...]
    theirs: tuple[str, ...]
    apart: bool


def shares_up(tree: QueueTree, queue: str) -> dict[str, float]:
    """What a queue and those above it borrow now; under "" what its own jobs borrow beside the queues below it."""
    return {"": own_share(tree.queues[queue], tree.capacity)} | {name: tree.share(name) for name in tree.path(queue)}


def starving_at(record: JobRecord, policy: Policy) -> Instant:
    """When a waiting job starves: it may then take the place of those over their slice, and is reserved for."""
    return after(Instant(record.queued_at), policy.starving_after_s)


class Rules:
    """The policy for one job that waits, given whose places are taken already.

    parts: all that could be asked for, by key. The tree's sums are changed by `take` and back by `put_back` and `undo`.
    before: see `shares_up`. fair_share: by which of the shares that the policy has. taken: by which rule; None for what
    leaves anyway.
    """

    def __init__(
        self, tree: QueueTree, wanting: Wanting, parts: Mapping[str, Part], before: Mapping[str, float]
    ) -> None:
        self.fair_share = tree.policy(wanting.record.queue).fair_share
        self.taken: dict[str, Rule | None] = {}
        self._tree = tree
        self._wanting = wanting
        self._parts = parts
        self._queue = wanting.record.queue
        self._policy = tree.policy(self._queue)
        self._removed: dict[str, dict[str, int]] = {}
        self._taken_of: dict[str, dict[str, None]] = {}
        self._sides: dict[str, _Sides] = {}
        self._before = before
        # What follows from the tree's sums, until they change.
        self._with: dict[str, float] = {}
        self._theirs: dict[str, float] = {}
        self._within: dict[str, bool] = {}
        self._open: dict[str, _Open] = {}
        self._final: dict[tuple[str, tuple[tuple[str, int], ...]], bool] = {}

    # --- what the search for victims asks --------------------------------------------------------------------

    def may_take(self, key: str) -> bool:
        """Whether this part may be taken besides those that are."""
        part = self._parts[key]
        return part.is_leaving or self._rule(part) is not None

    def take(self, key: str) -> None:
        """It is taken from here on."""
        part = self._parts[key]
        self.taken[key] = None if part.is_leaving else self._rule(part)
        self._taken_of.setdefault(part.record.id, {})[key] = None
        self._settle(part.record)

    def put_back(self, key: str) -> None:
        """It is not taken any more."""
        part = self._parts[key]
        del self.taken[key], self._taken_of[part.record.id][key]
        self._settle(part.record)

    def admits(self) -> bool:
        """Whether quota lets the job in, given what is taken."""
        record = self._wanting.record
        ceiling = self._tree.ceiling(self._queue, self._wanting.amounts, preemptible=record.job.spec.preemptible)
        return ceiling is None

    def undo(self) -> None:
        """Nothing is taken."""
        for key in tuple(self.taken):
            self.put_back(key)

    # --- who is worth asking ---------------------------------------------------------------------------------

    def is_hopeless(self, node: str, theirs: float) -> bool:
        """Whether nobody below a sibling of `node` has to make way.

        node: the queue or one above it, "" for its own jobs beside the queues below it. theirs: the sibling's share.
        """
        if theirs <= 0:
            return True
        return self._with_job(node) > theirs and not (self._policy.reclaim is not Reclaim.NEVER and self._may_reclaim())

    def reach(self, queue: str) -> int:
        """Jobs of this queue with a priority below this one may have to make way, as things are; 0: none."""
        mine, policy = self._wanting.priority, self._policy
        starves = self._wanting.starves and policy.over_slice is OverSlice.STARVING
        if queue == self._queue:
            return {
                WithinQueue.NEVER: mine + 1 if starves else 0,
                WithinQueue.LOWER_PRIORITY: mine + 1 if starves else mine,
                WithinQueue.LOWER_OR_NEWER_EQUAL: mine + 1,
            }[policy.within_queue]
        opened = self._opened(queue)
        reached = 0
        if opened.reclaim:
            reached = mine if policy.reclaim is Reclaim.LOWER_PRIORITY else ABOVE_ALL
        if opened.fair:
            reached = ABOVE_ALL
        return max(reached, mine + 1) if opened.slice else reached

    # --- inside ----------------------------------------------------------------------------------------------

    def _rule(self, part: Part) -> Rule | None:
        """The rule by which it may be taken now, the strongest claim first."""
        record, wanting, policy = part.record, self._wanting, self._policy
        mine, theirs = wanting.priority, record.job.spec.priority
        starves = wanting.starves and policy.over_slice is OverSlice.STARVING
        if record.queue == self._queue:
            is_newer = theirs == mine and record.routed_seq > wanting.record.routed_seq
            if policy.within_queue is not WithinQueue.NEVER and theirs < mine:
                return Rule.WITHIN_QUEUE
            if policy.within_queue is WithinQueue.LOWER_OR_NEWER_EQUAL and is_newer:
                return Rule.WITHIN_QUEUE
            return Rule.OVER_SLICE if starves and theirs <= mine else None
        opened = self._opened(record.queue)
        if opened.reclaim and (theirs < mine or policy.reclaim is Reclaim.ANY):
            return Rule.RECLAIM
        if opened.fair and FairShareRule.FINAL_SHARE in self.fair_share and self._is_final(part):
            return Rule.FINAL_SHARE
        if opened.slice and theirs <= mine:
            return Rule.OVER_SLICE
        if opened.initial and FairShareRule.INITIAL_SHARE in self.fair_share and not self._is_taken_by_initial(record):
            return Rule.INITIAL_SHARE
        return None

    def _is_taken_by_initial(self, record: JobRecord) -> bool:
        """Whether another job of its queue is taken by the initial share."""
        others = (self._parts[key].record for key, rule in self.taken.items() if rule is Rule.INITIAL_SHARE)
        return any(other.queue == record.queue and other is not record for other in others)

    def _opened(self, queue: str) -> "_Open":
        """Which rules hold for a queue's jobs, as far as that does not depend on the job."""
        opened = self._open.get(queue)
        if opened is None:
            opened = self._open[queue] = self._find_opened(queue)
        return opened

    def _find_opened(self, queue: str) -> "_Open":
        if queue not in self._tree.queues:
            return _CLOSED
        sides, policy = self._sides_of(queue), self._policy
        if not self._borrows(queue, sides):
            return _CLOSED
        reclaim = policy.reclaim is not Reclaim.NEVER and bool(sides.mine)
        reclaim = reclaim and all(map(self._is_within_nominal, sides.mine))
        if sides.apart and self._is_counted(queue):
            return _Open(reclaim, fair=False, initial=False, slice=False)
        node = sides.mine[-1] if sides.mine else ""
        ours, theirs = self._with_job(node), self._share(queue, sides.theirs)
        is_more = self._before[node] < theirs
        fair = is_more and bool(policy.fair_share) and ours <= theirs
        initial = is_more and FairShareRule.INITIAL_SHARE in policy.fair_share and ours < theirs
        starves = self._wanting.starves and policy.over_slice is OverSlice.STARVING
        return _Open(reclaim, fair=fair, initial=initial, slice=starves and ours <= theirs)

    def _sides_of(self, queue: str) -> _Sides:
        sides = self._sides.get(queue)
        if sides is None:
            mine, theirs = self._tree.path(self._queue), self._tree.path(queue)
            common = next((name for name in mine if name in theirs), None)
            if common is None:
                sides = _Sides(mine, theirs, apart=True)
            else:
                sides = _Sides(mine[: mine.index(common)], theirs[: theirs.index(common)], apart=False)
            self._sides[queue] = sides
        return sides

    def _needs(self, queue: str) -> list[str]:
        """Resources by which it is judged whether somebody borrows: those needed that the queue's tree counts.

        If it counts neither GPUs nor, for a job without any, CPU or memory, then what is scarce is not counted, and all
        of that is borrowed.
        """
        counted = [name for name in self._wanting.amounts if self._tree.declares(queue, name)]
        main = self._main()
        return counted if any(name in main for name in counted) else [*counted, *main]

    def _main(self) -> list[str]:
        amounts = self._wanting.amounts
        gpus = [name for name in amounts if name.startswith(GPU)]
        return gpus or [name for name in (CPU, MEMORY) if name in amounts]

    def _is_counted(self, queue: str) -> bool:
        """Whether either side's tree counts what the job needs: trees lend nothing to each other."""
        main, tree = self._main(), self._tree
        return any(tree.declares(one, name) for one in (queue, self._queue) for name in main)

    def _borrows(self, queue: str, sides: _Sides) -> bool:
        if not sides.theirs:
            return True  # its own jobs have no quota beside the queues below it
        needs = self._needs(queue)
        return all(self._tree.is_borrowing(name, needs) for name in sides.theirs)

    def _may_reclaim(self) -> bool:
        """Whether the job stays within its queue's own quota."""
        return self._is_within_nominal(self._queue)

    def _is_within_nominal(self, node: str) -> bool:
        answer = self._within.get(node)
        if answer is None:
            answer = self._within[node] = self._tree.is_within_nominal(node, self._wanting.amounts)
        return answer

    def _share(self, queue: str, side: tuple[str, ...]) -> float:
        """What a side borrows, given what is taken."""
        key = side[-1] if side else f"{queue}/"
        share = self._theirs.get(key)
        if share is None:
            tree = self._tree
            share = tree.share(side[-1]) if side else own_share(tree.queues[queue], tree.capacity)
            self._theirs[key] = share
        return share

    def _with_job(self, node: str) -> float:
        """Our share there with the job, given what is taken."""
        if not self._with:
            preemptible = self._wanting.record.job.spec.preemptible
            self._tree.hold(self._queue, self._wanting.amounts, preemptible=preemptible)
            self._with = shares_up(self._tree, self._queue)
            self._tree.hold(self._queue, self._wanting.amounts, sign=-1, preemptible=preemptible)
        return self._with[node]

    def _is_final(self, part: Part) -> bool:
        """Whether our share with the job is at most theirs without this part."""
        queue, amounts = part.record.queue, self._still_held(part)
        key = (queue, tuple(sorted(amounts.items())))
        answer = self._final.get(key)
        if answer is None:
            sides = self._sides_of(queue)
            ours, tree = self._with_job(sides.mine[-1] if sides.mine else ""), self._tree
            tree.hold(queue, amounts, sign=-1)
            theirs = tree.share(sides.theirs[-1]) if sides.theirs else own_share(tree.queues[queue], tree.capacity)
            answer = self._final[key] = ours <= theirs
            tree.hold(queue, amounts)
        return answer

    def _still_held(self, part: Part) -> Amounts:
        """What the tree would count less if this part were taken besides."""
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
        change = {name: now.get(name, 0) - before.get(name, 0) for name in {**before, **now}}
        self._tree.hold(record.queue, change, sign=-1)
        for known in (self._theirs, self._within, self._open):
            known.clear()
        self._with = {}
        self._final.clear()


class _Open(NamedTuple):
    """Which rules let jobs of a queue be taken, as far as it is the same for all of them."""

    reclaim: bool
    fair: bool
    initial: bool
    slice: bool


_CLOSED = _Open(reclaim=False, fair=False, initial=False, slice=False)
