"""Follows a cluster's log without writing to it: from the newest checkpoint, then fact by fact."""

import asyncio
import logging
from collections.abc import Callable

from muster.bus.access import READER
from muster.bus.checkpoint import Checkpoints, CheckpointUnavailableError
from muster.bus.checkpoint_store import NatsCheckpoints
from muster.bus.connection import connect
from muster.bus.fold import CONTROL_KIND
from muster.bus.nats_log import SharedLog
from muster.bus.ports import LogError
from muster.bus.settings import Settings
from muster.core import Fact
from muster.schemas.subjects import cluster_log

READ_MESSAGES = 1_000
READ_S = 5.0
AGAIN_S = 1.0
FOLLOWER = "dcgm-simulator"
_logger = logging.getLogger(__name__)


async def follow(settings: Settings, begin: Callable[[], Callable[[Fact], None]]) -> None:
    """Fold for ever. begin: makes an empty state and answers how to fold into it; again after every loss of place.

    Raises CredentialsError, and DisconnectedError if the connection is closed for good.
    """
    closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_closed(user: str) -> None:
        if not closed.done():
            closed.set_result(user)

    client = await connect(settings, READER, on_closed=on_closed)
    log = SharedLog(client, cluster_log(settings.cluster))
    checkpoints = Checkpoints(NatsCheckpoints(client), log.name)
    reading = asyncio.create_task(_read(log, checkpoints, begin), name="follow the log")
    ends: list[asyncio.Future[None] | asyncio.Future[str]] = [reading, closed]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            reading.result()
        raise ConnectionError(f"the connection of {closed.result()} was closed")
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await client.close()


async def _read(log: SharedLog, checkpoints: Checkpoints, begin: Callable[[], Callable[[Fact], None]]) -> None:
    while True:
        try:
            recorded, facts = await checkpoints.recover(FOLLOWER, await log.voided())
            apply = begin()
            for fact in facts:
                apply(fact)
            reader = await log.reader(after_seq=0 if recorded is None else recorded.seq)
            try:
                while True:
                    batch = await reader.read(limit=READ_MESSAGES, timeout_s=READ_S)
                    for fact in batch.facts:
                        if fact.kind != CONTROL_KIND:
                            apply(fact)
            finally:
                await reader.close()
        except (LogError, CheckpointUnavailableError) as error:
            _logger.warning("%s cannot be followed, trying again: %s", log.name.stream, error)
        await asyncio.sleep(AGAIN_S)
