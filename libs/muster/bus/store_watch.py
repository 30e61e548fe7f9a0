"""Looks at the logs' stores now and then, so that a log that fills up shows before it is full, and who waits for it."""

import asyncio
import logging
from collections.abc import Iterable

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.limits import STORE_LOOK_S
from muster.bus.metrics import show_store
from muster.bus.ports import LogError

_logger = logging.getLogger(__name__)


async def watch_stores(connection: Client, streams: Iterable[str]) -> None:
    """Show the state of these streams in the metrics, for ever. connection: of the reader of logs."""
    watched = tuple(streams)
    while True:
        for stream in watched:
            try:
                await _look(connection, stream)
            except LogError as error:
                _logger.info("%s: its store cannot be looked at now: %s", stream, error)
        await asyncio.sleep(STORE_LOOK_S)


async def _look(connection: Client, stream: str) -> None:
    info = await jsapi.stream_info(connection, stream)
    if info is None:
        return
    bytes_max = info.config.get("max_bytes")
    show_store(
        stream,
        stored_bytes=info.state.bytes,
        bytes_max=bytes_max if isinstance(bytes_max, int) else 0,
        waiting={source.name: source.lag for source in info.sources},
    )
