"""What could be taken of jobs past their slice, and what each would lose.

    lost GPU seconds = gpus * (now - newest checkpoint, or start) + gpus * restart_s

A job that never reported a checkpoint is taken to lose as much as the median of those that did, so that nobody gains by
hiding them; but never more than it ran.
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
"""Jobs that are considered for one gang: those of the lowest priorities that lose least."""

RESTART_S = Checkpointing().restart_s
"""Of jobs that say nothing about it."""

_LEAVING, _SURPLUS, _WHOLE = range(3)


class Candidates:
    """Parts of jobs for the gangs of one decision. drafted: jobs that are left out."""

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
        """All that the rules may let go, and what leaves for nobody; empty if it is only that.

        reach: queues, and below which priority their jobs may have to make way.
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
        """The parts as the search for a place takes them: what leaves anyway first, then surplus, then by priority.

        apart: nodes of which nothing is to be used.
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
        """GPU seconds of work that stopping it would cost."""
        return _gpus(record.counted) * (self.lost_s(record) + _restart_s(record))

    def lost_s(self, record: JobRecord) -> float:
        """Seconds of its work that would be done again."""
        lost_s = _since_checkpoint_s(record, self.now)
        median_s = None if record.checkpointed_at else self._median()
        return lost_s if median_s is None else min(lost_s, median_s)

    # --- inside ----------------------------------------------------------------------------------------------

    def _median(self) -> float | None:
        """Of running jobs that report checkpoints; None: there are none."""
        if not self._is_median_known:
            self._is_median_known = True
            records = self._state.jobs.records
            lost = [_since_checkpoint_s(records[job_id], self.now) for job_id in self._state.runs.reporting]
            self._median_s = statistics.median(lost) if lost else None
        return self._median_s

    def _is_free(self, record: JobRecord, wanting: Wanting) -> bool:
        """Whether its place is not spoken for: not being resized, nor kept for somebody else when it comes free."""
        if record.resize is not None or record.id in self._spoken:
            return False
        if not self._state.bookings.all:
            return True
        kept_for = self._kept_for.get(record.id)
        if kept_for is None:
            kept_for = self._kept_for[record.id] = self._find_kept_for(record)
        return not kept_for or kept_for <= self._open_to(wanting.record)

    def _open_to(self, record: JobRecord) -> frozenset[str]:
        """Its own booking, and what services want free only when the job, if it starts now, is gone."""
        known = self._opens
        if known is None or known[0] != record.id:
            keys = passable(self._state.bookings, record, self.now)
            known = self._opens = record.id, frozenset((record.id, *keys))
        return known[1]

    def _find_kept_for(self, record: JobRecord) -> set[str]:
        """For whom its place is kept when it comes free."""
        bookings = self._state.bookings
        return {
            booking.key
            for slot in record.slots
            for booking in bookings.at(slot.node)
            if _overlap(booking.wants[slot.node], slot)
        }

    def _rank(self, record: JobRecord) -> tuple[int, float, str]:
        """Who is rather considered, the least first; the same for all gangs of the decision."""
        rank = self._ranks.get(record.id)
        if rank is None:
            rank = self._ranks[record.id] = (record.effective_priority, self.lost(record), record.id)
        return rank

    def _parts_of(self, record: JobRecord) -> dict[str, Part]:
        """The job as a whole, less the replicas that it can run without, each of which is a part of its own."""
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
        """What these slots hold in the fleet; nothing on nodes that are not part of the cluster."""
        wanted = {(slot.group, slot.replica) for slot in slots}
        holds = list[Hold]()
        for name in dict.fromkeys(slot.node for slot in slots):
            node = self._state.nodes.get(name)
            if node is not None:
                holds += [h for h in node.entered(record.id) if (h.slot.group, h.slot.replica) in wanted]
        return tuple(holds)


def surplus_of(record: JobRecord) -> tuple[Slot, ...]:
    """Slots of an elastic job that it can run without: of each group the last replicas."""
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
"""Stands above all queues without a parent."""

_OWN = ""
"""Stands among the children of a queue for its own jobs."""


class Prospects:
    """Queues with jobs past their slice. expired: these, and the lowest priority among their jobs.

    Holds as long as the tree's sums do.
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
        """What the queue and those above it borrow now."""
        shares = self._before.get(queue)
        if shares is None:
            shares = self._before[queue] = shares_up(self._tree, queue)
        return shares

    def reach(self, wanting: Wanting, rules: Rules) -> dict[str, int]:
        """Queues whose jobs may have to make way, and below which priority these have to be."""
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
