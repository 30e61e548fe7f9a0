"""All lanes of a notifier: what they share, and how they end."""

import asyncio
from collections.abc import Sequence

from nats.aio.client import Client

from muster.bus.clock import SystemTime
from muster.bus.settings import Settings
from muster.notifier.consumer import Place
from muster.notifier.history import LogHistory
from muster.notifier.lane import Lane, LanePorts
from muster.notifier.sender import Sender, new_client


async def run_lanes(client: Client, settings: Settings, places: Sequence[Place]) -> None:
    """A lane for each place until cancelled. client: of the notifier's user."""
    time = SystemTime()
    history = LogHistory(client, settings.redis_url, is_centre=settings.role == "centre")
    try:
        async with new_client(connections=len(places)) as http:
            ports = LanePorts(client, history, Sender(http, time), time, settings.dashboard_url)
            by_name = {webhook.name: webhook for webhook in settings.webhooks}
            await _together([Lane(by_name[place.webhook], place, ports) for place in places])
    finally:
        await history.close()


async def _together(lanes: Sequence[Lane]) -> None:
    """Run lanes until cancelled: they may end, the service does not. An error of one, which is a defect, ends all.

    A cancellation is passed on each time it comes: Python 3.11 loses one in an event that just came, and the host
    repeats it.
    """
    tasks = [asyncio.create_task(lane.run(), name=lane.name) for lane in lanes]
    try:
        await asyncio.gather(*tasks, asyncio.Event().wait())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
