"""Use that is forgotten by half-lives: the average of what was held, where the newest counts most.

    U(t) = H + (U0 - H) * 0.5 ** ((t - t0) / half_life)

with U0 the average at t0 and H what is held since then: the closed form of admission fair sharing's repeated sampling,
so that nothing has to be sampled. It is brought up to date only when H changes.
"""

import math
from collections.abc import Iterator

PRINCIPALS_MAX = 256
"""Principals of one queue whose use is remembered; beyond it those that hold nothing are forgotten, oldest first."""


class Decayed:
    """held: at present. average: as of `at` (nanoseconds; 0: nothing was ever held)."""

    __slots__ = ("at", "average", "held")

    def __init__(self, *, held: int = 0, average: float = 0.0, at: int = 0) -> None:
        self.held = held
        self.average = average
        self.at = at

    def average_at(self, now: int, half_life_ns: float) -> float:
        """The average at a later moment."""
        return decayed(self.average, self.held, now - self.at if self.at else 0, half_life_ns)

    def add(self, amount: int, *, at: int, half_life_ns: float) -> None:
        """So much more (negative: less) is held from then on; at 0 the average is left as it is."""
        if at:
            self.average = self.average_at(at, half_life_ns)
            self.at = max(at, self.at)
        self.held += amount


def decayed(average: float, held: int, passed_ns: int, half_life_ns: float) -> float:
    """The average after so long; a clock that goes backwards changes nothing."""
    if passed_ns <= 0 or average == held:
        return average
    # an exponent beyond a thousand half-lives is 0 in floating point anyway, and must not overflow on the way
    return held + (average - held) * math.exp2(-min(passed_ns / half_life_ns, 1_000.0))


class Principals:
    """How much of a queue's GPUs each principal held lately."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[str, Decayed] = {}

    def __iter__(self) -> Iterator[tuple[str, Decayed]]:
        return iter(self._of.items())

    def add(self, principal: str, milli: int, *, at: int, half_life_ns: float) -> None:
        """The principal holds so much more (negative: less)."""
        use = self._of.get(principal) or Decayed()
        use.add(milli, at=at, half_life_ns=half_life_ns)
        if at:
            self._of.pop(principal, None)  # the order is that of the last change
        self._of[principal] = use
        if at and len(self._of) > PRINCIPALS_MAX:
            self._forget()

    def load(self, principal: str, *, average: float, at: int) -> None:
        """As a checkpoint says."""
        use = self._of.pop(principal, None) or Decayed()
        use.average, use.at = average, at
        self._of[principal] = use

    def settle(self, at: int, half_life_ns: float) -> None:
        """Bring every average up to date: another half-life counts from now on."""
        for use in self._of.values():
            use.add(0, at=at, half_life_ns=half_life_ns)

    def total(self, now: int, half_life_ns: float) -> float:
        """What all of them held lately."""
        return sum(use.average_at(now, half_life_ns) for use in self._of.values())

    def share(self, principal: str, now: int, half_life_ns: float) -> float:
        """Which part of all that was held lately the principal held, 0 to 1."""
        mine = self._of.get(principal)
        if mine is None:
            return 0.0
        total = self.total(now, half_life_ns)
        return min(1.0, mine.average_at(now, half_life_ns) / total) if total > 0 else 0.0

    def _forget(self) -> None:
        idle = [name for name, use in self._of.items() if not use.held]
        for name in idle[: len(self._of) - PRINCIPALS_MAX]:
            del self._of[name]
