"""Token buckets that limit how much each key may take. Pure: the time is an argument."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit: `per_s` on average, and at most `burst` at once."""

    per_s: float
    burst: int


class Buckets:
    """One token bucket for each key, full at first; beyond keys_max, the least recently used one is dropped."""

    def __init__(self, *, keys_max: int) -> None:
        self._keys_max = keys_max
        self._kept: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        """Remaining tokens, and the time of that count."""

    def take(self, key: Hashable, rate: Rate, *, cost: int, now_s: float) -> float:
        """Take `cost` and return 0.0, or take nothing and return the seconds until enough is available.

        A cost above the burst is taken from a full bucket, which then takes longer to refill.
        """
        left = self.left(key, rate, now_s=now_s)
        needed = min(cost, rate.burst)
        if left < needed:
            return (needed - left) / rate.per_s
        self._kept[key] = (left - cost, now_s)
        self._kept.move_to_end(key)
        if len(self._kept) > self._keys_max:
            self._kept.popitem(last=False)
        return 0.0

    def give_back(self, key: Hashable, cost: int) -> None:
        """Undo a `take`; a bucket never holds more than its burst."""
        if key in self._kept:
            left, at_s = self._kept[key]
            self._kept[key] = (left + cost, at_s)

    def left(self, key: Hashable, rate: Rate, *, now_s: float) -> float:
        """Return how much may be taken now."""
        left, at_s = self._kept.get(key, (float(rate.burst), now_s))
        return min(float(rate.burst), left + max(0.0, now_s - at_s) * rate.per_s)
