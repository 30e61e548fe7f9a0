"""The second pass of placements: jobs that find room only where it is kept for others, and will be gone in time.

Lanes that fell short are sorted by what their first job may open (see `access`); behind one door after the other the
ordinary search goes on with these bookings open, those who may open least first. Nothing is looked at while nothing
moved; otherwise a pass is followed by a pause in proportion to what it opened, and so takes a small part of the time.
"""

import heapq
from collections.abc import Callable, Iterator
from functools import partial

from muster.core import Draft, Instant
from muster.scheduler.core.access import Access, Door
from muster.scheduler.core.jobs import JobRecord
from muster.scheduler.core.placements import Placements
from muster.scheduler.core.remains import Remains
from muster.scheduler.core.state import State
from muster.scheduler.core.waiting import Lane

TRIES_MAX = 256
"""Gangs tried by one decision, placed or not."""

PAUSE_PER_NODE_NS, PAUSE_PER_LANE_NS = 400_000, 20_000
"""Pause after a pass, for each node that was opened and each lane that was looked at: twenty times what it takes."""


class Backfill:
    """Places jobs where others have booked. What it remembers only saves work."""

    def __init__(self, state: State, remains: Remains, placements: Placements) -> None:
        self._state = state
        self._remains = remains
        self._placements = placements
        self._tries = TRIES_MAX
        self._seen = (-1, -1)
        self._at = Instant(-1)
        self._resume_at = Instant(0)

    def make(self, now: Instant, drafts: list[Draft], placed: set[str]) -> None:
        """Add `placed` for jobs that may open bookings, and the jobs to `placed`."""
        state = self._state
        bookings = state.books.bookings
        if not bookings.all or not state.line.lanes or self._remains.more:
            return
        news = (state.moves, bookings.grown)
        if news == self._seen and now != self._at and not self._opens_by_time(now):
            return
        if now != self._at and now < self._resume_at:
            self._remains.wait_until(self._resume_at)
            return
        self._seen, self._at = news, now
        access = Access(bookings, state.queues, now)
        if not access.is_empty:
            self._pass(access, now, drafts, placed)

    def _opens_by_time(self, now: Instant) -> bool:
        """Whether an advance reservation began since the last pass: those it is for may open it now."""
        bookings = self._state.books.bookings.all.values()
        return any(self._at < booking.starts_at <= now for booking in bookings if booking.is_reservation)

    def _pass(self, access: Access, now: Instant, drafts: list[Draft], placed: set[str]) -> None:
        state = self._state
        doors: dict[Door, _Heap] = {}
        lanes = 0
        for lane, at in self._short(placed):
            lanes += 1
            door = access.door(state.jobs.records[lane.jobs[at][1]])
            if door is not None:
                doors.setdefault(door, []).append((lane.jobs[at][0], lane.number, lane, at))
        self._tries, nodes = TRIES_MAX, 0
        for door in sorted(doors, reverse=True):
            keys = access.keys(door)
            nodes += access.nodes(keys, state.books.bookings)
            with state.books.bookings.opened(keys):
                for record in self._serve(doors[door], drafts, partial(_has, access, door)):
                    placed.add(record.id)
            if not self._tries:
                self._remains.more = True
                break
        self._resume_at = Instant(now + nodes * PAUSE_PER_NODE_NS + lanes * PAUSE_PER_LANE_NS)

    def _short(self, placed: set[str]) -> Iterator[tuple[Lane, int]]:
        """Lanes for which there is no room, with the place of the first job that waits on."""
        for lane in self._state.line.lanes.values():
            if lane.short is not None:
                at = next((at for at, entry in enumerate(lane.jobs) if entry[1] not in placed), None)
                if at is not None:
                    yield lane, at

    def _serve(self, heads: "_Heap", drafts: list[Draft], may_open: Callable[[JobRecord], bool]) -> Iterator[JobRecord]:
        """Place the first of these that fits and may be where it is open, again and again."""
        state = self._state
        heapq.heapify(heads)
        while heads and self._tries:
            _, number, lane, at = heapq.heappop(heads)
            if lane.short is None or not state.books.fleet.rooms.has_room(lane.short.watch):
                continue
            record = state.jobs.records[lane.jobs[at][1]]
            if not may_open(record):
                continue
            self._tries -= 1
            if self._placements.place(record, lane, drafts):
                yield record
                if at + 1 < len(lane.jobs):
                    heapq.heappush(heads, (lane.jobs[at + 1][0], number, lane, at + 1))


def _has(access: Access, door: Door, record: JobRecord) -> bool:
    """Whether this is the door of the job: others of its lane may have more grace, or a booking of their own."""
    return access.door(record) == door


_Heap = list[tuple[tuple[int, int], int, Lane, int]]
