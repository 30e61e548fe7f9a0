"""Lanes for which the fleet has no room, and when to try them again: when the placement engine counts room for them."""

from collections.abc import Iterator

from muster.core import Instant
from muster.placement.rooms import Rooms, Watch
from muster.scheduler.core.jobs import Kind
from muster.scheduler.core.lanes import InLine, Lane
from muster.scheduler.core.reasons import Blocked


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


class Shorts:
    """All lanes that fell short. hopes: kinds for which there may be room again."""

    def __init__(self, rooms: Rooms) -> None:
        self.hopes: dict[Watch, Short] = {}
        self._rooms = rooms
        self._of_kind: dict[Kind, Short] = {}
        self._of_watch: dict[Watch, Short] = {}
        self._of_queue: dict[str, InLine] = {}

    def of_kind(self, kind: Kind) -> Short | None:
        """What is known of the lanes of one kind, if one fell short."""
        return self._of_kind.get(kind)

    def add(self, lane: Lane) -> Short:
        """The lane, which is not empty, fell short; or it did already."""
        short = self._of_kind.get(lane.kind)
        if short is None:
            watch = self._rooms.watch(lane.kind.gang)
            short = self._of_kind[lane.kind] = self._of_watch[watch] = Short(lane.kind, watch)
        if lane.queue not in short.lanes:
            short.lanes[lane.queue] = lane
            self._of_queue.setdefault(lane.queue, InLine()).add(lane)
        return short

    def remove(self, lane: Lane, short: Short) -> None:
        """It is no longer so."""
        del short.lanes[lane.queue]
        in_line = self._of_queue[lane.queue]
        in_line.remove(lane)
        if not in_line:
            del self._of_queue[lane.queue]
        if not short.lanes:
            self._rooms.unwatch(short.watch)
            del self._of_kind[short.kind], self._of_watch[short.watch]
            self.hopes.pop(short.watch, None)

    def refile(self, lane: Lane) -> None:
        """Another job may be the first of the lane."""
        self._of_queue[lane.queue].refile(lane)

    def hope(self, *, for_all: bool) -> None:
        """Find the kinds for which there is room, among all of them or among those that were found last."""
        among = self._of_watch if for_all else self.hopes
        found = self._rooms.hopeful(None if for_all else among) if among else ()
        self.hopes = {watch: among[watch] for watch in found}

    def has_room(self, short: Short) -> bool:
        """Whether there is room for lanes of this kind now."""
        return self._rooms.has_room(short.watch)

    def hopeful(self) -> Iterator[tuple[str, Iterator[Lane]]]:
        """Queues with lanes for which there may be room, and those lanes, the first in line first.

        The lanes are found one by one, when they are asked for: those are left out for which hope was given up by then.
        """
        queues = dict[str, Lane]()
        for short in self.hopes.values():
            queues.update(short.lanes)
        for queue in queues:
            yield queue, self._hopeful(self._of_queue[queue])

    def _hopeful(self, in_line: InLine) -> Iterator[Lane]:
        for _, _, lane in in_line.lanes().copy():
            if not self.hopes:
                return
            if lane.short is not None and lane.short.watch in self.hopes:
                yield lane
