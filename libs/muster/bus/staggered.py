"""Visits many names once per interval, a slice at a time, so that they are not all visited in one burst."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

TICK_S = 0.25
"""How finely an interval is divided: the slice of one tick has its turn together."""


@dataclass
class StaggeredRounds:
    """Visits a changing set of names once per interval. Pure: `turn` returns the next names."""

    interval_s: float
    _ring: tuple[str, ...] = ()
    _tick: int = field(default=0)
    rounds: int = 0

    @property
    def ticks(self) -> int:
        """Ticks of one round."""
        return max(1, round(self.interval_s / TICK_S))

    def turn(self, names: Callable[[], Sequence[str]]) -> Sequence[str]:
        """Return the names whose turn this tick is, each once per round. names: called at the start of each round."""
        if not self.interval_s:
            return ()
        if self._tick == 0:
            self._ring = tuple(names())
            self.rounds += 1
        first = len(self._ring) * self._tick // self.ticks
        self._tick += 1
        last = len(self._ring) * self._tick // self.ticks
        self._tick %= self.ticks
        return self._ring[first:last]
