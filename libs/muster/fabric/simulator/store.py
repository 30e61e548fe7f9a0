"""Where a served fabric is kept: one file, replaced whole, written at most every SAVE_PAUSE_S.

It outlives the process (SIGKILL), which is what it is for; it is not forced to the disk, so it may not outlive the
machine.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

SAVE_PAUSE_S = 0.02
"""What changes so long after a change is written with it."""


class FabricStore:
    """One fabric's file. dump: its state as text, asked when it is about to be written."""

    def __init__(self, path: Path, dump: Callable[[], str], *, pause_s: float = SAVE_PAUSE_S) -> None:
        self._path = path
        self._dump = dump
        self._pause_s = pause_s
        self._next: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    async def save(self) -> None:
        """Return when the state as of this call, or a later one, is kept. Raises OSError."""
        if self._next is None:
            self._next = asyncio.create_task(self._write(), name=f"save {self._path.name}")
        await asyncio.shield(self._next)  # others wait for the same write: one that leaves must not end it

    async def _write(self) -> None:
        await asyncio.sleep(self._pause_s)
        async with self._writing:
            self._next = None  # who changes something from now on needs another write
            await asyncio.to_thread(write_whole, self._path, self._dump())


def write_whole(path: Path, text: str) -> None:
    """Replace a file in one step: whoever reads it sees the old or the new, never a part."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    part.replace(path)
