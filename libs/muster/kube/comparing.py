"""Detect updates that a watch lost silently: by count often, by a whole comparison rarely; see `Comparer`.

A count is one LIST of a single object's metadata: with `limit=1` the server returns how many remain, at one consistent
version, for the price of one object. It finds lost additions and deletions. Lost modifications show only in each
object's resourceVersion, so a whole comparison lists the metadata of all in pages, 415 bytes an object instead of
5,800. With selectors the server returns no count, and every comparison is whole. A different count is checked by a
whole comparison before anything is done: servers promise no exact counts.
"""

import asyncio
from collections.abc import AsyncIterator
from enum import Enum
from typing import Generic, Protocol, TypeVar

from muster.core.seeded import uniform
from muster.kube import bounds
from muster.kube.errors import KubeError
from muster.kube.figures import ReflectorFigures
from muster.kube.holdings import Holdings, Key, number
from muster.kube.objects import name_of, namespace_of, version_of
from muster.kube.resources import Resource
from muster.kube.shapes import EVERYTHING, Page, Selection

ViewT = TypeVar("ViewT")
POLL_S = 1.0
"""Between two checks whether the watch has reached the server's version."""


class Verdict(Enum):
    """The problem that a comparison found."""

    MISSED = "missed"
    """Updates are missing: list the state again."""
    MISCOUNTED = "miscounted"
    """The counts differ; never yielded."""
    STUCK = "stuck"
    """The watch is stuck: a new one from its version brings the missing events."""


class Lister(Protocol):
    """The part of `KubeConnection` that a comparison uses."""

    async def list_page(
        self,
        resource: Resource,
        *,
        select: Selection = EVERYTHING,
        limit: int = bounds.PAGE_ITEMS,
        continue_token: str = "",
        version: str = "",
        version_match: str = "",
        metadata_only: bool = False,
    ) -> Page:
        """List one page; see `KubeConnection.list_page`."""
        ...


class Comparer(Generic[ViewT]):
    """Compares every `every_s` on average, spread by seed; never if None."""

    def __init__(
        self,
        lister: Lister,
        resource: Resource,
        holdings: Holdings[ViewT],
        figures: ReflectorFigures,
        *,
        select: Selection,
        every_s: float | None,
        seed: int,
    ) -> None:
        self._lister = lister
        self._resource = resource
        self._holdings = holdings
        self._figures = figures
        self._select = select
        self._every_s = every_s
        self._seed = seed

    async def verdicts(self) -> AsyncIterator[Verdict]:
        """Yield the problems found, forever."""
        turn = 0
        while self._every_s is not None:
            turn += 1
            await asyncio.sleep(self._every_s * (0.75 + 0.5 * uniform(self._seed, "compare", turn)))
            counts = not (self._select.labels or self._select.fields)
            try:
                verdict = await self._compare(by_count=counts and turn % bounds.COMPARE_WHOLE_EVERY != 0)
                if verdict is Verdict.MISCOUNTED:
                    verdict = await self._compare(by_count=False)
            except KubeError as error:  # the watch handles the same error; compare later
                self._figures.last_error = str(error)
                continue
            finally:
                self._holdings.stop_comparing()
            if verdict is not None:
                yield verdict

    async def _compare(self, *, by_count: bool) -> Verdict | None:
        begun = self._holdings.compare()
        version, count, listed = await (self._counted() if by_count else self._listed())
        if version < begun:
            return None  # another replica of the server, which lags behind the watch
        if not await self._settled(version):
            if not self._holdings.comparable:
                return None  # the state was listed again meanwhile
            self._figures.stuck += 1
            return Verdict.STUCK
        self._figures.compares += 1
        if by_count:
            return None if count == self._holdings.count_at(version) else Verdict.MISCOUNTED
        missed = len(self._holdings.differences(listed, version))
        self._figures.missed += missed
        return Verdict.MISSED if missed else None

    async def _settled(self, version: int) -> bool:
        """Wait until the watch reaches the version; return False after SETTLE_S or when the journal is invalid."""
        until_s = asyncio.get_running_loop().time() + bounds.SETTLE_S
        while self._holdings.comparable:
            if self._holdings.version >= version:
                return True
            if asyncio.get_running_loop().time() >= until_s:
                return False
            await asyncio.sleep(POLL_S)
        return False

    async def _counted(self) -> tuple[int, int, dict[Key, int]]:
        """Return a version and the number of objects at it."""
        page = await self._page(limit=1)
        return number(page.version), len(page.items) + page.remaining, {}

    async def _listed(self) -> tuple[int, int, dict[Key, int]]:
        """Return a version, and number and resourceVersions of the objects at it."""
        listed: dict[Key, int] = {}
        token, version = "", 0
        for _ in range(bounds.PAGES_MAX):
            page = await self._page(limit=bounds.PAGE_ITEMS, token=token)
            version = number(page.version)
            for obj in page.items:
                listed[Key(namespace_of(obj), name_of(obj))] = number(version_of(obj))
            token = page.continue_token
            if not token:
                break
        return version, len(listed), listed

    async def _page(self, *, limit: int, token: str = "") -> Page:
        return await self._lister.list_page(
            self._resource, select=self._select, limit=limit, continue_token=token, metadata_only=True
        )
