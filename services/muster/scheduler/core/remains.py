"""What one decision leaves to the next, and the bound that most of its parts share."""

from dataclasses import dataclass

from muster.core import Instant

MOVES_MAX = 1_024
"""Drafts of each sort but placements by one decision."""


@dataclass(slots=True)
class Remains:
    """When to ask again. more: at once, something was left over. due: then, something becomes possible."""

    more: bool = False
    due: Instant | None = None

    def wait_until(self, moment: Instant) -> None:
        """Ask again at this moment, if not earlier."""
        self.due = moment if self.due is None else min(self.due, moment)
