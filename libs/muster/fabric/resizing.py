"""Resizes of a Cluster Manager that run side by side, and from which count the next one may go on.

A resize names how many devices there shall be, not how many more. The manager raises its `device_count` when it likes,
and lowers it again when an attachment comes to nothing. So the next resize starts from what the manager shows, and only
once it has shown what the last one asked for, or none runs any more: to count on from a number that was only asked for
would ask for a device twice when an earlier attachment fell back. What is left is the moment between that look and the
resize; a device too many that comes of it is found by the next survey as an orphan.
"""

from dataclasses import dataclass, field


@dataclass
class Resizes:
    """Those under way for one spec of one machine. count: the last one asked for, at asked_at_s of the loop's clock.

    is_shown: the manager has shown that count since. taken: devices that calls ended with.
    """

    running: int = 0
    count: int = 0
    asked_at_s: float = 0.0
    is_shown: bool = True
    taken: set[str] = field(default_factory=set)

    def asked(self, count: int, *, at_s: float) -> None:
        """A resize to this count was taken on."""
        self.count, self.asked_at_s, self.is_shown = count, at_s, False

    def saw(self, count: int, *, since_s: float) -> None:
        """A look that began then showed this count. One that began before the resize was taken on says nothing."""
        self.is_shown = self.is_shown or (count == self.count and since_s >= self.asked_at_s)

    @property
    def may_go_on(self) -> bool:
        """Whether what the manager shows can be counted on from."""
        return self.is_shown or not self.running


class ResizesOf:
    """All that are under way, by machine and spec; nothing is kept of what is over."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], Resizes] = {}

    def begin(self, machine: str, spec: str) -> Resizes:
        """One more runs, until `end`."""
        resizes = self._of.setdefault((machine, spec), Resizes())
        resizes.running += 1
        return resizes

    def end(self, machine: str, spec: str) -> None:
        """One less runs."""
        resizes = self._of[machine, spec]
        resizes.running -= 1
        if not resizes.running:
            del self._of[machine, spec]

    def saw(self, machine: str, spec: str, count: int, *, since_s: float) -> None:
        """See `Resizes.saw`."""
        if (resizes := self._of.get((machine, spec))) is not None:
            resizes.saw(count, since_s=since_s)

    def may_go_on(self, machine: str, spec: str) -> bool:
        """See `Resizes.may_go_on`."""
        resizes = self._of.get((machine, spec))
        return resizes is None or resizes.may_go_on
