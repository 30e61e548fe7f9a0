"""Rows of queues and of advance reservations: how each is set, what waits and runs there, and what is booked."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from muster.projector.core.changes import Marks
from muster.schemas.facts.queue import GPU, QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import Phase
from muster.schemas.views import QUEUE_NOT_STORED, RESERVATION_NOT_STORED, QueueView, ReservationView


class Reservations:
    """Reservations by name."""

    def __init__(self) -> None:
        self._rows: dict[str, ReservationView] = {}
        self.marks = Marks(self._body)

    def book(self, spec: ReservationSpec, *, starts_at: int, cluster: str) -> None:
        """Record a reservation; it replaces one of the same name. starts_at: this time, 0 for the spec's own."""
        starts_at = starts_at or spec.starts_at
        self._rows[spec.name] = ReservationView(name=spec.name, cluster=cluster, spec=spec, next_starts_at=starts_at)
        self.marks.touch(spec.name)

    def end(self, name: str) -> bool:
        """Remove a reservation; return whether it existed."""
        self.marks.touch(name)
        return self._rows.pop(name, None) is not None

    def take(self, changes: dict[str, bytes | None]) -> None:
        """Add what changed, encoded; None for what is over."""
        changes.update(self.marks.take_stored())

    def touch_all(self) -> None:
        """Everything is to be written again."""
        self.marks.touch_stored(self._rows)

    def _body(self, name: str) -> bytes | None:
        row = self._rows.get(name)
        return None if row is None else row.encoded(exclude=RESERVATION_NOT_STORED)


HOLDING = frozenset({Phase.PLACED, Phase.RUNNING, Phase.STOPPING})
DEPTH_MAX = 64
"""Queues above one another that are followed: a log with a lost change may hold a cycle, and must still fold."""


class Queues:
    """Counters of queues, also of queues that are not declared (yet); only declared queues are shown."""

    def __init__(self) -> None:
        self._rows: dict[str, QueueView] = {}
        self._declared: set[str] = set()
        self.marks = Marks(self._body)

    def declare(self, spec: QueueSpec, *, cluster: str) -> None:
        """Declare a queue; its holds count below its new parent."""
        row = self._row(spec.name)
        if row.parent != spec.parent:
            held = dict(row.held)
            self._add(row.parent, held, sign=-1)
            row.parent = spec.parent
            self._add(row.parent, held, sign=1)
        row.cluster = cluster
        row.gpu_milli_quota = spec.gpu_milli_quota
        row.gpu_milli_limit = spec.gpu_milli_limit
        row.closed = spec.closed
        row.quota, row.borrowing_limit, row.lending_limit = spec.quota, spec.borrowing_limit, spec.lending_limit
        row.weight, row.order, row.spec = spec.weight, spec.order, spec
        self._declared.add(spec.name)
        self.marks.touch(spec.name)

    def move(self, queue: str, *, before: Phase | None, after: Phase | None) -> None:
        """Count a job's change of phase; None: it was not, or is no longer, live."""
        row = self._row(queue)
        row.jobs_queued += (after is Phase.QUEUED) - (before is Phase.QUEUED)
        row.jobs_running += (after in HOLDING) - (before in HOLDING)
        self._touch(queue)

    def hold(self, queue: str, amounts: Mapping[str, int], *, sign: int) -> None:
        """Add amounts that a job of the queue holds (sign 1), or gives back (-1)."""
        self._add(queue, amounts, sign=sign)

    def take(self, changes: dict[str, bytes | None]) -> None:
        """Add what changed, encoded."""
        changes.update(self.marks.take_stored())

    def touch_all(self) -> None:
        """Everything is to be written again."""
        self.marks.touch_stored(self._declared)

    def _touch(self, name: str) -> None:
        if name in self._declared:
            self.marks.touch(name)

    def _body(self, name: str) -> bytes:
        row = self._rows[name]
        held = dict(sorted(row.held.items()))
        return replace(row, held=held, gpu_milli_held=held.get(GPU, 0)).encoded(exclude=QUEUE_NOT_STORED)

    def _add(self, queue: str | None, amounts: Mapping[str, int], *, sign: int) -> None:
        if not amounts:
            return
        for row in self._path(queue):
            for resource, amount in amounts.items():
                held = row.held.get(resource, 0) + sign * amount
                if held:
                    row.held[resource] = held
                else:
                    row.held.pop(resource, None)
            self._touch(row.name)

    def _path(self, queue: str | None) -> Iterator[QueueView]:
        """Yield the queue and those above it."""
        for _ in range(DEPTH_MAX):
            if queue is None:
                return
            row = self._row(queue)
            yield row
            queue = row.parent

    def _row(self, name: str) -> QueueView:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = QueueView(name=name, cluster="")
        return row
