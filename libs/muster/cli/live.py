"""The live view of a running stack: a screen in a terminal, plain lines elsewhere."""

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from muster.bus.clock import SystemTime
from muster.cli import output
from muster.cli.output import print_line
from muster.cli.session import connected
from muster.cli.snapshot import Fleet, Snapshot, facts_per_s, fleet_of, plain, screen
from muster.schemas.views import FactView

if TYPE_CHECKING:
    from muster.client import Muster

REFRESH_S = 1.0
PLAIN_REFRESH_S = 10.0
NODES_REFRESH_S = 15.0  # a large fleet's node list is half a megabyte
NEWEST_JOBS = 40
NOTE = "Ctrl-C stops"


def show(state_dir: Path) -> None:
    """Look at a stack until Ctrl-C. Raises CliError."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(state_dir, note="Ctrl-C leaves; the stack goes on"))


async def run(state_dir: Path, *, note: str = NOTE) -> None:
    """Look until cancelled. While services restart the last look stays, with the error under it."""
    async with connected(state_dir) as muster:
        camera = _Camera(muster)
        if output.console().is_terminal:
            await _on_screen(camera, note)
        while True:
            print_line(plain(await camera.look()))
            await asyncio.sleep(PLAIN_REFRESH_S)


async def _on_screen(camera: "_Camera", note: str) -> None:
    from rich.live import Live

    from muster.client import UnreachableError

    out = output.console()
    with Live(console=out, auto_refresh=False, transient=True) as view:
        while True:
            try:
                await camera.look()
                told = note
            except UnreachableError as error:
                told = f"{error}; waiting for it to come back"
            if camera.last is not None:
                view.update(screen(camera.last, rows=out.height, note=told), refresh=True)
            await asyncio.sleep(REFRESH_S)


class _Camera:
    """Takes looks; remembers what changes slowly."""

    def __init__(self, muster: "Muster") -> None:
        self._muster = muster
        self._time = SystemTime()
        self._fleet = Fleet(0, 0, 0)
        self._fleet_until_s = 0.0
        self._fact: FactView | None = None
        self.last: Snapshot | None = None

    async def look(self) -> Snapshot:
        if self._time.monotonic_s() >= self._fleet_until_s:
            self._fleet = fleet_of(await self._muster.nodes())
            self._fleet_until_s = self._time.monotonic_s() + (NODES_REFRESH_S if self._fleet.usable else REFRESH_S)
        queues, jobs = await self._muster.queues(), await self._muster.list(limit=NEWEST_JOBS)
        facts = await self._muster.events(limit=1)
        before, self._fact = self._fact, facts[-1] if facts else self._fact
        self.last = Snapshot(
            now_ns=self._time.wall(),
            fleet=self._fleet,
            queues=tuple(queues),
            jobs=tuple(jobs),
            facts_per_s=facts_per_s(before, self._fact),
        )
        return self.last
