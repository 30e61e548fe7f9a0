"""Parts of health's core, which fold the same log and decide independently.

A part is added by a line in `HealthCore.__init__` (core.py). Every part folds every fact, in the order of the parts.
`decide`, `next_wakeup` and `snapshot` are as in `muster.core.Core`: decisions come back as facts, and nothing else
changes the state. Parts never call each other: one learns another's verdicts (`preflight-failed`) from the log, as any
service.
"""

from collections.abc import Iterator
from typing import Protocol

from muster.core import Draft, Fact, Instant


class Part(Protocol):
    """One subject of health: the states of nodes and devices, or the verdicts on pre-flight checks."""

    def apply(self, fact: Fact) -> None:
        """Fold one fact; an unused one costs one look-up."""
        ...

    def decide(self, now: Instant, room: int) -> list[Draft]:
        """Return about `room` drafts at most; the rest follows at once."""
        ...

    def next_wakeup(self) -> Instant | None:
        """Return when to decide again; a past time means at once."""
        ...

    def snapshot(self) -> Iterator[Draft]:
        """Yield the state facts of a checkpoint."""
        ...
