"""The guard's core: folds what it said, decides what is to be said of the API servers."""

from collections.abc import Iterator

from muster.core import Draft, Fact, Instant
from muster.guard.core.advising import advise
from muster.guard.core.config import GuardConfig
from muster.guard.core.flows import tell_flows
from muster.guard.core.look import Look
from muster.guard.core.state import OWN, State

_AT_ONCE = Instant(0)


class GuardCore:
    """Implements `ObservingCore[Look]`: the only writer of advice and flows of one cluster.

    It is hosted on every cluster, simulated ones too, because a checkpoint is complete only with the parts of all
    services; there it sees nothing.
    """

    def __init__(self, config: GuardConfig, *, guarded: bool = False) -> None:
        self.state = State()
        """As folded, for reading."""
        self.config = config
        self.guarded = guarded
        """There is a real cluster to watch."""
        self.look: Look | None = None
        """The newest look at the API servers, None before the first of a term; no part of the state. For reading."""
        self._is_new = False
        self._settled: Look | None = None
        """Everything was said of this look: the log of a busy cluster has the core decide again and again."""

    def observe(self, observation: Look, now: Instant) -> bool:  # noqa: ARG002 - the newest look counts, whenever it was
        """See `ObservingCore`: the API servers were looked at."""
        self.look, self._is_new = observation, True
        return True

    def forget(self) -> None:
        """Begin a term, or end one: what was seen before says nothing of what is."""
        self.look, self._is_new = None, False

    def apply(self, fact: Fact) -> None:
        """See `Core`; what fits no state is counted in `state.anomalies`."""
        if fact.kind in OWN:
            self.state.fold(fact)
            self._settled = None

    def decide(self, now: Instant) -> list[Draft]:
        """See `Core`: nothing before the first look."""
        look, self._is_new = self.look, False
        if look is None or look is self._settled:
            return []
        drafts = [*advise(self.state.advice, look, self.config, now), *tell_flows(self.state.flows, look)]
        if not drafts:
            self._settled = look
        return drafts

    def next_wakeup(self) -> Instant | None:
        """See `Core`: at once while there is a look that was not decided on."""
        return _AT_ONCE if self._is_new else None

    def snapshot(self) -> Iterator[Draft]:
        """See `Core`."""
        return self.state.snapshot()
