"""The devices of one node in their domains (sockets, pairs), and the choice of devices for a replica.

A node that declares domains is represented by its arrangement: the idle shares of its usable devices, nested as its
domains and sorted at every level, so that nodes which differ only in numbering are in the same state. In it a device is
identified by its position, from left to right; `Layout.arrange` returns the device of the node at each position.

Whole devices are taken in the narrowest domain that holds them all; of several, in the one with the fewest idle
devices, in itself and then around it. If no part of a domain holds them all, its fullest part is taken first and then
the tightest for the rest (BestFit of Kueue's KEP-2724, one level below). A share is taken from a device with the fewest
idle devices around it.
"""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

from muster.placement.shapes import DEVICE_MILLI

CHOICES_MAX = 8_192
"""Cached answers about arrangements, per question or layout."""

LAYOUTS_MAX = 256
"""Cached layouts, which nodes with the same numbering of devices share."""

BROKEN = -1
"""The idle share of a device that must not be used."""

Tree = tuple["Tree", ...] | tuple[int, ...]
Arrangement = tuple[()] | tuple[tuple[str, ...], Tree]
"""Levels, widest first, and the idle shares nested accordingly; () for a node that declares none."""

Span = tuple[int, int]
"""One domain: its first position and the position after its last."""


class Layout:
    """A node's devices by domain: the parts of a domain, or the devices of a domain of the narrowest level."""

    __slots__ = ("_arranged", "_devices", "_parts", "levels")

    def __init__(self, devices: Collection[int], device_domains: Sequence[tuple[str, Sequence[int]]]) -> None:
        self.levels = tuple([level for level, _ in device_domains])
        numbers = [numbers for _, numbers in device_domains]
        self._devices: Collection[int] = () if numbers else devices
        parts: dict[int, list[int]] = {}
        if numbers:
            for device in devices:
                parts.setdefault(numbers[0][device], []).append(device)
        self._parts = [Layout(part, device_domains[1:]) for part in parts.values()]
        self._arranged: dict[tuple[int, ...], tuple[Tree, list[int]]] = {}
        assert not (self._devices and self._parts)

    def arrange(self, idle: tuple[int, ...]) -> tuple[Tree, list[int]]:
        """Return the idle shares, nested and sorted, and the device at each position; BROKEN devices are left out."""
        known = self._arranged.get(idle)
        if known is None:
            if len(self._arranged) >= CHOICES_MAX:
                self._arranged.clear()
            known = self._arranged[idle] = self._arrange(idle)
        return known

    def _arrange(self, idle: tuple[int, ...]) -> tuple[Tree, list[int]]:
        if not self._parts:
            devices = sorted([device for device in self._devices if idle[device] != BROKEN], key=idle.__getitem__)
            return tuple([idle[device] for device in devices]), devices
        parts = sorted([part._arrange(idle) for part in self._parts])  # noqa: SLF001 -- parts of its own
        return tuple([tree for tree, _ in parts]), [device for _, devices in parts for device in devices]


@lru_cache(LAYOUTS_MAX)
def layout_of(
    device_domains: tuple[tuple[str, tuple[int, ...]], ...], absent: frozenset[int] = frozenset()
) -> Layout | None:
    """Return the layout of nodes with these domains; None without domains. `absent`: places without a device."""
    if not device_domains:
        return None
    return Layout([index for index in range(len(device_domains[0][1])) if index not in absent], device_domains)


@lru_cache(CHOICES_MAX)
def whole_by_domain(arrangement: Arrangement, level: str) -> tuple[int, ...]:
    """Return the idle whole devices in each domain of a level; () if the node does not declare it."""
    if not arrangement or level not in arrangement[0]:
        return ()
    view = _View(arrangement[0], arrangement[1])
    return tuple([view.idle(span) for span in view.spans[arrangement[0].index(level) + 1]])


@lru_cache(CHOICES_MAX)
def choose_whole(arrangement: Arrangement, wanted: int, level: str = "") -> tuple[int, ...]:
    """Return positions of `wanted` idle whole devices as close together as possible; there must be enough.

    With `level`, they must be within one domain of that level; "": within any domain.
    """
    assert arrangement, "a node without domains has no positions"
    view = _View(arrangement[0], arrangement[1])
    widest = arrangement[0].index(level) + 1 if level else 0
    depth, span = view.narrowest(wanted, view.spans[widest], widest)
    return tuple(view.take(wanted, span, depth))


@lru_cache(CHOICES_MAX)
def choose_share(arrangement: Arrangement, share: int) -> int:
    """Return the position of a device with exactly this idle share, with the fewest idle devices around it."""
    assert arrangement, "a node without domains has no positions"
    view = _View(arrangement[0], arrangement[1])
    positions = [position for position, idle in enumerate(view.shares) if idle == share]
    return min(positions, key=lambda position: view.tightness((position, position + 1), view.depth + 1))


@lru_cache(CHOICES_MAX)
def is_apart(arrangement: Arrangement, wanted: int) -> bool:
    """Return whether as many idle whole devices are further apart than if all devices were idle."""
    if not arrangement or wanted < 2:
        return False
    view = _View(arrangement[0], arrangement[1])
    depth, _ = view.narrowest(wanted, view.spans[0], 0)
    return any(stop - start >= wanted for inner in view.spans[depth + 1 :] for start, stop in inner)


def after_taking(arrangement: Arrangement, positions: Collection[int], milli: int) -> Arrangement:
    """Return the arrangement after this amount of each of these devices is held."""
    if not arrangement:
        return ()
    shares = _flat(arrangement[1], len(arrangement[0]))
    for position in positions:
        shares[position] -= milli
    return arrangement[0], _refill(arrangement[1], len(arrangement[0]), iter(shares).__next__)


class _View:
    """An arrangement flattened: idle shares by position, and the domains of each level (0: the node itself)."""

    def __init__(self, levels: tuple[str, ...], tree: Tree) -> None:
        self.depth = len(levels)
        self.shares = _flat(tree, self.depth)
        self.spans: list[list[Span]] = [[] for _ in range(self.depth + 1)]
        self._collect(tree, 0, 0)
        self._idle_before = [0]
        for share in self.shares:
            self._idle_before.append(self._idle_before[-1] + (share == DEVICE_MILLI))

    def idle(self, span: Span) -> int:
        """Return the number of idle whole devices of a domain."""
        return self._idle_before[span[1]] - self._idle_before[span[0]]

    def tightness(self, span: Span, depth: int) -> tuple[int, ...]:
        """Return the idle devices of a domain and of the domains around it, narrowest first, then its position."""
        around = [self.idle(_around(span, self.spans[level])) for level in range(depth - 1, -1, -1)]
        return (self.idle(span), *around, span[0])

    def narrowest(self, wanted: int, among: Sequence[Span], depth: int) -> tuple[int, Span]:
        """Return level and domain within one of these with enough devices; the tightest of the narrowest level."""
        for level in range(self.depth, depth - 1, -1):
            able = [
                span
                for span in self.spans[level]
                if self.idle(span) >= wanted and any(start <= span[0] and span[1] <= stop for start, stop in among)
            ]
            if able:
                return level, min(able, key=lambda span: self.tightness(span, level))
        raise AssertionError(f"{wanted} devices asked of {self.shares}")

    def take(self, wanted: int, span: Span, depth: int) -> list[int]:
        """Return positions in a domain of which no part has enough devices."""
        if depth == self.depth:
            return [at for at in range(*span) if self.shares[at] == DEVICE_MILLI][:wanted]
        taken: list[int] = []
        parts = [part for part in self.spans[depth + 1] if span[0] <= part[0] and part[1] <= span[1]]
        while len(taken) < wanted:
            left = wanted - len(taken)
            enough = [part for part in parts if self.idle(part) >= left]
            if enough:
                inner, place = self.narrowest(left, enough, depth + 1)
                return taken + self.take(left, place, inner)
            fullest = max(parts, key=self.idle)
            parts.remove(fullest)
            taken += [at for at in range(*fullest) if self.shares[at] == DEVICE_MILLI]
        return taken

    def _collect(self, tree: Tree, depth: int, start: int) -> int:
        stop = start
        if depth == self.depth:
            stop += len(tree)
        else:
            for part in tree:
                assert isinstance(part, tuple)
                stop = self._collect(part, depth + 1, stop)
        self.spans[depth].append((start, stop))
        return stop


def _around(span: Span, domains: Sequence[Span]) -> Span:
    return next(domain for domain in domains if domain[0] <= span[0] and span[1] <= domain[1])


def _flat(tree: Tree, depth: int) -> list[int]:
    if not depth:
        return [share for share in tree if isinstance(share, int)]
    return [share for part in tree if isinstance(part, tuple) for share in _flat(part, depth - 1)]


def _refill(tree: Tree, depth: int, next_share: Callable[[], int]) -> Tree:
    if not depth:
        return tuple(sorted([next_share() for _ in tree]))
    return tuple(sorted([_refill(part, depth - 1, next_share) for part in tree if isinstance(part, tuple)]))
