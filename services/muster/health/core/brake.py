"""The brake: where too much of the fleet would be suspected at once, rather what sees is broken than the fleet."""

from dataclasses import dataclass, field
from math import ceil

from muster.core import Draft, Instant, after
from muster.health.core.config import BrakeConfig
from muster.schemas.facts.health import BRAKE_NODES_MAX, BrakeReset, BrakeResetRequested, BrakeState, BrakeTripped

NEVER = Instant(0)
KIND, SUBJECT = "health", "brake"


@dataclass(slots=True)
class Brake:
    """recent: nodes that were suspected, and when, oldest first. tripped: as told; None: health may act by itself.

    wish: a person's reset that was not carried out yet, told by `wish_fact`.
    """

    config: BrakeConfig
    recent: dict[str, Instant] = field(default_factory=dict)
    tripped: BrakeTripped | None = None
    tripped_at: Instant = NEVER
    wish: BrakeResetRequested | None = None
    wish_fact: str = ""

    def count(self, node: str, at: Instant) -> None:
        """A node was suspected."""
        self.recent.pop(node, None)
        self.recent[node] = at
        self._age(at)
        if len(self.recent) > BRAKE_NODES_MAX:
            del self.recent[next(iter(self.recent))]

    def most(self, fleet: int) -> int:
        """So many nodes may be suspected within the window."""
        return max(self.config.nodes_min, ceil(self.config.share * fleet))

    def counted(self, now: Instant) -> int:
        """Nodes that were suspected within the window."""
        since = after(now, -self.config.window_s)
        return sum(at > since for at in self.recent.values())

    def is_counted(self, node: str, now: Instant) -> bool:
        """Whether the node is one of those."""
        return self.recent.get(node, Instant(0)) > after(now, -self.config.window_s)

    def trip(self, *, more: int, fleet: int, now: Instant) -> Draft:
        """The brake as it trips, because `more` nodes would come to those that are."""
        nodes, most = self.counted(now) + more, self.most(fleet)
        told = BrakeTripped(
            nodes=nodes,
            most=most,
            fleet=fleet,
            window_s=self.config.window_s,
            because=f"{nodes} of {fleet} nodes would be suspected within {self.config.window_s:g} s, {most} may be",
        )
        return Draft(KIND, SUBJECT, "brake-tripped", told)

    def reset(self) -> Draft | None:
        """The reset that a person asked for, if one waits; also where nothing is tripped: it is answered."""
        if self.wish is None:
            return None
        told = BrakeReset(
            principal=self.wish.principal, reason=self.wish.reason, skip=self.wish.skip, fact=self.wish_fact
        )
        return Draft(KIND, SUBJECT, "brake-reset", told, (self.wish_fact,) if self.wish_fact else ())

    def stored(self) -> BrakeState:
        """For a checkpoint."""
        return BrakeState(
            tripped=self.tripped,
            tripped_at=self.tripped_at,
            nodes=tuple(self.recent.items()),
            reset_wish=self.wish,
            reset_fact=self.wish_fact,
        )

    def load(self, stored: BrakeState) -> None:
        """As a checkpoint says."""
        self.tripped, self.tripped_at = stored.tripped, Instant(stored.tripped_at)
        self.recent = {node: Instant(at) for node, at in stored.nodes}
        self.wish, self.wish_fact = stored.reset_wish, stored.reset_fact

    def _age(self, now: Instant) -> None:
        since = after(now, -self.config.window_s)
        while self.recent and self.recent[oldest := next(iter(self.recent))] <= since:
            del self.recent[oldest]
