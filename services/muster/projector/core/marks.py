"""Which rows changed since the store and the live view took them; a row is encoded once for both."""

from collections.abc import Callable, Iterable

Encode = Callable[[str], bytes | None]
"""The row of that name as it is now, encoded; None if there is none."""


class Marks:
    """Names of rows that changed, kept apart for each of the two that take them.

    A body is kept only from its first taker to its second, and not past the row's next change. The live view's marks
    are kept only while it is watched.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._stored: dict[str, None] = {}
        self._shown: dict[str, None] | None = None
        self._bodies: dict[str, bytes | None] = {}

    def touch(self, name: str) -> None:
        """The row changed."""
        self._stored[name] = None
        if self._shown is not None:
            self._shown[name] = None
            self._bodies.pop(name, None)

    def touch_stored(self, names: Iterable[str]) -> None:
        """These rows are to be stored again, too, whether they changed or not."""
        self._stored.update(dict.fromkeys(names))

    def drop_stored(self, name: str) -> None:
        """The store needs this row no more."""
        self._stored.pop(name, None)
        self._bodies.pop(name, None)

    def watch(self, *, on: bool) -> None:
        """Begin (or cease) to keep marks for the live view; what changed before is not among them."""
        self._shown = {} if on else None
        self._bodies.clear()

    def take_stored(self) -> dict[str, bytes | None]:
        """What the store lacks, in the order in which it changed first."""
        taken, self._stored = self._stored, {}
        return self._taken(taken, self._shown)

    def take_shown(self) -> dict[str, bytes | None]:
        """What the live view lacks. Nothing while it is not watched."""
        if not self._shown:
            return {}
        taken, self._shown = self._shown, {}
        return self._taken(taken, self._stored)

    def _taken(self, names: dict[str, None], other: dict[str, None] | None) -> dict[str, bytes | None]:
        """other: what the other taker still lacks."""
        bodies, found = self._bodies, dict[str, bytes | None]()
        for name in names:
            wanted = other is not None and name in other
            if name in bodies:
                body = bodies[name] if wanted else bodies.pop(name)
            else:
                body = self._encode(name)
                if wanted and self._shown is not None:
                    bodies[name] = body
            found[name] = body
        return found
