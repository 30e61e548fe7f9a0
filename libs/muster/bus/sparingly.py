"""Log lines of what may happen thousands of times a second: some are said, the rest is counted and told once. Pure."""

WINDOW_S = 1.0


class Sparingly:
    """At most `lines_max` in any window of a second. For one thread."""

    def __init__(self, lines_max: int) -> None:
        assert lines_max > 0, "who says nothing needs no such thing"
        self._lines_max = lines_max
        self._began_s = float("-inf")
        self._said = 0
        self._left_out = 0

    def may_say(self, now_s: float) -> bool:
        """Whether this line may be said; else it is counted. now_s: of a clock that never jumps."""
        if now_s - self._began_s >= WINDOW_S:
            self._began_s, self._said = now_s, 0
        self._said += 1
        if self._said <= self._lines_max:
            return True
        self._left_out += 1
        return False

    def left_out(self) -> int:
        """How many were not said since this was asked last."""
        left_out, self._left_out = self._left_out, 0
        return left_out
