"""Periodic check of the event loop and the streams: how full these are, and how far durable consumers and sourced
streams are behind.

So a log that fills up, unread dead letters, and a consumer that gets the same message again and again show before they
cause a failure.
"""

import asyncio
import logging
from collections.abc import Iterable

from nats.aio.client import Client

from muster.bus import jsapi
from muster.bus.limits import CONSUMERS_MAX, LOOP_LOOK_S, STORE_LOOK_S
from muster.bus.metrics import ConsumerFigures, ConsumerGauges, loop_was_late, show_store, show_stream
from muster.bus.ports import LogError

_logger = logging.getLogger(__name__)


async def watch_stores(connection: Client, logs: Iterable[str], *, others: Iterable[str] = ()) -> None:
    """Show the state of these streams in the metrics, for ever. connection: as `monitor`.

    logs: those that this process folds. others: streams beside the logs.
    """
    logs = frozenset(logs)
    watched = {stream: ConsumerGauges(stream) for stream in (*sorted(logs), *others)}
    while True:
        for stream, gauges in watched.items():
            try:
                await _look(connection, stream, gauges, is_log=stream in logs)
            except LogError as error:
                _logger.info("%s: its store cannot be looked at now: %s", stream, error)
        await asyncio.sleep(STORE_LOOK_S)


async def _look(connection: Client, stream: str, gauges: ConsumerGauges, *, is_log: bool) -> None:
    info = await jsapi.stream_info(connection, stream)
    if info is None:
        return
    said = info.config.get("max_bytes")
    bytes_max = said if isinstance(said, int) else 0
    state = info.state
    show_stream(stream, messages=state.messages, last_seq=state.last_seq, stored_bytes=state.bytes, bytes_max=bytes_max)
    if is_log:
        waiting = {source.name: source.lag for source in info.sources}
        show_store(stream, stored_bytes=state.bytes, bytes_max=bytes_max, waiting=waiting)
    durable = [one for one in await jsapi.consumers(connection, stream) if one.config.durable_name][:CONSUMERS_MAX]
    gauges.show(
        {one.name: ConsumerFigures(one.num_pending, one.num_ack_pending, one.num_redelivered) for one in durable}
    )


async def watch_loop() -> None:
    """Measure once a second how late the event loop is: what blocks it delays every service of the process alike."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + LOOP_LOOK_S
        await asyncio.sleep(LOOP_LOOK_S)
        loop_was_late(max(0.0, loop.time() - due_s))
