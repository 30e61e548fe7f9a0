"""A quota of queues for tests of placement."""

from dataclasses import dataclass, field


@dataclass
class Quota:
    """Rules as simple as can be: so much must come free among those who count, and so many may be taken at most."""

    lacking: int = 0
    frees: dict[str, int] = field(default_factory=dict)
    protected: frozenset[str] = frozenset()
    after: dict[str, str] = field(default_factory=dict)
    most: int = 1000
    taken: list[str] = field(default_factory=list)

    def may_take(self, key: str) -> bool:
        first = self.after.get(key)
        allowed = key not in self.protected and (first is None or first in self.taken)
        return allowed and len(self.taken) < self.most

    def take(self, key: str) -> None:
        assert key not in self.taken
        self.taken.append(key)

    def put_back(self, key: str) -> None:
        self.taken.remove(key)

    def admits(self) -> bool:
        return sum(self.frees.get(key, 0) for key in self.taken) >= self.lacking
