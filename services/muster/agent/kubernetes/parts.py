"""What lives at the API server beside pods and nodes (claims, workloads, machines), and how kinds are watched.

One watch per kind feeds whoever wants to know. Each part of the sink says what it wants to have and to see.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from muster.agent.kubernetes.abilities import Abilities
from muster.core import Fact, Instant
from muster.kube.connection import KubeConnection
from muster.kube.figures import ReflectorFigures
from muster.kube.holdings import Change
from muster.kube.objects import JsonObject
from muster.kube.permissions import Feature
from muster.kube.reflector import Reflector
from muster.kube.resources import Resource
from muster.kube.shapes import EVERYTHING, Selection
from muster.kube.sharing import OF_THIS_PROCESS

ViewT = TypeVar("ViewT")


class Running(Protocol):
    """A watch that is kept up."""

    @property
    def synced(self) -> bool:
        """Whether all objects were seen once."""
        ...

    @property
    def figures(self) -> ReflectorFigures:
        """How it goes."""
        ...

    def run(self) -> Coroutine[None, None, None]:
        """Until it is cancelled."""
        ...

    async def wait_synced(self) -> None:
        """Until all objects were seen once."""
        ...


class Watch(Protocol):
    """One kind that is to be watched."""

    @property
    def is_needed(self) -> bool:
        """Whether nothing may be said of the cluster before all its objects were seen."""
        ...

    def start(self, connection: KubeConnection, after: Callable[[], Awaitable[None]], clock: Callable[[], Instant],
              *, seed: int, compare_s: float) -> Running:  # fmt: skip
        """Make its reflector. after: called after each batch was fed."""
        ...


@dataclass(frozen=True)
class KindWatch(Generic[ViewT]):
    """Implements `Watch`. project, select, metadata_only: see `Reflector`. feed: takes one change."""

    resource: Resource
    project: Callable[[JsonObject], ViewT | None]
    feed: Callable[[Change[ViewT], Instant], None]
    select: Selection = EVERYTHING
    metadata_only: bool = False
    is_needed: bool = True

    def start(self, connection: KubeConnection, after: Callable[[], Awaitable[None]], clock: Callable[[], Instant],
              *, seed: int, compare_s: float) -> Reflector[ViewT]:  # fmt: skip
        """See `Watch`."""

        async def take(changes: list[Change[ViewT]]) -> None:
            now = clock()
            for change in changes:
                self.feed(change, now)
            await after()

        return Reflector(
            connection,
            self.resource,
            project=self.project,
            on_changes=take,
            select=self.select,
            metadata_only=self.metadata_only,
            seed=seed,
            compare_s=compare_s,
            shared=OF_THIS_PROCESS,
        )


def feeding(seen: Callable[[ViewT], None], gone: Callable[[str], None]) -> Callable[[Change[ViewT], Instant], None]:
    """Return a feed for objects that are known by name. seen: takes one as it is. gone: takes the name of one."""

    def feed(change: Change[ViewT], now: Instant) -> None:  # noqa: ARG001 - the port
        if change.now is not None:
            seen(change.now)
        else:
            gone(change.key.name)

    return feed


async def all_synced(watches: list[Running]) -> None:
    """Until every one has seen all its objects."""
    await asyncio.gather(*(watch.wait_synced() for watch in watches))


class Part:
    """Part of the sink, made for one leader's time. The sink works the calls that it asks on the cluster's worklist."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """What it wants to have; what cannot be had is told, and left out of `watches`."""
        return ()

    def watches(self, abilities: Abilities) -> Sequence[Watch]:  # noqa: ARG002 - most watch nothing
        """What it wants to see, of what can be had."""
        return ()

    def picks_devices(self) -> bool:
        """Whether devices are chosen one by one here; asked when all was seen."""
        return False

    async def run(self, connection: KubeConnection) -> None:
        """What it does by itself until it is cancelled; nothing, for most."""

    def after_fold(self, facts: Sequence[Fact], now: Instant) -> None:
        """Facts were folded."""


class GrowingPart(Part, ABC):
    """A part that begins to watch kinds that are served only since a while: somebody installed them."""

    @property
    @abstractmethod
    def late_features(self) -> tuple[Feature, ...]:
        """What is worth to be looked for again."""

    @abstractmethod
    def later(self, features: Collection[Feature]) -> Sequence[Watch]:
        """What it wants to see now that these can be had."""

    @abstractmethod
    def later_synced(self, features: Collection[Feature]) -> None:
        """All objects of these were seen."""
