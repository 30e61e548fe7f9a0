"""The upgrader's core: folds the cluster's log, decides which node is taken, and what is done to it."""

from collections.abc import Iterator

from muster.core import Draft, Fact, Instant
from muster.upgrader.core.config import UpgradeConfig
from muster.upgrader.core.fold import fold
from muster.upgrader.core.fold_states import states
from muster.upgrader.core.state import State


class UpgraderCore:
    """The only writer of campaigns of one cluster. Without one it says nothing, and folds who holds which node."""

    def __init__(self, config: UpgradeConfig) -> None:
        self.state = State(config)

    def apply(self, fact: Fact) -> None:
        """Fold one fact; one that fits no state is counted in `state.anomalies`."""
        fold(self.state, fact)

    def decide(self, now: Instant) -> list[Draft]:  # noqa: ARG002 - the port
        """What should be true and is not yet; the same until something is folded."""
        return []

    def next_wakeup(self) -> Instant | None:
        """When a turn comes, or an answer is overdue."""
        return None

    def snapshot(self) -> Iterator[Draft]:
        """Campaigns that go on or that a person has still to look at, and the turns of their nodes."""
        return states(self.state)
