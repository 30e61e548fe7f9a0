"""Which blocked lanes have somebody who must be told why, now or later."""

import heapq

from muster.core import Instant
from muster.scheduler.core.jobs import JobRecord, Kind
from muster.scheduler.core.lanes import Lane


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
