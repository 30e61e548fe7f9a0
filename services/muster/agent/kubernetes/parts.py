"""What else lives at the API server beside pods and nodes: claims, workloads, machines. Each is a part of the sink."""

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from muster.agent.kubernetes.abilities import Abilities
from muster.agent.kubernetes.watching import Watch
from muster.core import Fact, Instant
from muster.kube.connection import KubeConnection
from muster.kube.permissions import Feature


class Part(Protocol):
    """Made for one leader's time. Calls that it asks on the cluster's worklist are worked by the sink."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """What it wants to have; what cannot be had is told, and left out of `watches`."""
        ...

    def watches(self, abilities: Abilities) -> Sequence[Watch]:
        """What it wants to see, of what can be had."""
        ...

    def picks_devices(self) -> bool:
        """Whether devices are chosen one by one here; asked when all was seen."""
        ...

    async def run(self, connection: KubeConnection) -> None:
        """What it does by itself until it is cancelled; nothing, for most."""
        ...

    def after_fold(self, facts: Sequence[Fact], now: Instant) -> None:
        """Facts were folded."""
        ...


@runtime_checkable
class Growing(Part, Protocol):
    """A part that begins to watch kinds that are served only since a while: somebody installed them."""

    @property
    def late_features(self) -> tuple[Feature, ...]:
        """What is worth to be looked for again."""
        ...

    def later(self, features: Collection[Feature]) -> Sequence[Watch]:
        """What it wants to see now that these can be had."""
        ...

    def later_synced(self, features: Collection[Feature]) -> None:
        """All objects of these were seen."""
        ...
