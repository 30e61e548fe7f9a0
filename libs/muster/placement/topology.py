"""The domains that nodes declare: which nodes are within one block or rack, and their states.

A domain is identified by its whole path from the widest level, because racks of two blocks may share a name. It keeps
its nodes by state, as the ledger moves them, so that judging a domain costs as much as it has states, not nodes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from muster.placement.shapes import NodeShape
from muster.placement.state import NodeState

Path = tuple[tuple[str, str], ...]


class Domain:
    """One domain: its path, the domains within it, the number of its nodes, and the usable ones by state, sorted."""

    __slots__ = ("nodes", "parts", "path", "states")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts: dict[Path, Domain] = {}
        self.nodes = 0
        self.states: dict[NodeState, list[str]] = {}

    @property
    def level(self) -> str:
        """The domain's level."""
        return self.path[-1][0]

    def move(self, name: str, before: NodeState | None, after: NodeState | None) -> None:
        """Move a node of this domain from one state to another (None: unusable)."""
        if before is not None:
            names = self.states[before]
            if len(names) == 1:
                del self.states[before]
            else:
                del names[bisect_left(names, name)]
        if after is not None:
            names = self.states.setdefault(after, [])
            insort(names, name)

    def first(self, state: NodeState) -> str | None:
        """Return the first node in this state."""
        names = self.states.get(state)
        return names[0] if names else None

    def items(self) -> Iterator[tuple[NodeState, int]]:
        """Yield each state with the number of its nodes."""
        return ((state, len(names)) for state, names in self.states.items())

    def within(self, level: str) -> Iterator["Domain"]:
        """Yield its domains of a narrower level, unordered."""
        for part in self.parts.values():
            if part.level == level:
                yield part
            else:
                yield from part.within(level)


class Topology:
    """Levels, widest first, and the domains of each; also the levels that nodes declare inside themselves."""

    def __init__(self) -> None:
        self._chains: dict[str, tuple[Domain, ...]] = {}
        self._device_levels: dict[str, tuple[str, ...]] = {}
        self._uses: dict[str, int] = {}
        self._domains: dict[str, dict[Path, Domain]] = {}
        self._sorted: dict[str, list[Domain]] = {}
        self._depths: dict[str, int] = {}
        self.device_levels: frozenset[str] = frozenset()

    def add(self, node: NodeShape) -> tuple[Domain, ...]:
        """Enter a node in its domains and return these, widest first; the node is in none of their states yet."""
        chain: list[Domain] = []
        for depth, (level, _) in enumerate(node.domains):
            path = node.domains[: depth + 1]
            domains = self._domains.setdefault(level, {})
            domain = domains.get(path)
            if domain is None:
                domain = domains[path] = Domain(path)
                self._sorted.pop(level, None)
                if chain:
                    chain[-1].parts[path] = domain
            domain.nodes += 1
            chain.append(domain)
            self._depths[level] = max(depth, self._depths.get(level, 0))
        self._chains[node.name] = tuple(chain)
        if node.device_domains:
            self._device_levels[node.name] = levels = tuple(level for level, _ in node.device_domains)
            for level in levels:
                self._uses[level] = self._uses.get(level, 0) + 1
        self._tell_device_levels()
        return self._chains[node.name]

    def remove(self, name: str) -> None:
        """Remove a node without a state from its domains; drop levels that no node declares any more."""
        chain = self._chains.pop(name)
        for at, domain in enumerate(chain):
            domain.nodes -= 1
            if not domain.nodes:
                assert not domain.states
                del self._domains[domain.level][domain.path]
                self._sorted.pop(domain.level, None)
                if at:
                    chain[at - 1].parts.pop(domain.path)
            if not self._domains[domain.level]:
                del self._domains[domain.level], self._depths[domain.level]
        for level in self._device_levels.pop(name, ()):
            self._uses[level] -= 1
            if not self._uses[level]:
                del self._uses[level]
        self._tell_device_levels()

    def path(self, name: str) -> Path:
        """Return all domains of a node, widest first."""
        chain = self._chains[name]
        return chain[-1].path if chain else ()

    def levels(self) -> list[str]:
        """Return the declared levels, widest first."""
        return sorted(self._depths, key=lambda level: (self._depths[level], level))

    def domains(self, level: str) -> Sequence[Domain]:
        """Return all domains of a level, sorted."""
        found = self._sorted.get(level)
        if found is None:
            by_path = self._domains.get(level)
            if by_path is None:
                return ()
            found = self._sorted[level] = [by_path[path] for path in sorted(by_path)]
        return found

    def _tell_device_levels(self) -> None:
        if self._uses or self.device_levels:
            # A level of the fleet stays one, whatever levels nodes declare inside themselves.
            self.device_levels = frozenset(level for level in self._uses if level not in self._domains)
