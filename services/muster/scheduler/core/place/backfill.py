"""The second pass of placements: jobs that find room only where it is kept for others, and will be gone in time.

Lanes that fell short are sorted by what their first job may open (see `access`); behind one door after the other the
ordinary search goes on with these bookings open, those who may open least first. Nothing is looked at while nothing
moved, and otherwise as often as what is opened allows.
"""

from collections.abc import Iterator
from functools import partial

from muster.core import Draft, Instant
from muster.placement.rooms import Watch
from muster.scheduler.core.admit.access import Access, Door
from muster.scheduler.core.place.placements import Placements
from muster.scheduler.core.queue.fair_share import Heads, add_head, next_in_line, rounds
from muster.scheduler.core.requeue import Pace, Remains
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.core.stores.pending_queue import Lane

TRIES_MAX = 256
"""Gangs tried by one decision, placed or not."""

LOOKS_BURST, LOOKS_PER_S = 4_096, 2_048
"""Nodes opened and lanes looked at, at once and in the long run: some 50 microseconds each, a tenth of the time."""

IN_LANE_MAX, JOBS_PER_LOOK = 64, 16
"""Jobs of one lane that are told apart by what they may open; so many cost as much as a look at a lane."""

FEW_LANES = 64
"""So many lanes are tried behind each door without asking first whether there is any room at all."""


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
        self._is_due = False
        self._pace = Pace(burst=LOOKS_BURST, per_s=LOOKS_PER_S)

    def make(self, now: Instant, drafts: list[Draft], placed: set[str]) -> None:
        """Add `placed` for jobs that may open bookings, and the jobs to `placed`."""
        state = self._state
        bookings = state.bookings
        if not bookings.all or not state.pending.lanes or self._remains.more:
            return
        is_again = (state.progress.folded, now) == (self._folded, self._at)
        if not (self._has_placed if is_again else self._is_news(now)):
            return
        if not is_again and not self._pace.is_ready(now):
            self._remains.wait_until(self._pace.next_at())
            return
        self._folded, self._at, self._is_due = state.progress.folded, now, False
        self._moves, self._grown = state.progress.generation, bookings.grown
        self._judged = frozenset(self._short())
        access = Access(bookings, state.queues, now)
        before = len(placed)
        if not access.is_empty:
            self._pass(access, now, drafts, placed)
        self._has_placed = len(placed) > before

    # --- when ------------------------------------------------------------------------------------------------

    def _is_news(self, now: Instant) -> bool:
        """Whether more is kept than at the last pass, or lanes fell short since, or a reservation began."""
        bookings = self._state.bookings
        if self._is_due or bookings.grown != self._grown:
            return True
        if self._state.progress.generation != self._moves:
            self._moves = self._state.progress.generation
            short = frozenset(self._short())  # where jobs of a lane are told apart a new one may be let in
            self._is_due = bool(short) if bookings.withholds else not self._judged.issuperset(short)
        return self._is_due or any(
            self._at < booking.starts_at <= now for booking in bookings.all.values() if booking.is_reservation
        )

    def _short(self) -> Iterator[Lane]:
        """Lanes for which there is no room."""
        return (lane for lane in self._state.pending.lanes.values() if lane.short is not None)

    # --- who -------------------------------------------------------------------------------------------------

    def _pass(self, access: Access, now: Instant, drafts: list[Draft], placed: set[str]) -> None:
        state, bookings = self._state, self._state.bookings
        doors: dict[Door, Heads] = {}
        with bookings.opened(()):
            nodes, lanes = self._hopeful(placed)
            for lane, at in lanes:
                for door, first in self._doors(access, lane, at, placed).items():
                    add_head(doors.setdefault(door, {}), lane, first)
            self._tries = TRIES_MAX
            for door in sorted(doors, reverse=True):
                nodes += bookings.switch(access.keys(door))
                attempt = partial(self._attempt, access, door, drafts)
                behind = partial(self._behind, access, door) if access.tells_jobs_apart else next_in_line
                placed.update(record.id for record in rounds(state, doors[door], now, attempt, behind=behind))
                if not self._tries:
                    self._remains.more = True
                    break
        self._pace.spend(nodes + len(lanes))

    def _doors(self, access: Access, lane: Lane, at: int, placed: set[str]) -> dict[Door, int]:
        """What jobs of the lane may open from this place on, and the first for each."""
        records, doors = self._state.jobs.records, dict[Door, int]()
        if not access.tells_jobs_apart:
            door = access.door(records[lane.jobs[at][1]])
            return {} if door is None else {door: at}
        last = min(at + IN_LANE_MAX, len(lane.jobs))
        for place in range(at, last):
            job_id = lane.jobs[place][1]
            door = access.door(records[job_id]) if job_id not in placed else None
            if door is not None:
                doors.setdefault(door, place)
        self._pace.spend((last - at) / JOBS_PER_LOOK)
        return doors

    def _behind(self, access: Access, door: Door, lane: Lane, at: int) -> int:
        """The place of the next job that may open the same; one behind the last if there is none."""
        records, places = self._state.jobs.records, range(at + 1, min(at + IN_LANE_MAX, len(lane.jobs)))
        return next((at for at in places if access.door(records[lane.jobs[at][1]]) == door), len(lane.jobs))

    def _hopeful(self, placed: set[str]) -> tuple[int, list[tuple[Lane, int]]]:
        """Lanes for which there is room while nothing is kept, with the place of the first job that waits on.

        Few lanes are all looked at behind their doors, which opens each node once and not twice. Returns on how many
        nodes something was opened, too.
        """
        bookings, found = self._state.bookings, list[tuple[Lane, int]]()
        if len(self._judged) <= FEW_LANES:
            short = sorted((lane for lane in self._judged if lane.short is not None), key=lambda lane: lane.number)
            return 0, [(lane, at) for lane in short if (at := _first(lane, placed)) is not None]
        nodes = bookings.switch(bookings.all)
        by_watch: dict[Watch, list[Lane]] = {}
        for lane in self._judged:
            if lane.short is not None:
                by_watch.setdefault(lane.short.watch, []).append(lane)
        watches = self._state.fleet.rooms.hopeful(by_watch)
        for lane in (lane for watch in watches for lane in by_watch[watch]):
            at = _first(lane, placed)
            if at is not None:
                found.append((lane, at))
        return nodes, found

    def _attempt(self, access: Access, door: Door, drafts: list[Draft], record: JobRecord, lane: Lane) -> bool:
        """Place a job if it fits and may be where it is open: others of its lane may have more grace, or a booking."""
        if not self._tries or lane.short is None or not self._state.fleet.rooms.has_room(lane.short.watch):
            return False
        if access.door(record) != door:
            return False
        self._tries -= 1
        return self._placements.place(record, lane, drafts)


def _first(lane: Lane, placed: set[str]) -> int | None:
    """The place of the first job of a lane that still waits."""
    return next((at for at, entry in enumerate(lane.jobs) if entry[1] not in placed), None)
