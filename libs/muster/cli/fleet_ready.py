"""Wait until a fresh stack can place jobs: all nodes are schedulable and the queue exists."""

import asyncio
import time
from typing import TYPE_CHECKING

from muster.cli.errors import refused

if TYPE_CHECKING:
    from muster.client import Muster

READY_S_MAX = 120.0
POLL_S = 1.0


async def fleet_ready(muster: "Muster", *, nodes: int, queue: str) -> None:
    """Return when `nodes` nodes are schedulable and `queue` exists. Raises CliError (refused) after READY_S_MAX."""
    deadline_s = time.monotonic() + READY_S_MAX
    while True:
        usable = sum(node.usable for node in await muster.nodes())
        known = any(found.name == queue for found in await muster.queues())
        if known and usable >= nodes:
            return
        if time.monotonic() > deadline_s:
            told = "known" if known else "not known"
            raise refused(f"after {READY_S_MAX:g} s {usable} of {nodes} nodes are usable, queue {queue} is {told}")
        await asyncio.sleep(POLL_S)
