"""Seeded random numbers without a generator: functions of a seed and a purpose.

A simulated cluster that crashes and restarts draws the same numbers again, whatever else it drew before.
"""

import hashlib
import math

_TWO_64 = float(1 << 64)


def uniform(seed: int, *purpose: str | int) -> float:
    """Return a number in [0, 1), always the same for a seed and purpose, from 64 bits of SHA-256."""
    digest = hashlib.sha256("\x1f".join(map(str, (seed, *purpose))).encode()).digest()
    return int.from_bytes(digest[:8], "big") / _TWO_64


def exponential(mean: float, seed: int, *purpose: str | int) -> float:
    """Return an exponentially distributed number with `mean`: the time to the next of independent events."""
    return -mean * math.log1p(-uniform(seed, *purpose))


def lognormal(median: float, sigma: float, seed: int, *purpose: str | int) -> float:
    """Return a log-normal number around `median`; `sigma` is the deviation of the logarithm (Box and Muller, 1958)."""
    first = 1.0 - uniform(seed, *purpose, "radius")
    second = uniform(seed, *purpose, "angle")
    normal = math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second)
    return median * math.exp(sigma * normal)
