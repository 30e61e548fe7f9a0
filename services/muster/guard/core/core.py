"""The guard's core: folds what it said, decides what is to be said of the API servers."""

from collections.abc import Iterator

from muster.core import Draft, Fact, Instant
from muster.guard.core.advising import advise
from muster.guard.core.config import GuardConfig
from muster.guard.core.flows import tell_flows
from muster.guard.core.look import Look
from muster.guard.core.servers import Servers
from muster.guard.core.state import OWN, State


class GuardCore:
    """Implements `Core`: the only writer of advice and flows of one cluster.

    state: as folded, for reading. guarded: there is a real cluster to watch. It is hosted on every cluster, simulated
    ones too, because a checkpoint is complete only with the parts of all services.
    """

    def __init__(self, servers: Servers, config: GuardConfig, *, guarded: bool = False) -> None:
        self.state = State()
        self.config = config
        self.guarded = guarded
        self._servers = servers
        self._settled: Look | None = None
        """Everything was said of this look: the log of a busy cluster has the core decide again and again."""

    @property
    def look(self) -> Look | None:
        """What this instance sees; no part of the state."""
        return self._servers.look()

    def apply(self, fact: Fact) -> None:
        """See `Core`; what fits no state is counted in `state.anomalies`."""
        if fact.kind in OWN:
            self.state.fold(fact)
            self._settled = None

    def decide(self, now: Instant) -> list[Draft]:
        """See `Core`: nothing before the first look."""
        look = self._servers.observe()
        if look is None or look is self._settled:
            return []
        drafts = [*advise(self.state.advice, look, self.config, now), *tell_flows(self.state.flows, look)]
        if not drafts:
            self._settled = look
        return drafts

    def next_wakeup(self) -> Instant | None:
        """See `Core`: at once while there is a look that was not decided on."""
        return self._servers.next_change()

    def snapshot(self) -> Iterator[Draft]:
        """See `Core`."""
        return self.state.snapshot()
