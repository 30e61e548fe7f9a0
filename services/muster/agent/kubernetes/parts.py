"""Parts of the sink beside pods and nodes (claims, workloads, machines), and how kinds are watched.

One watch per kind feeds all parts. Each part names the features and watches that it needs.
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
    """A running watch."""

    @property
    def synced(self) -> bool:
        """Return whether all objects were seen once."""
        ...

    @property
    def figures(self) -> ReflectorFigures:
        """Return its figures."""
        ...

    def run(self) -> Coroutine[None, None, None]:
        """Run until cancelled."""
        ...

    async def wait_synced(self) -> None:
        """Wait until all objects were seen once."""
        ...


class Watch(Protocol):
    """A kind to watch."""

    @property
    def is_needed(self) -> bool:
        """Return whether the cluster may be reported only after all objects of the kind were seen."""
        ...

    def start(self, connection: KubeConnection, after: Callable[[], Awaitable[None]], clock: Callable[[], Instant],
              *, seed: int, compare_s: float) -> Running:  # fmt: skip
        """Create its reflector; `after` is called after each batch."""
        ...


@dataclass(frozen=True)
class KindWatch(Generic[ViewT]):
    """A watch of one kind; see `Reflector` for `project`, `select` and `metadata_only`. `feed` takes one change."""

    resource: Resource
    project: Callable[[JsonObject], ViewT | None]
    feed: Callable[[Change[ViewT], Instant], None]
    select: Selection = EVERYTHING
    metadata_only: bool = False
    is_needed: bool = True

    def start(self, connection: KubeConnection, after: Callable[[], Awaitable[None]], clock: Callable[[], Instant],
              *, seed: int, compare_s: float) -> Reflector[ViewT]:  # fmt: skip
        """Create its reflector."""

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
    """Return a feed for objects keyed by name: `seen` takes a view, `gone` a name."""

    def feed(change: Change[ViewT], now: Instant) -> None:  # noqa: ARG001 - the port
        if change.now is not None:
            seen(change.now)
        else:
            gone(change.key.name)

    return feed


async def all_synced(watches: list[Running]) -> None:
    """Wait until all watches have seen all objects."""
    await asyncio.gather(*(watch.wait_synced() for watch in watches))


class Part:
    """Part of the sink for one leader term. The sink works the calls that it puts on the cluster's worklist."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return the features it needs; missing ones are reported, and `watches` omits them."""
        return ()

    def watches(self, abilities: Abilities) -> Sequence[Watch]:  # noqa: ARG002 - most watch nothing
        """Return the watches it needs, given the available features."""
        return ()

    def picks_devices(self) -> bool:
        """Return whether the scheduler chooses single devices here; asked after all was seen."""
        return False

    async def run(self, connection: KubeConnection) -> None:
        """Run its own loop until cancelled; most parts have none."""

    def after_fold(self, facts: Sequence[Fact], now: Instant) -> None:
        """Handle folded facts."""


class GrowingPart(Part, ABC):
    """A part whose kinds may be installed later, and are watched from then on."""

    @property
    @abstractmethod
    def late_features(self) -> tuple[Feature, ...]:
        """Return the features to look for again."""

    @abstractmethod
    def later(self, features: Collection[Feature]) -> Sequence[Watch]:
        """Return the watches of features that became available."""

    @abstractmethod
    def later_synced(self, features: Collection[Feature]) -> None:
        """Handle that all objects of these features were seen."""
