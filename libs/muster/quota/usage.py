"""Usage that decays by half-lives: the average of held amounts, in which recent amounts weigh most.

    U(t) = H + (U0 - H) * 0.5 ** ((t - t0) / half_life)

U0 is the average at t0, and H is held since then: the closed form of the repeated sampling of Kueue's admission fair
sharing, so that nothing has to be sampled. It is updated only when H changes.
"""

import math
from collections.abc import Iterator

PRINCIPALS_MAX = 256
"""Principals of one queue whose usage is remembered; beyond it those that hold nothing are forgotten, oldest first."""


class Decayed:
    """A held amount, and its average as of `at` in nanoseconds (0: nothing was ever held)."""

    __slots__ = ("at", "average", "held")

    def __init__(self, *, held: int = 0, average: float = 0.0, at: int = 0) -> None:
        self.held = held
        self.average = average
        self.at = at

    def average_at(self, now: int, half_life_ns: float) -> float:
        """Return the average at a later time."""
        return decayed(self.average, self.held, now - self.at if self.at else 0, half_life_ns)

    def add(self, amount: int, *, at: int, half_life_ns: float) -> None:
        """Add an amount (negative: remove) at a time; with `at` 0 the average is unchanged."""
        if at:
            self.average = self.average_at(at, half_life_ns)
            self.at = max(at, self.at)
        self.held += amount


def decayed(average: float, held: int, passed_ns: int, half_life_ns: float) -> float:
    """Return the average after a time; a clock that goes backwards changes nothing."""
    if passed_ns <= 0 or average == held:
        return average
    # beyond a thousand half-lives the factor is 0 in floating point anyway; the limit prevents an overflow
    return held + (average - held) * math.exp2(-min(passed_ns / half_life_ns, 1_000.0))


class Principals:
    """The decayed GPU usage of each principal of a queue."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[str, Decayed] = {}

    def __iter__(self) -> Iterator[tuple[str, Decayed]]:
        return iter(self._of.items())

    def add(self, principal: str, milli: int, *, at: int, half_life_ns: float) -> None:
        """Add an amount to the principal's usage (negative: remove)."""
        use = self._of.get(principal) or Decayed()
        use.add(milli, at=at, half_life_ns=half_life_ns)
        if at:
            self._of.pop(principal, None)  # entries are in the order of their last change
        self._of[principal] = use
        if at and len(self._of) > PRINCIPALS_MAX:
            self._forget()

    def load(self, principal: str, *, average: float, at: int) -> None:
        """Load the usage of a principal from a checkpoint."""
        use = self._of.pop(principal, None) or Decayed()
        use.average, use.at = average, at
        self._of[principal] = use

    def settle(self, at: int, half_life_ns: float) -> None:
        """Update every average, before the half-life changes."""
        for use in self._of.values():
            use.add(0, at=at, half_life_ns=half_life_ns)

    def total(self, now: int, half_life_ns: float) -> float:
        """Return the decayed usage of all principals."""
        return sum(use.average_at(now, half_life_ns) for use in self._of.values())

    def share(self, principal: str, now: int, half_life_ns: float) -> float:
        """Return the principal's part of the decayed usage, 0 to 1."""
        mine = self._of.get(principal)
        if mine is None:
            return 0.0
        total = self.total(now, half_life_ns)
        return min(1.0, mine.average_at(now, half_life_ns) / total) if total > 0 else 0.0

    def _forget(self) -> None:
        idle = [name for name, use in self._of.items() if not use.held]
        for name in idle[: len(self._of) - PRINCIPALS_MAX]:
            del self._of[name]
