"""What the live view lacks of one log: rows as they stand, and facts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.projector.core.rows import ShownFact

Rows = Mapping[str, bytes | None]
"""By name, encoded; None: it was taken away."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Changes after `prev` up to `seq`. at: when the broker stored the newest fact folded.

    prev is later than what was asked for if facts between the two are no longer known here.
    """

    prev: int
    seq: int
    at: int
    jobs: Rows = field(default_factory=dict)
    nodes: Rows = field(default_factory=dict)
    queues: Rows = field(default_factory=dict)
    reservations: Rows = field(default_factory=dict)
    facts: tuple[ShownFact, ...] = ()
