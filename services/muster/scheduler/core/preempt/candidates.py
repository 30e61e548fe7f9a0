"""Preemption candidates past their time slice, and the work that each would lose.
    lost GPU seconds = gpus * (now - newest checkpoint, or start) + gpus * restart_s

A job that never reported a checkpoint counts as losing the median of the jobs that did, so that hiding checkpoints does
not pay; but never more than it ran.
"""

import heapq
import itertools
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence

from muster.core import Instant, seconds_between
from muster.placement import DEVICE_MILLI, Hold
from muster.placement.relief import Victim
from muster.quota.amounts import held_amounts
from muster.quota.queues import QueueTree
from muster.quota.shares import own_share
from muster.scheduler.core.admit.access import passable
from muster.scheduler.core.preempt.rules import Part, Rules, Wanting
from muster.scheduler.core.preempt.standing import shares_up
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.bookings import Want
from muster.scheduler.core.stores.jobs import JobRecord
from muster.schemas.facts.queue import GPU
from muster.schemas.job import Checkpointing, Slot

CANDIDATES_MAX = 2_048
"""Jobs that are considered for one gang: the jobs of the lowest priorities that lose least."""

RESTART_S = Checkpointing().restart_s
"""Restart time of jobs without `checkpointing`."""

_LEAVING, _SURPLUS, _WHOLE = range(3)


class Candidates:
    """The candidates for the gangs of one decision; `drafted` jobs are left out."""

    def __init__(self, state: State, now: Instant, drafted: Collection[str] = ()) -> None:
        self._state = state
        self.now = now
        self._spoken = drafted
        self._median_s: float | None = None
        self._is_median_known = False
        self._ranks: dict[str, tuple[int, float, str]] = {}
        self._kept_for: dict[str, set[str]] = {}
        self._opens: tuple[str, frozenset[str]] | None = None

    def find(self, wanting: Wanting, reach: Mapping[str, int]) -> dict[str, Part]:
        """Return the parts that the rules may preempt and the parts that leave anyway; empty if there are only the
        latter.

        `reach` maps queues to the priority below which their jobs may be preempted.
        """
        state = self._state
        found = [
            record
            for queue, below in reach.items()
            for job_id in state.runs.expired(queue, below=below)
            if (record := state.jobs.records[job_id]) is not wanting.record and self._is_free(record, wanting)
        ]
        if not found:
            return {}
        if len(found) > CANDIDATES_MAX:
            found = heapq.nsmallest(CANDIDATES_MAX, found, key=self._rank)
        parts: dict[str, Part] = {}
        for record in found:
            parts.update(self._parts_of(record))
        for job_id in state.runs.leaving:
            record = state.jobs.records[job_id]
            if self._is_free(record, wanting):
                parts[job_id] = Part(record, record.counted, record.held_slots, is_leaving=True)
        return parts

    def victims(self, parts: Mapping[str, Part], *, apart: Collection[str] = ()) -> list[Victim]:
        """Return the parts as input of the placement search: first parts that leave anyway, then surplus, then by
        priority.

        Nodes in `apart` are left out.
        """
        victims = []
        for key, part in parts.items():
            record = part.record
            holds = tuple(hold for hold in self._holds(record, part.slots) if hold.slot.node not in apart)
            if part.is_leaving:
                victims.append(Victim(key, holds, (_LEAVING, 0), 0.0))
            elif part.is_whole:
                victims.append(Victim(key, holds, (_WHOLE, record.effective_priority), self.lost(record)))
            else:
                cost = _gpus(part.amounts) * _restart_s(record)
                victims.append(Victim(key, holds, (_SURPLUS, record.effective_priority), cost))
        return victims

    def lost(self, record: JobRecord) -> float:
        """Return the GPU seconds of work that stopping the job would cost."""
        return _gpus(record.counted) * (self.lost_s(record) + _restart_s(record))

    def lost_s(self, record: JobRecord) -> float:
        """Return the seconds of the job's work that would be repeated."""
        lost_s = _since_checkpoint_s(record, self.now)
        median_s = None if record.checkpointed_at else self._median()
        return lost_s if median_s is None else min(lost_s, median_s)

    # --- inside ----------------------------------------------------------------------------------------------

    def _median(self) -> float | None:
        if not self._is_median_known:
            self._is_median_known = True
            records = self._state.jobs.records
            lost = [_since_checkpoint_s(records[job_id], self.now) for job_id in self._state.runs.reporting]
            self._median_s = statistics.median(lost) if lost else None
        return self._median_s

    def _is_free(self, record: JobRecord, wanting: Wanting) -> bool:
        """Return whether the job is not being resized, and its place is not kept for another job."""
        if record.resize is not None or record.id in self._spoken:
            return False
        if not self._state.bookings.all:
            return True
        kept_for = self._kept_for.get(record.id)
        if kept_for is None:
            kept_for = self._kept_for[record.id] = self._find_kept_for(record)
        return not kept_for or kept_for <= self._open_to(wanting.record)

    def _open_to(self, record: JobRecord) -> frozenset[str]:
        """Return the keys of the job's own booking, and of drains that start after the job, if placed now, is gone."""
        known = self._opens
        if known is None or known[0] != record.id:
            keys = passable(self._state.bookings, record, self.now)
            known = self._opens = record.id, frozenset((record.id, *keys))
        return known[1]

    def _find_kept_for(self, record: JobRecord) -> set[str]:
        bookings = self._state.bookings
        return {
            booking.key
            for slot in record.slots
            for booking in bookings.at(slot.node)
            if _overlap(booking.wants[slot.node], slot)
        }

    def _rank(self, record: JobRecord) -> tuple[int, float, str]:
        """Return the sort key of preemption candidates, least first; the same for all gangs of the decision."""
        rank = self._ranks.get(record.id)
        if rank is None:
            rank = self._ranks[record.id] = (record.effective_priority, self.lost(record), record.id)
        return rank

    def _parts_of(self, record: JobRecord) -> dict[str, Part]:
        """Return the job as one part without its surplus replicas, and each surplus replica as a part of its own."""
        surplus = surplus_of(record) if record.job_class.gang.is_elastic else ()
        if not surplus:
            return {record.id: Part(record, record.counted, record.slots)}
        parts: dict[str, Part] = {}
        for slot in surplus:
            amounts = self._amounts(record, (slot,))
            parts[f"{record.id}/{slot.group}/{slot.replica}"] = Part(record, amounts, (slot,), is_whole=False)
        core = tuple(slot for slot in record.slots if slot not in surplus)
        parts[record.id] = Part(record, record.counted, core)
        return parts

    def _amounts(self, record: JobRecord, slots: Sequence[Slot]) -> dict[str, int]:
        return held_amounts(slots, record.job_class.gang, self._state.capacity.model_of)

    def _holds(self, record: JobRecord, slots: Sequence[Slot]) -> tuple[Hold, ...]:
        wanted = {(slot.group, slot.replica) for slot in slots}
        holds = list[Hold]()
        for name in dict.fromkeys(slot.node for slot in slots):
            node = self._state.nodes.get(name)
            if node is not None:
                holds += [h for h in node.entered(record.id) if (h.slot.group, h.slot.replica) in wanted]
        return tuple(holds)


def surplus_of(record: JobRecord) -> tuple[Slot, ...]:
    """Return the slots that an elastic job can run without: the last replicas of each group."""
    surplus = list[Slot]()
    for index, group in enumerate(record.job_class.gang.groups):
        slots = sorted((slot for slot in record.slots if slot.group == index), key=lambda slot: slot.replica)
        surplus += slots[group.replicas_least :]
    return tuple(surplus)


def _since_checkpoint_s(record: JobRecord, now: Instant) -> float:
    return max(0.0, seconds_between(max(record.checkpointed_at, record.running_at), now))


def _restart_s(record: JobRecord) -> float:
    checkpointing = record.job.spec.checkpointing
    return RESTART_S if checkpointing is None else checkpointing.restart_s


def _gpus(amounts: Mapping[str, int]) -> float:
    return amounts.get(GPU, 0) / DEVICE_MILLI


def _overlap(want: Want, slot: Slot) -> bool:
    return want.whole or any(index in slot.devices for index, _ in want.devices)


_CLUSTER = ""
"""The parent of all queues without a parent."""

_OWN = ""
"""A queue's own jobs, among the queue's children."""


class Prospects:
    """Queues with jobs past their time slice, and the lowest priority among these jobs.

    Valid until the usage of the tree changes.
    """

    def __init__(self, tree: QueueTree, expired: Mapping[str, int]) -> None:
        self._tree = tree
        self._expired = {queue: priority for queue, priority in expired.items() if queue in tree.queues}
        self._below: dict[str, dict[str, list[str]]] = {}
        self._shares: dict[tuple[str, str], float] = {}
        self._before: dict[str, dict[str, float]] = {}
        for queue in self._expired:
            path = (*tree.path(queue), _CLUSTER)
            self._below.setdefault(queue, {})[_OWN] = [queue]
            for name, above in itertools.pairwise(path):
                self._below.setdefault(above, {}).setdefault(name, []).append(queue)

    def before(self, queue: str) -> dict[str, float]:
        """Return what the queue and the queues above it borrow now."""
        shares = self._before.get(queue)
        if shares is None:
            shares = self._before[queue] = shares_up(self._tree, queue)
        return shares

    def reach(self, wanting: Wanting, rules: Rules) -> dict[str, int]:
        """Return the queues whose jobs may be preempted, and the priority below which they may be."""
        found = {queue: rules.reach(queue) for queue in self._reachable(wanting, rules)}
        return {queue: below for queue, below in found.items() if self._expired[queue] < below}

    def _reachable(self, wanting: Wanting, rules: Rules) -> Iterator[str]:
        queue = wanting.record.queue
        if self._expired.get(queue, wanting.priority + 1) <= wanting.priority:
            yield queue
        path = (*self._tree.path(queue), _CLUSTER)
        for node, above in ((_OWN, queue), *itertools.pairwise(path)):
            for child, queues in self._below.get(above, {}).items():
                if child != node and not rules.is_hopeless(node, self._share(above, child)):
                    yield from queues

    def _share(self, above: str, child: str) -> float:
        share = self._shares.get((above, child))
        if share is None:
            tree = self._tree
            share = tree.share(child) if child != _OWN else own_share(tree.queues[above], tree.capacity)
            self._shares[above, child] = share
        return share
