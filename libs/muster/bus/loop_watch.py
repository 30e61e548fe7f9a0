"""Measures how late the event loop is: what blocks it delays every service of the process alike."""

import asyncio

from muster.bus.limits import LOOP_LOOK_S
from muster.bus.metrics import loop_was_late


async def watch_loop() -> None:
    """Once a second, for ever."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + LOOP_LOOK_S
        await asyncio.sleep(LOOP_LOOK_S)
        loop_was_late(max(0.0, loop.time() - due_s))
