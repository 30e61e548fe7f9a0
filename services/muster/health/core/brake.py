"""The brake: if too much of the fleet would be suspected at once, rather the detection is broken than the fleet."""

from dataclasses import dataclass
from math import ceil

from muster.core import NEVER, Draft, Instant, after
from muster.health.core.config import BrakeConfig
from muster.schemas.facts.health import BRAKE_NODES_MAX, BrakeReset, BrakeState, BrakeTripped

KIND, SUBJECT = "health", "brake"


@dataclass(slots=True, kw_only=True)
class Brake(BrakeState):
    """The suspected nodes, and whether they are too many."""

    config: BrakeConfig

    def count(self, node: str, at: Instant) -> None:
        """Count a suspected node."""
        self.nodes.pop(node, None)
        self.nodes[node] = at
        self._age(at)
        if len(self.nodes) > BRAKE_NODES_MAX:
            del self.nodes[next(iter(self.nodes))]

    def most(self, fleet: int) -> int:
        """Return how many nodes may be suspected within the window."""
        return max(self.config.nodes_min, ceil(self.config.share * fleet))

    def counted(self, now: Instant) -> int:
        """Return how many nodes were suspected within the window."""
        since = after(now, -self.config.window_s)
        return sum(at > since for at in self.nodes.values())

    def is_counted(self, node: str, now: Instant) -> bool:
        """Return whether the node is one of them."""
        return self.nodes.get(node, NEVER) > after(now, -self.config.window_s)

    def trip(self, *, more: int, fleet: int, now: Instant) -> Draft:
        """Return `brake-tripped`, because `more` nodes would be suspected."""
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
        """Return the reset that a person requested, if any; also answered where the brake is off."""
        if self.reset_wish is None:
            return None
        told = BrakeReset(
            principal=self.reset_wish.principal,
            reason=self.reset_wish.reason,
            skip=self.reset_wish.skip,
            fact=self.reset_fact,
        )
        return Draft(KIND, SUBJECT, "brake-reset", told, (self.reset_fact,) if self.reset_fact else ())

    def _age(self, now: Instant) -> None:
        since = after(now, -self.config.window_s)
        while self.nodes and self.nodes[oldest := next(iter(self.nodes))] <= since:
            del self.nodes[oldest]
