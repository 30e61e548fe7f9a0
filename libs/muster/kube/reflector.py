"""Watch one kind forever, and keep a projection of its objects; see `Reflector`.

How it stays complete and cheap (reference: Kubernetes API concepts; KEP 3157 for streaming lists):
- The state is read once, as a streaming list, or in pages where the server refuses that (422); then the watch follows.
- A broken, ended or silent watch resumes from its version; the state is listed again only when the server no longer
  has that version (410), after a wait spread by seed.
- Changes are delivered in batches and awaited: a slow consumer slows the reading, and TCP the server.
- Updates that the server loses silently are found by `Comparer`.
- Reflectors of one process that follow the same objects can share one watch: see `sharing`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pydantic_core import from_json

from muster.core.seeded import uniform
from muster.kube import bounds
from muster.kube.comparing import Comparer, Lister, Verdict
from muster.kube.dialects import understood
from muster.kube.errors import (
    Asked,
    ForbiddenError,
    GoneError,
    InvalidError,
    KubeError,
    NotFoundError,
    UnavailableError,
    backoff_s,
    status_error,
)
from muster.kube.figures import ReflectorFigures
from muster.kube.holdings import Change, Holdings, Key, number
from muster.kube.objects import JsonObject, at, mapping, text, version_of
from muster.kube.resources import Resource
from muster.kube.shapes import EVERYTHING, Selection
from muster.kube.sharing import Event, Feed, Peers, SharedWatches
from muster.kube.transport import Lines

TOO_LARGE = "Too large resource version"
"""The server's message when it has not reached a version; client-go checks the same text."""
_FIRST = b',"managedFields":[{'
_ENDS = (b'}],"', b"}]}")
"""End of the array before another field or the end of its object; its entries hold no arrays."""
END_OF_INITIAL_EVENTS = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds before the next watch; `anew`: list the state again."""

    for_s: float
    anew: bool = False


class WatchBackoff:
    """Backoff of one watch after failures, and whether the state must be listed again. Pure.

    `streaming_lists` becomes false once the server refused one.
    """

    def __init__(self, figures: ReflectorFigures, *, seed: int) -> None:
        self.streaming_lists = True
        self._figures = figures
        self._seed = seed
        self._turns = 0
        self._failures = 0
        self._too_large = 0

    def begin(self) -> float:
        """Begin a turn and return the part by which its watch lasts longer, 0 to 1."""
        self._turns += 1
        return uniform(self._seed, "watch", self._turns)

    def heard(self) -> None:
        """Reset the failures after a valid answer."""
        self._failures = self._too_large = 0

    def after(self, error: KubeError, *, resuming: bool) -> Wait:
        """Return the wait after a failed turn; `resuming` if it continued from a version."""
        figures = self._figures
        if isinstance(error, InvalidError) and not resuming and self.streaming_lists:
            self.streaming_lists = False  # the gate WatchList is off: 1.33 by default
            figures.streaming = False
            return Wait(0.0)
        figures.last_error = str(error)
        figures.failures += 1
        if isinstance(error, GoneError):
            figures.gone += 1
            return self._relist()
        if isinstance(error, UnavailableError) and TOO_LARGE in str(error):
            self._too_large += 1
            if self._too_large > bounds.TOO_LARGE_MAX:
                self._too_large = 0
                return self._relist()
        if isinstance(error, ForbiddenError | NotFoundError | InvalidError):
            return Wait(bounds.REFUSED_S * (0.5 + uniform(self._seed, "refused", self._turns)))
        return Wait(self.back_off(at_least_s=float(getattr(error, "retry_after_s", 0.0))))

    def back_off(
        self, *, at_least_s: float = 0.0, first_s: float = bounds.BACKOFF_S_MIN, max_s: float = bounds.BACKOFF_S_MAX
    ) -> float:
        """Return the seconds to wait, more after each failure."""
        self._failures += 1
        return backoff_s(
            self._failures, seed=self._seed + self._turns, at_least_s=at_least_s, first_s=first_s, max_s=max_s
        )

    def _relist(self) -> Wait:
        return Wait(self.back_off(first_s=bounds.RELIST_S_MIN, max_s=bounds.RELIST_S_MAX), anew=True)


def parsed(line: bytes) -> object:
    """Return a watch event without its first `managedFields`. Raises ValueError if it is not JSON.

    They are half of a pod's bytes, and two fifths of its parse time; informers of client-go drop them after parsing.
    If the cut is wrong, within a string that looks like JSON, the rest is invalid JSON, and the whole line is parsed.
    """
    start = line.find(_FIRST)
    if start < 0:
        return from_json(line)
    end = min((at for end in _ENDS if (at := line.find(end, start)) >= 0), default=-1)
    if end < 0:
        return from_json(line)
    try:
        return from_json(line[:start] + line[end + 2 :])
    except ValueError:
        return from_json(line)


ViewT = TypeVar("ViewT")


class Server(Lister, Protocol):
    """The part of `KubeConnection` that a reflector uses."""

    @property
    def source(self) -> tuple[str, str]:
        """Return server and credentials; see `KubeConnection.source`."""
        ...

    def watch(
        self,
        resource: Resource,
        *,
        select: Selection = EVERYTHING,
        version: str = "",
        initial_events: bool = False,
        metadata_only: bool = False,
        timeout_s: int,
        silence_s: float,
    ) -> AbstractAsyncContextManager[Lines]:
        """Open a watch; see `KubeConnection.watch`."""
        ...


class Reflector(Generic[ViewT]):
    """Holds `project(object)` for every selected object of one kind, and delivers changes.

    `project` keeps the fields of interest, or returns None to ignore an object; return frozen values, because equal
    ones are no change, and do not keep the object. `on_changes` is awaited with at most `CHANGES_MAX` changes in order;
    its errors end `run`. `metadata_only` omits spec and status. Give each replica and kind another `seed`, which
    spreads waits. `bounds` documents `watch_s`, `silence_s` and `compare_s` (None: never).
    """

    def __init__(
        self,
        server: Server,
        resource: Resource,
        *,
        project: Callable[[JsonObject], ViewT | None],
        on_changes: Callable[[list[Change[ViewT]]], Awaitable[None]],
        select: Selection = EVERYTHING,
        metadata_only: bool = False,
        seed: int = 0,
        watch_s: int = bounds.WATCH_S,
        silence_s: float = bounds.SILENCE_S,
        compare_s: float | None = bounds.COMPARE_S,
        shared: SharedWatches | None = None,
    ) -> None:
        self._shared = SharedWatches() if shared is None else shared
        self._peers = Peers()
        self._feed: Feed | None = None
        """The shared watch that it follows now, instead of its own."""
        self._server = server
        self._resource = resource
        self._select = select
        self._metadata_only = metadata_only
        self._on_changes = on_changes
        self._watch_s = watch_s
        self._silence_s = silence_s
        self._holdings: Holdings[ViewT] = Holdings(project)
        self._figures = ReflectorFigures(resource=resource.title)
        self._comparer = Comparer(
            server, resource, self._holdings, self._figures, select=select, every_s=compare_s, seed=seed
        )
        self._synced = asyncio.Event()
        self._resume = ""
        """Version to resume from; "" to list the state again."""
        self._waits = WatchBackoff(self._figures, seed=seed)
        self._reading: asyncio.Timeout | None = None
        self._waited_s = 0.0
        """Time that the current batch was waited for."""
        self._verdict: Verdict | None = None
        """Why the current watch must end."""

    @property
    def figures(self) -> ReflectorFigures:
        """Return the figures for metrics, which keep changing."""
        self._figures.objects = len(self._holdings)
        return self._figures

    @property
    def synced(self) -> bool:
        """Return whether the state was read once; it stays true."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the first state was read and delivered."""
        await self._synced.wait()

    def get(self, name: str, *, namespace: str = "") -> ViewT | None:
        """Return the view of one object; None if it is absent."""
        return self._holdings.get(Key(namespace, name))

    def items(self) -> Iterator[tuple[Key, ViewT]]:
        """Return all current views; do not await while iterating."""
        return self._holdings.items()

    def __len__(self) -> int:
        return len(self._holdings)

    async def run(self) -> None:
        """Run until cancelled. Raises an ExceptionGroup of errors of `project`, `on_changes` or the credentials."""
        followed = (self._server.source, self._resource, self._select, self._metadata_only)
        with self._shared.joined(followed) as self._peers:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._compare())
                    await self._keep_up()
            finally:
                self._peers.leave(self)

    async def _keep_up(self) -> None:
        wait_s = 0.0
        while True:
            await asyncio.sleep(wait_s)
            verdict, self._verdict = self._verdict, None
            if verdict is Verdict.MISSED:
                self._resume = ""
            if not self._resume:
                self._peers.leave(self)
            feed = self._peers.follow(self, self._holdings.version if self._resume and verdict is None else -1)
            wait_s = await (self._turn() if feed is None else self._follow(feed))

    async def _follow(self, feed: Feed) -> float:
        """Take the events of another reflector's watch, until it ends or a comparison fails."""
        since, self._feed = self._holdings.version, feed
        try:
            while self._verdict is None and (events := await feed.take()) is not None:
                await self._apply([one for one in events if number(version_of(one.obj)) >= since], initial=False)
        finally:
            self._feed = None
            self._peers.leave(self)
        return 0.0

    async def _turn(self) -> float:
        """Run one watch to its end; return the seconds to wait before the next."""
        spread = self._waits.begin()
        started_s, heard = self._now_s(), self._figures.events + self._figures.bookmarks
        try:
            if self._resume:
                await self._watch(spread)
            elif self._waits.streaming_lists:
                await self._watch(spread, initial=True)
            else:
                await self._list()
                self._peers.give(self, [], self._holdings.version)
                return 0.0
        except KubeError as error:
            self._peers.leave(self)  # another may succeed
            wait = self._waits.after(error, resuming=bool(self._resume))
            if wait.anew:
                self._resume = ""
            return wait.for_s
        self._figures.reconnects += 1
        short = self._now_s() - started_s < bounds.SHORT_WATCH_S
        if short and heard == self._figures.events + self._figures.bookmarks:
            return self._waits.back_off()
        return 0.0

    async def _list(self) -> None:
        """Read the state in pages of one version."""
        self._figures.relists += 1
        self._holdings.begin()
        token, version = "", ""
        for _ in range(bounds.PAGES_MAX):
            page = await self._server.list_page(
                self._resource, select=self._select, continue_token=token, metadata_only=self._metadata_only
            )
            for obj in page.items:
                self._holdings.bring(obj)
            await asyncio.sleep(0)
            token, version = page.continue_token, page.version
            if not token:
                break
        await self._take(version)

    async def _watch(self, spread: float, *, initial: bool = False) -> None:
        """Read a watch to its end, with the state first if `initial`. `spread` comes from `WatchBackoff.begin`."""
        if initial:
            self._holdings.begin()
        async with self._server.watch(
            self._resource,
            select=self._select,
            version=self._resume,
            initial_events=initial,
            metadata_only=self._metadata_only,
            timeout_s=int(self._watch_s * (1.0 + spread)),
            silence_s=self._silence_s,
        ) as lines:
            self._figures.relists += initial  # only now: a server may refuse streaming lists
            in_a_row = 0
            async for batch in self._batches(lines):
                initial = await self._fold(batch, initial=initial)
                if not initial and self._peers.is_level(self, self._holdings.version):
                    return
                in_a_row = in_a_row + 1 if self._waited_s < bounds.GATHER_S else 0
                if in_a_row > bounds.GATHER_AFTER and len(batch) <= bounds.GATHER_EVENTS_MAX:
                    await asyncio.sleep(bounds.GATHER_S)

    async def _batches(self, lines: Lines) -> AsyncIterator[list[bytes]]:
        """Yield batches until the end or a verdict, which interrupts only the reading, never a delivery."""
        batches = lines.batches()
        while self._verdict is None:
            began_s = self._now_s()
            try:
                async with asyncio.timeout(None) as self._reading:
                    batch = await anext(batches, None)
            except TimeoutError:
                return
            finally:
                self._reading = None
            if batch is None:
                return
            self._waited_s = self._now_s() - began_s
            yield batch

    async def _fold(self, batch: list[bytes], *, initial: bool) -> bool:
        """Fold events, deliver their changes and hand them on; return whether the state is still incomplete."""
        events, failure = list[Event](), None
        for line in batch:
            try:
                events.append(self._event(line))
            except KubeError as error:
                failure = error
                break
        initial = await self._apply(events, initial=initial)
        if not initial:
            self._peers.give(self, events, self._holdings.version)
        if failure is not None:
            raise failure  # earlier events are held and delivered: the watch resumes after them
        self._waits.heard()
        return initial

    async def _apply(self, events: list[Event], *, initial: bool) -> bool:
        """Fold events and deliver their changes; return whether the state is still incomplete."""
        figures, changes = self._figures, list[Change[ViewT]]()
        figures.heard_s = self._now_s()
        for kind, obj in events:
            if kind == "BOOKMARK":
                figures.bookmarks += 1
                figures.bookmark_s = figures.heard_s
                if initial and at(obj, "metadata", "annotations", END_OF_INITIAL_EVENTS) == "true":
                    await self._deliver(changes)
                    await self._take(version_of(obj))
                    changes, initial = [], False
                elif not initial:
                    self._holdings.reached(number(version_of(obj)))
                    self._resume = version_of(obj)
            else:
                figures.events += 1
                if initial:
                    self._holdings.bring(obj, deleted=kind == "DELETED")
                else:
                    changes.extend(self._holdings.apply(obj, deleted=kind == "DELETED"))
                    self._resume = version_of(obj) or self._resume
        await self._deliver(changes)
        return initial

    def _event(self, line: bytes) -> Event:
        """Return type and object of an event. Raises the error of an ERROR event, and UnavailableError for invalid
        lines."""
        asked = Asked("watch", self._resource.title, self._select.namespace)
        try:
            event = parsed(line)
        except ValueError as error:  # the connection broke off within an event
            raise UnavailableError(f"{asked}: an event is not JSON: {error}", asked=asked) from error
        kind, obj = text(event, "type"), mapping(event, "object")
        if kind == "ERROR":
            raise status_error(asked, obj)
        return Event(kind, understood(self._resource, obj))

    async def _take(self, version: str) -> None:
        """Hold the complete new state and deliver the differences."""
        changes = self._holdings.swap(number(version))
        self._resume = version
        self._waits.heard()
        self._figures.heard_s = self._now_s()
        await self._deliver(changes)
        self._figures.synced = True
        self._synced.set()

    async def _deliver(self, changes: list[Change[ViewT]]) -> None:
        self._figures.changes += len(changes)
        for start in range(0, len(changes), bounds.CHANGES_MAX):
            await self._on_changes(changes[start : start + bounds.CHANGES_MAX])

    async def _compare(self) -> None:
        await self._synced.wait()
        async for verdict in self._comparer.verdicts():
            self._verdict = verdict
            if self._reading is not None:
                self._reading.reschedule(self._now_s())
            if self._feed is not None:
                self._feed.end()

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()
