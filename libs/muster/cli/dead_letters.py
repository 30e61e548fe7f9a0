"""Messages that no reader could use, and facts that a log refuses, as the stream DEAD keeps them."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from nats.aio.client import Client
from pydantic import JsonValue

from muster.bus.access import ADMIN_TOOLS
from muster.bus.clock import SystemTime
from muster.bus.dead import HEADER_ERROR, HEADER_SEQ, HEADER_STREAM, HEADER_SUBJECT
from muster.bus.decode import StoredMessage
from muster.bus.jsapi import message_at, stream_info
from muster.cli import moments, output
from muster.cli.bus_session import on_bus, settings_of
from muster.cli.options import Output
from muster.schemas.subjects import DEAD_STREAM

HEADINGS = ("BURIED", "STREAM", "SEQ", "BYTES", "SUBJECT", "ERROR")
RIGHT = frozenset({"SEQ", "BYTES"})


def show(state_dir: Path, form: Output, *, limit: int) -> None:
    """The newest dead letters, oldest first. Raises CliError."""
    settings = settings_of(state_dir)
    found = asyncio.run(on_bus(settings, ADMIN_TOOLS, lambda client: newest(client, limit=limit)))
    if form is Output.JSON:
        output.emit_json([as_json(message) for message in found])
        return
    output.table(HEADINGS, rows(found, now_ns=SystemTime().wall()), right=RIGHT)


async def newest(client: Client, *, limit: int) -> Sequence[StoredMessage]:
    """At most `limit` entries, oldest first."""
    info = await stream_info(client, DEAD_STREAM)
    if info is None or not info.state.messages:
        return []
    first = max(info.state.first_seq, info.state.last_seq - limit + 1)
    found = [await message_at(client, DEAD_STREAM, seq) for seq in range(first, info.state.last_seq + 1)]
    return [message for message in found if message is not None]


def rows(found: Iterable[StoredMessage], *, now_ns: int) -> Iterable[tuple[str, ...]]:
    """One letter a row."""
    for message in found:
        told = message.headers
        yield (
            moments.when(message.time, now_ns=now_ns),
            told.get(HEADER_STREAM, ""),
            told.get(HEADER_SEQ, ""),
            str(len(message.body)),
            told.get(HEADER_SUBJECT, ""),
            told.get(HEADER_ERROR, ""),
        )


def as_json(message: StoredMessage) -> dict[str, JsonValue]:
    """What is wrong, where the message stands, and its body as text."""
    told = message.headers
    return {
        "time": message.time,
        "stream": told.get(HEADER_STREAM, ""),
        "seq": int(told.get(HEADER_SEQ, "0")),
        "subject": told.get(HEADER_SUBJECT, ""),
        "error": told.get(HEADER_ERROR, ""),
        "body": message.body.decode(errors="replace"),
    }
