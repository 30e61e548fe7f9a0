"""Who waits, in lanes: jobs of one queue that ask for the same, in the order in which they came.

If the first of a lane cannot run, none behind it can, so a lane is judged by its first job and then left alone until
what stopped it may be over: room for such a gang (which the placement engine counts for all that wait), or quota for it
(`caps`). Thousands of waiting jobs cost nothing while nothing changes, and little when
something does. Why a lane waits is put into words only when somebody has to be told.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator

from muster.core import Instant
from muster.placement.rooms import Rooms
from muster.quota.queues import QueueTree
from muster.scheduler.core.stores.jobs import JobRecord, Kind
from muster.scheduler.core.stores.pending_queue import Cap, Caps, Lane, Shorts, entry_of


class Telling:
    """lanes: all of them. to_explain: blocked lanes whose jobs may have to be told something; epoch: grows when words
    may have changed. is_out_of_date: so it did since somebody last asked about all.
    """

    def __init__(self) -> None:
        self.lanes: dict[tuple[str, Kind], Lane] = {}
        self.to_explain: dict[Lane, None] = {}
        self.epoch = 0
        self.is_out_of_date = False
        self._explained: dict[Lane, None] = {}
        self._later: list[tuple[int, int, Lane]] = []

    def tell(self, record: JobRecord) -> None:
        """The job has to be told why it waits, if it does."""
        lane = self.lanes.get((record.queue, record.kind))
        if lane is not None:
            lane.untold[record.id] = None
            if lane.is_blocked:
                self._ask_word(lane)

    def told(self, record: JobRecord) -> None:
        """The job was told."""
        lane = self.lanes.get((record.queue, record.kind))
        if lane is not None:
            lane.untold.pop(record.id, None)

    def wake(self, now: Instant) -> None:
        """Lanes that were put off until now are asked about again."""
        while self._later and self._later[0][0] <= now:
            due, _, lane = heapq.heappop(self._later)
            if lane.due == due:
                lane.due = 0
                self.to_explain[lane] = None

    def put_off(self, lane: Lane, due: Instant) -> None:
        """Ask about this lane again when it is due."""
        del self.to_explain[lane]
        if lane.due != due:
            lane.due = due
            heapq.heappush(self._later, (due, lane.number, lane))

    def explained(self, lane: Lane) -> None:
        """Everybody in the lane knows; ask again when something changed."""
        del self.to_explain[lane]
        if lane.is_blocked:
            self._explained[lane] = None

    def ask_again(self) -> None:
        """What those were told who know may be out of date."""
        self.to_explain.update(self._explained)
        self._explained.clear()
        self.is_out_of_date = False

    def next_due(self) -> Instant | None:
        """When the first of those that were put off is due."""
        while self._later and self._later[0][2].due != self._later[0][0]:
            heapq.heappop(self._later)
        return Instant(self._later[0][0]) if self._later else None

    # --- for who keeps the lanes ---------------------------------------------------------------------------

    def _ask_word(self, lane: Lane) -> None:
        """Why it waits may be something else now."""
        self._explained.pop(lane, None)
        lane.due = 0
        self.to_explain[lane] = None

    def _forget_word(self, lane: Lane) -> None:
        """Nobody waits there any more."""
        self.to_explain.pop(lane, None)
        self._explained.pop(lane, None)
        lane.due = 0

    def _new_epoch(self) -> None:
        """Anything that was said may be out of date."""
        self.epoch += 1
        self.is_out_of_date = bool(self._explained)


class Line(Telling):
    """All lanes.

    open: lanes worth trying, never judged or judged by what is over. unfinished: the last decision left lanes untried.
    """

    def __init__(self, rooms: Rooms, tree: QueueTree) -> None:
        super().__init__()
        self._tree = tree
        self._caps = Caps()
        self._shorts = Shorts(rooms)
        self.open: dict[Lane, None] = {}
        self.unfinished = False
        self._is_reopened = False
        self._judged: dict[Lane, None] = {}
        self._numbers = 0
        self._version = -1
        self._withdrawn = 0
        self._generation = -1

    # --- who waits ---------------------------------------------------------------------------------------

    def add(self, record: JobRecord) -> None:
        """The job waits, at its place in line."""
        key = (record.queue, record.kind)
        lane = self.lanes.get(key)
        if lane is None:
            self._numbers += 1
            lane = self.lanes[key] = Lane(record.queue, record.kind, number=self._numbers)
            self.open[lane] = None
        entry = entry_of(record)
        if not lane.jobs or lane.jobs[-1] < entry:
            lane.jobs.append(entry)
        elif not lane.stands(entry):
            insort(lane.jobs, entry)
            self._refile(lane)

    def remove(self, record: JobRecord) -> None:
        """The job no longer waits."""
        lane = self.lanes.get((record.queue, record.kind))
        entry = entry_of(record)
        if lane is None or not lane.stands(entry):
            return
        del lane.jobs[bisect_left(lane.jobs, entry)]
        lane.untold.pop(record.id, None)
        if not lane.jobs:
            self._unblock(lane)
            del self.lanes[record.queue, record.kind]
            self.open.pop(lane, None)
            self._forget_word(lane)
        elif lane.is_blocked:
            self._refile(lane)
            self._ask_word(lane)  # another one may be first now

    def lane_of(self, record: JobRecord) -> Lane | None:
        """Where the job waits; None if it does not."""
        lane = self.lanes.get((record.queue, record.kind))
        return lane if lane is not None and lane.stands(entry_of(record)) else None

    # --- who is worth trying -----------------------------------------------------------------------------

    def refresh(self, *, version: int, withdrawn: int, generation: int) -> None:
        """Find the lanes whose obstacle may be gone.

        version: the fleet's. withdrawn: how many proposals were ever taken back. generation: of jobs, queues and nodes.
        """
        if self._is_reopened:
            self._is_reopened = False
            for lane in self.lanes.values():
                self._reopen(lane)
            self._new_epoch()
        judged, self._judged = self._judged, {}
        if withdrawn != self._withdrawn:  # the same is decided again, so it starts from what was not known then
            for lane in judged:
                if lane.is_blocked:
                    self._reopen(lane)
        self._reopen_restless(generation, withdrawn)
        relieved = self._tree.relieved
        is_news = version != self._version or withdrawn != self._withdrawn or bool(relieved) or self.unfinished
        if not is_news:
            self._shorts.hopes = {}
            self._caps.relieve((), self._tree)
            return
        if withdrawn != self._withdrawn:
            self._caps.relieve_all(self._tree)
        else:
            self._caps.relieve(relieved, self._tree)
        self._shorts.hopes = {}
        if version != self._version or self.unfinished:
            self._shorts.hope(for_all=True)
        self._version, self._withdrawn, self.unfinished = version, withdrawn, False
        relieved.clear()
        self._new_epoch()

    def worth_trying(self) -> Iterator[tuple[str, Iterator[Lane]]]:
        """Queues with lanes for which there may be room or quota again, and such lanes, the first in line first.

        Of lanes that come together each is worth trying only if the one before it was.
        """
        yield from self._shorts.hopeful()
        yield from self._caps.hopeful_lanes()

    def narrow(self) -> None:
        """Give up the hopes that the placements since `refresh` took."""
        self._shorts.hope(for_all=False)

    @property
    def has_room_for_any(self) -> bool:
        """Whether there may be room for any of the lanes that fell short."""
        return bool(self._shorts.hopes)

    def reopen_queue(self, queue: str) -> None:
        """Try the lanes of a queue that just came."""
        for lane in self._caps.of_queue(queue):
            self._reopen(lane)

    def reopen(self) -> None:
        """Try all lanes again at the next `refresh`, whatever stopped them."""
        self._is_reopened = True

    def may_fit(self, lane: Lane) -> bool:
        """Whether it is worth trying: not if there is too little room or quota for it, or it was just refused."""
        cap = lane.cap
        if cap is not None and cap.resource:
            left = self._tree.available(lane.queue, cap.resource, preemptible=lane.kind.preemptible)
            return left >= cap.need
        short = lane.short or self._shorts.of_kind(lane.kind)
        if short is None:
            return True
        if short.refused == self._version:
            return False
        return lane.short is None or self._shorts.has_room(short)

    def fall_short(self, lane: Lane, *, tried: bool = True) -> None:
        """The fleet has no room for the lane's first job."""
        if lane.short is None:
            self._unblock(lane)
            lane.short = self._shorts.add(lane)
            self._blocked(lane)
        if tried:
            lane.short.refused = self._version

    def exhausted(self, lane: Lane) -> None:
        """All that wait in the lane found room; who comes before that is folded may find some, too."""
        if lane.is_blocked:
            self._reopen(lane)

    def run_into(self, lane: Lane, cap: Cap) -> None:
        """The lane's first job would break a quota, or its queue is not there."""
        self._unblock(lane)
        lane.cap = cap
        self._caps.add(lane, cap, self._tree)
        self._blocked(lane)

    def has_turn(self, lane: Lane) -> bool:
        """Whether a lane that fell short has room now and is yet to be tried."""
        short = lane.short
        if short is None or not self._shorts.has_room(short):
            return False
        return short.refused != self._version or len(lane.kind.gang.groups) == 1

    # --- inside ------------------------------------------------------------------------------------------

    def _reopen_restless(self, generation: int, withdrawn: int) -> None:
        """Try again whom another place may help: which place is found changes with what is taken, too."""
        is_news, self._generation = generation != self._generation, generation
        if not is_news and withdrawn == self._withdrawn:
            return
        for lane in self._caps.restless():
            if is_news or (lane.cap is not None and lane.cap.is_provisional):
                self._reopen(lane)

    def _blocked(self, lane: Lane) -> None:
        lane.held_up = True
        self._judged[lane] = None
        lane.word_epoch = -1
        self.open.pop(lane, None)
        self._ask_word(lane)

    def _reopen(self, lane: Lane) -> None:
        self._unblock(lane)
        self.open[lane] = None

    def _unblock(self, lane: Lane) -> None:
        short, cap = lane.short, lane.cap
        lane.short = lane.cap = None
        if short is not None:
            self._shorts.remove(lane, short)
        if cap is not None:
            self._caps.remove(lane, cap)

    def _refile(self, lane: Lane) -> None:
        if lane.short is not None:
            self._shorts.refile(lane)
        elif lane.cap is not None:
            self._caps.refile(lane, lane.cap)
