"""A bound on how often something is done: so many a second, and a burst after a quiet time. Pure."""


class TokenBucket:
    """`per_s` units a second, at most `burst` saved up. For one thread."""

    def __init__(self, *, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = float(burst)
        self._seen_s = float("-inf")

    def take(self, now_s: float) -> bool:
        """Take one unit; False if there is none. now_s: of a clock that never jumps."""
        passed_s = now_s - self._seen_s
        self._left = min(float(self._burst), self._left + passed_s * self._per_s)
        self._seen_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
