"""The domains that nodes declare: which nodes are within one block, one rack.

A domain is known by its whole path from the widest level, because racks of two blocks may share a name.
"""

from collections.abc import Iterable

from muster.placement.shapes import NodeShape

Path = tuple[tuple[str, str], ...]
Domains = list[tuple[Path, list[str]]]


class Topology:
    """Levels, widest first, and the names of the nodes in each domain."""

    def __init__(self) -> None:
        self._paths: dict[str, Path] = {}
        self._members: dict[str, dict[Path, set[str]]] = {}
        self._depths: dict[str, int] = {}

    def add(self, node: NodeShape) -> None:
        """Enter a node in its domains."""
        self._paths[node.name] = node.domains
        for depth, (level, _) in enumerate(node.domains):
            domains = self._members.setdefault(level, {})
            domains.setdefault(node.domains[: depth + 1], set()).add(node.name)
            self._depths[level] = max(depth, self._depths.get(level, 0))

    def remove(self, name: str) -> None:
        """Take a node out of its domains; a level that no node declares any more is gone."""
        path = self._paths.pop(name)
        for depth, (level, _) in enumerate(path):
            domains = self._members[level]
            members = domains[path[: depth + 1]]
            members.remove(name)
            if not members:
                del domains[path[: depth + 1]]
            if not domains:
                del self._members[level], self._depths[level]

    def path(self, name: str) -> Path:
        """All domains of a node, widest first."""
        return self._paths[name]

    def levels(self) -> list[str]:
        """Declared levels, widest first."""
        return sorted(self._depths, key=lambda level: (self._depths[level], level))

    def domains(self, level: str) -> Domains:
        """All domains of a level with the names of their nodes, sorted."""
        return [(path, sorted(names)) for path, names in sorted(self._members.get(level, {}).items())]

    def split(self, names: Iterable[str], level: str) -> Domains:
        """These nodes by their domain of a level; those without one come together under the empty path."""
        parts: dict[Path, list[str]] = {}
        for name in names:
            path = self._paths[name]
            depth = next((i for i, (declared, _) in enumerate(path) if declared == level), -1)
            parts.setdefault(path[: depth + 1], []).append(name)
        return sorted(parts.items())
