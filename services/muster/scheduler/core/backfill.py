"""The second pass of placements: jobs that find room only where it is kept for others, and will be gone in time.

Lanes that fell short are sorted by what their first job may open (see `access`); behind one door after the other the
ordinary search goes on with these bookings open, those who may open least first. Nothing is looked at while nothing
moved; otherwise a pass is followed by a pause in proportion to what it opened, and so takes a small part of the time.
"""

import heapq
from collections.abc import Callable, Iterator
from functools import partial

from muster.core import Draft, Instant
from muster.placement.rooms import Watch
from muster.scheduler.core.access import Access, Door
from muster.scheduler.core.jobs import JobRecord
from muster.scheduler.core.placements import Placements
from muster.scheduler.core.remains import Remains
from muster.scheduler.core.state import State
from muster.scheduler.core.turns import Place, Turns
from muster.scheduler.core.waiting import Lane

TRIES_MAX = 256
"""Gangs tried by one decision, placed or not."""

PAUSE_PER_NODE_NS, PAUSE_PER_LANE_NS = 600_000, 100_000
"""Pause after a pass, for each node that was opened and each lane that was looked at: ten times what it takes."""


class Backfill:
    """Places jobs where others have booked. What it remembers only saves work."""

    def __init__(self, state: State, remains: Remains, placements: Placements) -> None:
        self._state = state
        self._remains = remains
        self._placements = placements
        self._tries = TRIES_MAX
        self._grown = -1
        self._moves = -1
        self._judged: frozenset[Lane] = frozenset()
        self._at = Instant(-1)
        self._folded = -1
        self._has_placed = False
        self._resume_at = Instant(0)

    def make(self, now: Instant, drafts: list[Draft], placed: set[str]) -> None:
        """Add `placed` for jobs that may open bookings, and the jobs to `placed`."""
        state = self._state
        bookings = state.books.bookings
        if not bookings.all or not state.line.lanes or self._remains.more:
            return
        is_again = (state.folded, now) == (self._folded, self._at)
        if not (self._has_placed if is_again else self._is_news(now)):
            return
        if not is_again and now < self._resume_at:
            self._remains.wait_until(self._resume_at)
            return
        self._folded, self._at = state.folded, now
        self._moves, self._grown = state.moves, bookings.grown
        self._judged = frozenset(self._short())
        access = Access(bookings, state.queues, now)
        before = len(placed)
        if not access.is_empty:
            self._pass(access, now, drafts, placed)
        self._has_placed = len(placed) > before

    # --- when ------------------------------------------------------------------------------------------------

    def _is_news(self, now: Instant) -> bool:
        """Whether more is kept than at the last pass, or lanes fell short since, or a reservation began."""
        bookings = self._state.books.bookings
        if bookings.grown != self._grown:
            return True
        if self._state.moves != self._moves:
            self._moves = self._state.moves
            if not self._judged.issuperset(self._short()):
                return True
        return any(self._at < booking.starts_at <= now for booking in bookings.all.values() if booking.is_reservation)

    def _short(self) -> Iterator[Lane]:
        """Lanes for which there is no room."""
        return (lane for lane in self._state.line.lanes.values() if lane.short is not None)

    # --- who -------------------------------------------------------------------------------------------------

    def _pass(self, access: Access, now: Instant, drafts: list[Draft], placed: set[str]) -> None:
        state, bookings = self._state, self._state.books.bookings
        doors: dict[Door, _Heads] = {}
        lanes, nodes = self._hopeful(placed), access.nodes(bookings.all, bookings)
        for lane, at in lanes:
            door = access.door(state.jobs.records[lane.jobs[at][1]])
            if door is not None:
                heads = doors.setdefault(door, {}).setdefault(lane.queue, [])
                heads.append((lane.jobs[at][0], lane.number, lane, at))
        self._tries = TRIES_MAX
        for door in sorted(doors, reverse=True):
            keys = access.keys(door)
            nodes += access.nodes(keys, bookings)
            with bookings.opened(keys):
                turns = Turns(state.queues, now)
                for record in self._serve(doors[door], turns, drafts, partial(_has, access, door)):
                    placed.add(record.id)
            if not self._tries:
                self._remains.more = True
                break
        self._resume_at = Instant(now + nodes * PAUSE_PER_NODE_NS + len(lanes) * PAUSE_PER_LANE_NS)

    def _hopeful(self, placed: set[str]) -> list[tuple[Lane, int]]:
        """Lanes for which there would be room if nothing were kept, with the place of the first job that waits on."""
        books, found = self._state.books, list[tuple[Lane, int]]()
        by_watch: dict[Watch, list[Lane]] = {}
        for lane in self._judged:
            if lane.short is not None:
                by_watch.setdefault(lane.short.watch, []).append(lane)
        with books.bookings.opened(books.bookings.all):
            watches = books.fleet.rooms.hopeful(by_watch)
        for lane in (lane for watch in watches for lane in by_watch[watch]):
            at = next((at for at, entry in enumerate(lane.jobs) if entry[1] not in placed), None)
            if at is not None:
                found.append((lane, at))
        return found

    def _serve(
        self, heads: "_Heads", turns: Turns, drafts: list[Draft], may_open: Callable[[JobRecord], bool]
    ) -> Iterator[JobRecord]:
        """Queues take turns, as they always do: the first of their jobs that fits and may be where it is open."""
        state = self._state
        for queue, heap in heads.items():
            heapq.heapify(heap)
            _offer(turns, queue, heap)
        while self._tries and (queue := turns.next()):
            heap = heads[queue]
            _, number, lane, at = heapq.heappop(heap)
            record = state.jobs.records[lane.jobs[at][1]]
            is_hopeful = lane.short is not None and state.books.fleet.rooms.has_room(lane.short.watch)
            if is_hopeful and may_open(record):
                self._tries -= 1
                if self._placements.place(record, lane, drafts):
                    yield record
                    if at + 1 < len(lane.jobs):
                        heapq.heappush(heap, (lane.jobs[at + 1][0], number, lane, at + 1))
            _offer(turns, queue, heap)


def _has(access: Access, door: Door, record: JobRecord) -> bool:
    """Whether this is the door of the job: others of its lane may have more grace, or a booking of their own."""
    return access.door(record) == door


def _offer(turns: Turns, queue: str, heap: "list[_Head]") -> None:
    """The queue offers the first of these."""
    if heap:
        turns.offer(queue, heap[0][0], heap[0][2].kind.amounts)
    else:
        turns.leave(queue)


_Head = tuple[Place, int, Lane, int]
"""The first job of a lane: place in line, number of the lane, the lane, the job's place in it."""

_Heads = dict[str, list[_Head]]
"""By queue."""
