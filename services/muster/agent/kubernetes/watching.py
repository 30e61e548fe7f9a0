"""What is watched, and where what is seen goes: one watch per kind, whoever wants to know."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from muster.core import Instant
from muster.kube.connection import KubeConnection
from muster.kube.figures import ReflectorFigures
from muster.kube.holdings import Change
from muster.kube.objects import JsonObject
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


async def all_synced(watches: list[Running]) -> None:
    """Until every one has seen all its objects."""
    await asyncio.gather(*(watch.wait_synced() for watch in watches))
