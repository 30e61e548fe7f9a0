"""Lanes that ran into a quota, and when to try them again.

They are kept by queue, resource and need, in line, so that what comes free is compared with a few numbers and not with
every lane. When usage falls somewhere in a tree, only those queues are looked at whose bound it may have
moved: each waits on the queues from itself up to the bound that it ran into, and is looked at when less is held there.
Why that is enough: what is available to a queue is the sum of what is left below that bound on the way, and of what the
bound leaves; none of these grows unless usage falls at one of those queues.
"""

from collections.abc import Iterable, Iterator

from muster.quota.amounts import NO_AMOUNTS, Amounts
from muster.quota.queues import QueueTree
from muster.scheduler.core.lanes import InLine, Lane
from muster.scheduler.core.reasons import Blocked

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
