"""Which draft is it, where appends fail and nothing says why: fewer and fewer are sent, and then none. Pure.

An append that fails may have nothing to do with its drafts: the broker may be away. So the last one that is left is
blamed only if appends without any draft are stored before and after it failed.
"""

from collections.abc import Sequence

from muster.bus.batches import first_blocks
from muster.core.fact import Draft

FAILURES_MIN = 2
"""So often in a row appends fail before fewer drafts are sent."""


class Narrowing:
    """What to send next. is_control: no draft is sent, to see whether the broker stores anything at all."""

    def __init__(self) -> None:
        self.is_control = False
        self._failures = 0
        self._most = 0
        self._sent: Sequence[Draft] = ()
        self._suspects: Sequence[Draft] = ()
        self._may_blame = False

    def next(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Return the drafts to send: all of them while nothing fails."""
        if self.is_control:
            self._sent = ()
        else:
            self._sent = first_blocks(drafts, self._most) if self._most else drafts
        return self._sent

    def failed(self) -> None:
        """The append failed."""
        self._failures += 1
        if self.is_control:  # the broker is away: nothing is known of the suspects
            self.is_control, self._may_blame, self._suspects = False, False, ()
            return
        if self._failures < FAILURES_MIN or not self._sent:
            return
        is_single = len(first_blocks(self._sent, 1)) == len(self._sent)
        if is_single:
            self.is_control, self._suspects = True, self._sent
        self._most = max(1, len(self._sent) // 2)

    def stored(self) -> Sequence[Draft]:
        """The append was stored. Return the drafts that are to blame for earlier failures, if that is known now."""
        if self.is_control:
            blamed: Sequence[Draft] = self._suspects if self._may_blame else ()
            self.is_control, self._may_blame, self._suspects = False, not blamed, ()
            return blamed
        self._failures, self._may_blame = 0, False
        self._most *= 2
        if self._most > len(self._sent) * 2:
            self._most = 0
        return ()
