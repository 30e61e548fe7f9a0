"""Rows of advance reservations: what was booked and not ended."""

from muster.projector.core.marks import Marks
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.views import RESERVATION_NOT_STORED, ReservationView


class Reservations:
    """By name."""

    def __init__(self) -> None:
        self._rows: dict[str, ReservationView] = {}
        self.marks = Marks(self._body)

    def book(self, spec: ReservationSpec, *, starts_at: int, cluster: str) -> None:
        """It is kept; one of the same name is replaced. starts_at: this time, 0 for the spec's own."""
        starts_at = starts_at or spec.starts_at
        self._rows[spec.name] = ReservationView(name=spec.name, cluster=cluster, spec=spec, next_starts_at=starts_at)
        self.marks.touch(spec.name)

    def end(self, name: str) -> bool:
        """It is over. False if there was none."""
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
