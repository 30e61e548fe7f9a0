"""Backfill, the second pass of placement: jobs that fit only on capacity booked for others, and end in time.

Pending queues that are blocked by capacity are grouped by the bookings that their first job may open, its scope (see
`access`). For each scope, the smallest first, the ordinary search continues with these bookings open. A pass runs only
if something changed, and as often as its cost allows.
"""

from collections.abc import Iterator
from functools import partial

from muster.core import Draft, Instant
from muster.placement.rooms import Watch
from muster.scheduler.core.admit.access import Access, Scope
from muster.scheduler.core.order import Heads, add_head, next_in_queue, serve_in_order
from muster.scheduler.core.place.placements import Placements
from muster.scheduler.core.requeue import Pace, Requeue
from muster.scheduler.core.state import State
from muster.scheduler.core.stores.jobs import JobRecord
from muster.scheduler.core.stores.pending_queue import PendingQueue

TRIES_MAX = 256
"""Gangs tried by one decision."""

LOOKS_BURST, LOOKS_PER_S = 4_096, 2_048
"""Nodes opened and pending queues visited, at once and per second in the long run: about 50 microseconds each, so a
tenth of the time."""

IN_QUEUE_MAX, JOBS_PER_LOOK = 64, 16
"""Jobs of one pending queue whose scopes are compared, and how many of them cost as much as one visit."""

FEW_QUEUES = 64
"""Up to this number, pending queues are tried in each scope without checking first whether there is any room."""


class Backfill:
    """Places jobs on booked capacity. Its own state only saves work."""

    def __init__(self, state: State, requeue: Requeue, placements: Placements) -> None:
        self._state = state
        self._requeue = requeue
        self._placements = placements
        self._tries = TRIES_MAX
        self._grown = -1
        self._generation = -1
        self._judged: frozenset[PendingQueue] = frozenset()
        self._at = Instant(-1)
        self._folded = -1
        self._has_placed = False
        self._is_due = False
        self._pace = Pace(burst=LOOKS_BURST, per_s=LOOKS_PER_S)

    def make(self, now: Instant, drafts: list[Draft], placed: set[str]) -> None:
        """Add `placed` for jobs that may open bookings, and add these jobs to `placed`."""
        state = self._state
        bookings = state.bookings
        if not bookings.all or not state.pending.queues or self._requeue.more:
            return
        is_again = (state.progress.folded, now) == (self._folded, self._at)
        if not (self._has_placed if is_again else self._is_news(now)):
            return
        if not is_again and not self._pace.is_ready(now):
            self._requeue.wait_until(self._pace.next_at())
            return
        self._folded, self._at, self._is_due = state.progress.folded, now, False
        self._generation, self._grown = state.progress.generation, bookings.grown
        self._judged = frozenset(self._capacity_blocked_queues())
        for_devices = all(pending.job_class.gang.needs_devices for pending in self._judged)
        access = Access(bookings, state.queues, now, for_devices=for_devices)
        before = len(placed)
        if not access.is_empty:
            self._pass(access, now, drafts, placed)
        self._has_placed = len(placed) > before

    # --- when a pass is due ----------------------------------------------------------------------------------

    def _is_news(self, now: Instant) -> bool:
        """Return whether more is booked than at the last pass, or pending queues were blocked, or a booking began."""
        bookings = self._state.bookings
        if self._is_due or bookings.grown != self._grown:
            return True
        if self._state.progress.generation != self._generation:
            self._generation = self._state.progress.generation
            blocked = frozenset(self._capacity_blocked_queues())
            # where jobs of a pending queue have different scopes, a new job may fit
            self._is_due = bool(blocked) if bookings.withholds else not self._judged.issuperset(blocked)
        return self._is_due or any(
            self._at < booking.starts_at <= now for booking in bookings.all.values() if booking.is_reservation
        )

    def _capacity_blocked_queues(self) -> Iterator[PendingQueue]:
        return (pending for pending in self._state.pending.queues.values() if pending.capacity_block is not None)

    # --- the pass --------------------------------------------------------------------------------------------

    def _pass(self, access: Access, now: Instant, drafts: list[Draft], placed: set[str]) -> None:
        state, bookings = self._state, self._state.bookings
        scopes: dict[Scope, Heads] = {}
        with bookings.opened(()):
            nodes, pending_queues = self._hopeful(placed)
            for pending, at in pending_queues:
                for scope, first in self._scopes(access, pending, at, placed).items():
                    add_head(scopes.setdefault(scope, {}), pending, first)
            self._tries = TRIES_MAX
            for scope in sorted(scopes, reverse=True):
                nodes += bookings.switch(access.keys(scope))
                attempt = partial(self._attempt, access, scope, drafts)
                behind = partial(self._behind, access, scope) if access.tells_jobs_apart else next_in_queue
                placed.update(
                    record.id
                    for record in serve_in_order(state.queues, state.jobs, scopes[scope], now, attempt, behind=behind)
                )
                if not self._tries:
                    self._requeue.more = True
                    break
        self._pace.spend(nodes + len(pending_queues))

    def _scopes(self, access: Access, pending: PendingQueue, at: int, placed: set[str]) -> dict[Scope, int]:
        """Return the scopes of the pending queue's jobs from this index on, each with its first job."""
        records, scopes = self._state.jobs.records, dict[Scope, int]()
        if not access.tells_jobs_apart:
            scope = access.scope(records[pending.jobs[at][1]])
            return {} if scope is None else {scope: at}
        last = min(at + IN_QUEUE_MAX, len(pending.jobs))
        for place in range(at, last):
            job_id = pending.jobs[place][1]
            scope = access.scope(records[job_id]) if job_id not in placed else None
            if scope is not None:
                scopes.setdefault(scope, place)
        self._pace.spend((last - at) / JOBS_PER_LOOK)
        return scopes

    def _behind(self, access: Access, scope: Scope, pending: PendingQueue, at: int) -> int:
        """Return the index of the next job with the same scope; the number of jobs if there is none."""
        records, places = self._state.jobs.records, range(at + 1, min(at + IN_QUEUE_MAX, len(pending.jobs)))
        return next((at for at in places if access.scope(records[pending.jobs[at][1]]) == scope), len(pending.jobs))

    def _hopeful(self, placed: set[str]) -> tuple[int, list[tuple[PendingQueue, int]]]:
        """Return pending queues that would fit if nothing were booked, with the index of the first job to try.

        A few pending queues are all tried in their scopes, which opens each node once instead of twice. Also return the
        number of nodes that were opened.
        """
        bookings, found = self._state.bookings, list[tuple[PendingQueue, int]]()
        if len(self._judged) <= FEW_QUEUES:
            capacity_block = sorted(
                (pending for pending in self._judged if pending.capacity_block is not None),
                key=lambda pending: pending.number,
            )
            return 0, [(pending, at) for pending in capacity_block if (at := _first(pending, placed)) is not None]
        nodes = bookings.switch(bookings.all)
        by_watch: dict[Watch, list[PendingQueue]] = {}
        for pending in self._judged:
            if pending.capacity_block is not None:
                by_watch.setdefault(pending.capacity_block.watch, []).append(pending)
        watches = self._state.fleet.rooms.hopeful(by_watch)
        for pending in (pending for watch in watches for pending in by_watch[watch]):
            at = _first(pending, placed)
            if at is not None:
                found.append((pending, at))
        return nodes, found

    def _attempt(
        self, access: Access, scope: Scope, drafts: list[Draft], record: JobRecord, pending: PendingQueue
    ) -> bool:
        """Place a job if it fits and has this scope: other jobs of its queue may have more grace, or a booking."""
        if (
            not self._tries
            or pending.capacity_block is None
            or not self._state.fleet.rooms.has_room(pending.capacity_block.watch)
        ):
            return False
        if access.scope(record) != scope:
            return False
        self._tries -= 1
        return self._placements.place(record, pending, drafts)


def _first(pending: PendingQueue, placed: set[str]) -> int | None:
    return next((at for at, entry in enumerate(pending.jobs) if entry[1] not in placed), None)
