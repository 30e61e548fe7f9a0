"""The guard's core: folds what it said, decides what is to be said of the API servers."""

from collections.abc import Iterator

from muster.core import Draft, Fact, Instant
from muster.guard.core.state import OWN, State


class GuardCore:
    """Implements `Core`: the only writer of advice and flows of one cluster.

    state: as folded, for reading. It is hosted on every cluster, simulated ones too, because a checkpoint is complete
    only with the parts of all services.
    """

    def __init__(self) -> None:
        self.state = State()

    def apply(self, fact: Fact) -> None:
        """See `Core`; what fits no state is counted in `state.anomalies`."""
        if fact.kind in OWN:
            self.state.fold(fact)

    def decide(self, now: Instant) -> list[Draft]:  # noqa: ARG002 - the port
        """See `Core`."""
        return []

    def next_wakeup(self) -> Instant | None:
        """See `Core`."""
        return None

    def snapshot(self) -> Iterator[Draft]:
        """See `Core`."""
        return self.state.snapshot()
