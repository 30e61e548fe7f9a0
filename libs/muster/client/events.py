"""Server-sent events, as far as Muster sends them (HTML Living Standard, section 9.2)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One event. id: cursor after it, "" if it has none."""

    id: str
    name: str
    data: str


async def parse_events(lines: AsyncIterator[str]) -> AsyncIterator[Event]:
    """Events from the lines of an answer; comments and unknown fields are passed by, an unfinished event is dropped."""
    ident, name, data = "", "message", list[str]()
    async for line in lines:
        if not line:
            if data:
                yield Event(ident, name, "\n".join(data))
            ident, name, data = "", "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "id":
                ident = value
            case "event":
                name = value
            case "data":
                data.append(value)
            case _:
                continue
