"""Server-sent events, as far as Muster sends them (HTML Living Standard, section 9.2: lines end with LF)."""

from collections.abc import Iterator
from dataclasses import dataclass

EVENT_BYTES_MAX = 4 * 1024 * 1024
"""A fact of 512 KiB whose every character is escaped, and what stands around it."""


class EventTooLongError(ValueError):
    """More bytes than any event has came without the empty line that ends one: whoever sends is not Muster."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. id: cursor after it, "" if it has none. data: its lines, UTF-8."""

    id: str
    name: str
    data: bytes


class EventParser:
    """Makes events of an answer's bytes, however they are cut into pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[Event]:
        """Events that are whole with this piece. Comments and unknown fields are passed by.

        Raises EventTooLongError.
        """
        *whole, self._rest = (self._rest + piece).split(b"\n\n")
        if len(self._rest) > EVENT_BYTES_MAX:
            raise EventTooLongError(f"more than {EVENT_BYTES_MAX} bytes without an end")
        return list(_events(whole))


def _events(blocks: list[bytes]) -> Iterator[Event]:
    for block in blocks:
        ident, name, data = b"", b"message", list[bytes]()
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            match field:
                case b"id":
                    ident = value
                case b"event":
                    name = value
                case b"data":
                    data.append(value)
                case _:
                    continue
        if data:
            yield Event(ident.decode(errors="replace"), name.decode(errors="replace"), b"\n".join(data))
