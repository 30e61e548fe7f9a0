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
from muster.placement.rooms import Rooms, Watch
from muster.scheduler.core.caps import Cap, Caps
from muster.scheduler.core.jobs import JobRecord, Kind
from muster.scheduler.core.queues import QueueTree
from muster.scheduler.core.reasons import Blocked
from muster.scheduler.core.turns import Place


class Short:
    """Lanes of one kind, by queue, for which there is no room. refused: the fleet's version when that was tried.

    word: why, found when the line's epoch was `word_epoch`, and not looked for again before `word_until`.
    """

    __slots__ = ("kind", "lanes", "refused", "watch", "word", "word_epoch", "word_until")

    def __init__(self, kind: Kind, watch: Watch) -> None:
        self.kind = kind
        self.watch = watch
        self.lanes: dict[str, Lane] = {}
        self.refused = -2
        self.word: Blocked | None = None
        self.word_epoch = -1
        self.word_until = Instant(0)


Entry = tuple[Place, str]
"""A job that waits: its place in line, and its id."""


def entry_of(record: JobRecord) -> Entry:
    """Where the job stands in its lane."""
    return (record.rank, record.routed_seq), record.id


class Lane:
    """jobs: ascending, by rank and then by when they came. short, cap: why its first job cannot run; neither while that
    is not known.

    untold: jobs that were never told why they wait. held_up: it was blocked since it was last empty.
    word: what was said last about why it waits, found when the line's `epoch` was `word_epoch`.
    """

    __slots__ = ("cap", "due", "held_up", "jobs", "kind", "number", "queue", "short", "untold", "word", "word_epoch")

    def __init__(self, queue: str, kind: Kind, *, number: int) -> None:
        self.queue = queue
        self.kind = kind
        self.number = number
        self.jobs: list[Entry] = []
        self.untold: dict[str, None] = {}
        self.held_up = False
        self.short: Short | None = None
        self.cap: Cap | None = None
        self.word: Blocked | None = None
        self.word_epoch = -1
        self.due = 0

    @property
    def is_blocked(self) -> bool:
        """Whether it was judged, and its first job could not run."""
        return self.short is not None or self.cap is not None


class Line:
    """All lanes.

    open: lanes worth trying, never judged or judged by what is over. hopes: kinds for which there may be room again.
    unfinished: the last decision left lanes untried.
    to_explain: blocked lanes whose jobs may have to be told something; epoch: grows when words may have changed.
    is_out_of_date: so it did since somebody last asked about all.
    """

    def __init__(self, rooms: Rooms, tree: QueueTree) -> None:
        self._rooms = rooms
        self._tree = tree
        self._caps = Caps()
        self.lanes: dict[tuple[str, Kind], Lane] = {}
        self.open: dict[Lane, None] = {}
        self.hopes: dict[Watch, Short] = {}
        self.unfinished = False
        self.to_explain: dict[Lane, None] = {}
        self.epoch = 0
        self.is_out_of_date = False
        self._short: dict[Kind, Short] = {}
        self._shorts: dict[Watch, Short] = {}
        self._explained: dict[Lane, None] = {}
        self._later: list[tuple[int, int, Lane]] = []
        self._numbers = 0
        self._version = -1
        self._withdrawn = 0
        self._freed = -1

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
        elif not self._stands(lane, entry):
            insort(lane.jobs, entry)
            if lane.cap is not None:
                self._caps.refile(lane, lane.cap)

    def remove(self, record: JobRecord) -> None:
        """The job no longer waits."""
        lane = self.lanes.get((record.queue, record.kind))
        entry = entry_of(record)
        if lane is None or not self._stands(lane, entry):
            return
        del lane.jobs[bisect_left(lane.jobs, entry)]
        lane.untold.pop(record.id, None)
        if lane.jobs and lane.cap is not None:
            self._caps.refile(lane, lane.cap)
        if not lane.jobs:
            self._unblock(lane)
            del self.lanes[record.queue, record.kind]
            for group in (self.open, self.to_explain, self._explained):
                group.pop(lane, None)
            lane.due = 0
        elif lane.is_blocked:
            self._ask_word(lane)  # another one may be first now

    def lane_of(self, record: JobRecord) -> Lane | None:
        """Where the job waits; None if it does not."""
        lane = self.lanes.get((record.queue, record.kind))
        return lane if lane is not None and self._stands(lane, entry_of(record)) else None

    # --- who is worth trying -----------------------------------------------------------------------------

    def refresh(self, *, version: int, withdrawn: int, freed: int) -> None:
        """Find the lanes whose obstacle may be gone.

        version: the fleet's. withdrawn: how many proposals were ever taken back. freed: by which fact something came
        free last.
        """
        relieved = self._tree.relieved
        is_news = version != self._version or withdrawn != self._withdrawn or bool(relieved) or self.unfinished
        self.hopes = {}
        if not is_news:
            self._caps.relieve((), self._tree)
            return
        if withdrawn != self._withdrawn:
            self._caps.relieve_all(self._tree)
        else:
            self._caps.relieve(relieved, self._tree)
        for lane in self._caps.restless():
            assert lane.cap is not None
            if freed != self._freed or (lane.cap.is_provisional and withdrawn != self._withdrawn):
                self._reopen(lane)
        if version != self._version or self.unfinished:
            self.hopes = {watch: self._shorts[watch] for watch in self._rooms.hopeful()} if self._shorts else {}
        self._version, self._withdrawn, self._freed, self.unfinished = version, withdrawn, freed, False
        relieved.clear()
        self._new_epoch()

    def worth_trying(self) -> Iterator[Lane]:
        """Lanes that were never judged, or for which there may be room again."""
        yield from self.open
        for short in self.hopes.values():
            yield from short.lanes.values()

    def enough_for(self) -> Iterator[list[Lane]]:
        """Lanes for which quota may be enough again: of one queue and of equal need, the first in line first."""
        return self._caps.hopes()

    def narrow(self) -> None:
        """Give up the hopes that the placements since `refresh` took."""
        self.hopes = {watch: self.hopes[watch] for watch in self._rooms.hopeful(self.hopes)} if self.hopes else {}

    def reopen_queue(self, queue: str) -> None:
        """Try the lanes of a queue that just came."""
        for lane in self._caps.of_queue(queue):
            self._reopen(lane)

    def reopen(self) -> None:
        """Try all lanes again, whatever stopped them."""
        for lane in self.lanes.values():
            self._reopen(lane)
        self._new_epoch()

    def may_fit(self, lane: Lane) -> bool:
        """Whether it is worth trying: not if there is too little room or quota for it, or it was just refused."""
        cap = lane.cap
        if cap is not None and cap.resource:
            left = self._tree.available(lane.queue, cap.resource, preemptible=lane.kind.preemptible)
            return left >= cap.need
        short = lane.short or self._short.get(lane.kind)
        if short is None:
            return True
        if short.refused == self._version:
            return False
        return lane.short is None or self._rooms.has_room(short.watch)

    def fall_short(self, lane: Lane, *, tried: bool = True) -> None:
        """The fleet has no room for the lane's first job."""
        short = self._short.get(lane.kind)
        if short is None:
            watch = self._rooms.watch(lane.kind.gang)
            short = self._short[lane.kind] = self._shorts[watch] = Short(lane.kind, watch)
        if tried:
            short.refused = self._version
        if lane.short is None:
            self._unblock(lane)
            lane.short = short
            short.lanes[lane.queue] = lane
            self._blocked(lane)

    def run_into(self, lane: Lane, cap: Cap) -> None:
        """The lane's first job would break a quota, or its queue is not there."""
        self._unblock(lane)
        lane.cap = cap
        self._caps.add(lane, cap, self._tree)
        self._blocked(lane)

    def has_turn(self, lane: Lane) -> bool:
        """Whether a lane that fell short has room now and is yet to be tried."""
        short = lane.short
        if short is None or not self._rooms.has_room(short.watch):
            return False
        return short.refused != self._version or len(lane.kind.gang.groups) == 1

    # --- who must be told --------------------------------------------------------------------------------

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

    # --- inside ------------------------------------------------------------------------------------------

    def _ask_word(self, lane: Lane) -> None:
        self._explained.pop(lane, None)
        lane.due = 0
        self.to_explain[lane] = None

    def _blocked(self, lane: Lane) -> None:
        lane.held_up = True
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
            del short.lanes[lane.queue]
            if not short.lanes:
                self._rooms.unwatch(short.watch)
                del self._short[short.kind], self._shorts[short.watch]
                self.hopes.pop(short.watch, None)
        if cap is not None:
            self._caps.remove(lane, cap)

    def _new_epoch(self) -> None:
        self.epoch += 1
        self.is_out_of_date = bool(self._explained)

    @staticmethod
    def _stands(lane: Lane, entry: Entry) -> bool:
        at = bisect_left(lane.jobs, entry)
        return at < len(lane.jobs) and lane.jobs[at] == entry
