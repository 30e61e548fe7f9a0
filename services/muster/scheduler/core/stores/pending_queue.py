"""A lane: jobs of one queue that ask for the same, in the order in which they come; and lanes in that order."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from muster.core import Instant
from muster.placement.rooms import Rooms, Watch
from muster.quota.amounts import NO_AMOUNTS, Amounts
from muster.quota.queues import QueueTree
from muster.scheduler.core.reasons import Blocked
from muster.scheduler.core.stores.jobs import JobRecord, Kind

Place = tuple[int, int]
"""A job's place in line: its rank, and when it came."""

Entry = tuple[Place, str]
"""A job that waits: its place in line, and its id."""


def entry_of(record: JobRecord) -> Entry:
    """Where the job stands in its lane."""
    return (record.rank, record.routed_seq), record.id


class Lane:
    """jobs: ascending, by rank and then by when they came. short, cap: why its first job cannot run; neither while that
    is not known. filed: the place in line of its first job under which it is kept while it is blocked.

    untold: jobs that were never told why they wait. held_up: it was blocked since it was last empty.
    word: what was said last about why it waits, found when the line's `epoch` was `word_epoch`.
    """

    __slots__ = (
        "cap", "due", "filed", "held_up", "jobs", "kind", "number", "queue", "short", "untold", "word", "word_epoch",
    )  # fmt: skip

    def __init__(self, queue: str, kind: Kind, *, number: int) -> None:
        self.queue = queue
        self.kind = kind
        self.number = number
        self.jobs: list[Entry] = []
        self.untold: dict[str, None] = {}
        self.held_up = False
        self.short: Short | None = None
        self.cap: Cap | None = None
        self.filed: Place = (0, 0)
        self.word: Blocked | None = None
        self.word_epoch = -1
        self.due = 0

    @property
    def is_blocked(self) -> bool:
        """Whether it was judged, and its first job could not run."""
        return self.short is not None or self.cap is not None

    def stands(self, entry: Entry) -> bool:
        """Whether this job waits here."""
        at = bisect_left(self.jobs, entry)
        return at < len(self.jobs) and self.jobs[at] == entry


class InLine:
    """Lanes by the place in line of their first job. A lane is kept in one of these at a time."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes: list[tuple[Place, int, Lane]] = []

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def lanes(self) -> list[tuple[Place, int, Lane]]:
        """The first in line first, each behind the place of its first job and its own number; not to be changed."""
        return self._lanes

    def add(self, lane: Lane) -> None:
        """Keep a lane that is not empty."""
        lane.filed = lane.jobs[0][0]
        insort(self._lanes, (lane.filed, lane.number, lane))

    def remove(self, lane: Lane) -> None:
        """Keep it no more."""
        at = bisect_left(self._lanes, (lane.filed, lane.number))
        assert self._lanes[at][2] is lane
        del self._lanes[at]

    def refile(self, lane: Lane) -> None:
        """Another job may be the first of the lane."""
        if lane.filed != lane.jobs[0][0]:
            self.remove(lane)
            self.add(lane)


class Short:
    """Lanes of one kind, by queue, for which there is no room. refused: the fleet's version when that was tried.

    word: why, found when the line's epoch was `word_epoch`, and not looked for again before `word_until`.
    """

    __slots__ = ("kind", "lanes", "refused", "watch", "word", "word_epoch", "word_until")

    def __init__(self, kind: Kind, watch: Watch) -> None:
        self.kind = kind
        self.watch = watch
        self.lanes: dict[str, Lane] = {}
        self.refused = -2
        self.word: Blocked | None = None
        self.word_epoch = -1
        self.word_until = Instant(0)


class Shorts:
    """All lanes that fell short. hopes: kinds for which there may be room again."""

    def __init__(self, rooms: Rooms) -> None:
        self.hopes: dict[Watch, Short] = {}
        self._rooms = rooms
        self._of_kind: dict[Kind, Short] = {}
        self._of_watch: dict[Watch, Short] = {}
        self._of_queue: dict[str, InLine] = {}

    def of_kind(self, kind: Kind) -> Short | None:
        """What is known of the lanes of one kind, if one fell short."""
        return self._of_kind.get(kind)

    def add(self, lane: Lane) -> Short:
        """The lane, which is not empty, fell short; or it did already."""
        short = self._of_kind.get(lane.kind)
        if short is None:
            watch = self._rooms.watch(lane.kind.gang)
            short = self._of_kind[lane.kind] = self._of_watch[watch] = Short(lane.kind, watch)
        if lane.queue not in short.lanes:
            short.lanes[lane.queue] = lane
            self._of_queue.setdefault(lane.queue, InLine()).add(lane)
        return short

    def remove(self, lane: Lane, short: Short) -> None:
        """It is no longer so."""
        del short.lanes[lane.queue]
        in_line = self._of_queue[lane.queue]
        in_line.remove(lane)
        if not in_line:
            del self._of_queue[lane.queue]
        if not short.lanes:
            self._rooms.unwatch(short.watch)
            del self._of_kind[short.kind], self._of_watch[short.watch]
            self.hopes.pop(short.watch, None)

    def refile(self, lane: Lane) -> None:
        """Another job may be the first of the lane."""
        self._of_queue[lane.queue].refile(lane)

    def hope(self, *, for_all: bool) -> None:
        """Find the kinds for which there is room, among all of them or among those that were found last."""
        among = self._of_watch if for_all else self.hopes
        found = self._rooms.hopeful(None if for_all else among) if among else ()
        self.hopes = {watch: among[watch] for watch in found}

    def has_room(self, short: Short) -> bool:
        """Whether there is room for lanes of this kind now."""
        return self._rooms.has_room(short.watch)

    def hopeful(self) -> Iterator[tuple[str, Iterator[Lane]]]:
        """Queues with lanes for which there may be room, and those lanes, the first in line first.

        The lanes are found one by one, when they are asked for: those are left out for which hope was given up by then.
        """
        queues = dict[str, Lane]()
        for short in self.hopes.values():
            queues.update(short.lanes)
        for queue in queues:
            yield queue, self._hopeful(self._of_queue[queue])

    def _hopeful(self, in_line: InLine) -> Iterator[Lane]:
        for _, _, lane in in_line.lanes().copy():
            if not self.hopes:
                return
            if lane.short is not None and lane.short.watch in self.hopes:
                yield lane


SiteKey = tuple[str, str, bool]
"""Queue, resource, and whether the jobs may be preempted."""


class Cap:
    """What a lane's first job would break.

    resource: of which too little is left for it; "" if its queue is not there. amounts: all that it needs. word: why,
    in words. is_restless: another place might need less, so it is tried whenever anything moved: which place is found
    depends on what others take as much as on what they give up. is_provisional: that counts proposals which may yet be
    taken back. need: how much of the resource must be available.
    """

    __slots__ = ("amounts", "is_provisional", "is_restless", "need", "resource", "word")

    def __init__(
        self,
        resource: str,
        word: Blocked,
        *,
        amounts: Amounts = NO_AMOUNTS,
        is_restless: bool = False,
        is_provisional: bool = False,
    ) -> None:
        self.resource = resource
        self.amounts = amounts
        self.word = word
        self.is_restless = is_restless
        self.is_provisional = is_provisional
        self.need = amounts.get(resource, 0)


class Site:
    """Lanes of one queue that need more of one resource than was available.

    lanes: by how much they need, each list by the place in line of the lane's first job. left: what was available when
    that was last looked at.
    """

    __slots__ = ("key", "lanes", "left", "waits_on")

    def __init__(self, key: SiteKey) -> None:
        self.key = key
        self.lanes: dict[int, InLine] = {}
        self.left = 0
        self.waits_on: tuple[tuple[str, str], ...] = ()

    @property
    def is_hopeful(self) -> bool:
        """Whether there is enough for the one that needs least."""
        return any(need <= self.left for need in self.lanes)


class Caps:
    """All lanes that ran into a quota. hopeful: sites with lanes that are worth trying again."""

    def __init__(self) -> None:
        self.hopeful: dict[Site, None] = {}
        self._sites: dict[SiteKey, Site] = {}
        self._waiting: dict[tuple[str, str], dict[Site, None]] = {}
        self._unknown: dict[str, dict[Lane, None]] = {}
        self._restless: dict[Lane, None] = {}

    def add(self, lane: Lane, cap: Cap, tree: QueueTree) -> None:
        """The lane, which is not empty, ran into this."""
        if not cap.resource:
            self._unknown.setdefault(lane.queue, {})[lane] = None
            return
        key = lane.queue, cap.resource, lane.kind.preemptible
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = Site(key)
        site.lanes.setdefault(cap.need, InLine()).add(lane)
        self._look(site, tree)
        if cap.is_restless:
            self._restless[lane] = None

    def remove(self, lane: Lane, cap: Cap) -> None:
        """It is no longer so."""
        if not cap.resource:
            known = self._unknown[lane.queue]
            del known[lane]
            if not known:
                del self._unknown[lane.queue]
            return
        site = self._sites[lane.queue, cap.resource, lane.kind.preemptible]
        in_line = site.lanes[cap.need]
        in_line.remove(lane)
        if not in_line:
            del site.lanes[cap.need]
        self._restless.pop(lane, None)
        if not site.lanes:
            self._wait_on(site, ())
            self.hopeful.pop(site, None)
            del self._sites[site.key]

    def refile(self, lane: Lane, cap: Cap) -> None:
        """Another job may be the first of the lane."""
        if cap.resource:
            self._sites[lane.queue, cap.resource, lane.kind.preemptible].lanes[cap.need].refile(lane)

    def relieve(self, relieved: Iterable[tuple[str, str]], tree: QueueTree) -> None:
        """Less is held at these (queue, resource): see for whom there may be enough now."""
        sites: dict[Site, None] = dict(self.hopeful)
        for key in relieved:
            sites.update(self._waiting.get(key, ()))
        for site in sites:
            self._look(site, tree)

    def relieve_all(self, tree: QueueTree) -> None:
        """Anything may have changed."""
        for site in self._sites.values():
            self._look(site, tree)

    def hopeful_lanes(self) -> Iterator[tuple[str, Iterator[Lane]]]:
        """Queues with lanes for which there may be enough; lanes that need equally much, the first in line first."""
        for site in self.hopeful:
            for need, in_line in site.lanes.items():
                if need <= site.left:
                    yield site.key[0], iter([lane for _, _, lane in in_line.lanes()])

    def of_queue(self, queue: str) -> tuple[Lane, ...]:
        """The lanes of a queue that was not there."""
        return tuple(self._unknown.get(queue, ()))

    def restless(self) -> tuple[Lane, ...]:
        """Lanes to be tried when anything moved."""
        return tuple(self._restless)

    def _look(self, site: Site, tree: QueueTree) -> None:
        queue, resource, preemptible = site.key
        site.left = tree.available(queue, resource, preemptible=preemptible)
        self._wait_on(site, tuple((above, resource) for above in tree.waits_on(queue, resource)))
        if site.is_hopeful:
            self.hopeful[site] = None
        else:
            self.hopeful.pop(site, None)

    def _wait_on(self, site: Site, keys: tuple[tuple[str, str], ...]) -> None:
        if keys == site.waits_on:
            return
        for key in site.waits_on:
            waiting = self._waiting[key]
            del waiting[site]
            if not waiting:
                del self._waiting[key]
        for key in keys:
            self._waiting.setdefault(key, {})[site] = None
        site.waits_on = keys
