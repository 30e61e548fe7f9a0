"""What the health service's core is made of: parts that fold the same log and decide each for itself.

A part is added by a line in `HealthCore.__init__` (core.py). Every part is given every fact, in the order of the parts.
`decide`, `next_wakeup` and `snapshot` are as in `muster.core.Core`: what a part says comes back to it as facts, and
nothing else changes what it believes. The parts never call each other: one learns of another's verdicts
(`preflight-failed`) from the log, as any service does.
"""

from collections.abc import Iterator
from typing import Protocol

from muster.core import Draft, Fact, Instant


class Part(Protocol):
    """One subject of health: the states of nodes and devices, or the verdicts on pre-flight checks."""

    def apply(self, fact: Fact) -> None:
        """Fold one fact; one that the part has no use for costs one look-up."""
        ...

    def decide(self, now: Instant, room: int) -> list[Draft]:
        """See `Core.decide`. room: about so many drafts at most; what is left over follows at once."""
        ...

    def next_wakeup(self) -> Instant | None:
        """See `Core.next_wakeup`; a moment of the past means at once."""
        ...

    def snapshot(self) -> Iterator[Draft]:
        """See `Core.snapshot`."""
        ...
