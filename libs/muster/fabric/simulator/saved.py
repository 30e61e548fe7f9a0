"""A fabric's state as text and back, and the file it is kept in: where every device is, what runs, what was done last.

Settings say which devices and machines there are; what is saved says where the devices are. So a pool that grew in the
settings grows here too, and a device that settings no longer name is gone.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.core import Instant
from muster.fabric.simulator.model import FabricModel
from muster.fabric.simulator.operation import Operation

FINISHED_SAVED = 100
"""Operations that are over and are saved, the newest; the rest is forgotten by a restart."""
SAVE_PAUSE_S = 0.02
"""What changes so long after a change is written with it."""


class SavedStateError(Exception):
    """The saved state cannot be read, or is of another fabric."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LayoutRecord(_Part):
    """One NEC layout-apply: what was asked and how it ended. ended: 0 while it runs."""

    apply_id: str
    status: str
    procedures: tuple[dict[str, object], ...] = ()
    results: tuple[dict[str, object], ...] = ()
    started: int = 0
    ended: int = 0


class _Saved(_Part):
    version: Annotated[int, Field(ge=1, le=1)] = 1
    fabric: str
    now: int
    next_id: int
    places: dict[str, str]
    operations: tuple[Operation, ...]
    layouts: tuple[LayoutRecord, ...] = ()


def dump(model: FabricModel, layouts: tuple[LayoutRecord, ...] = ()) -> str:
    """Everything that settings do not say, as JSON."""
    running = [one for one in model.operations() if not one.is_over]
    finished = [one for one in model.operations() if one.is_over][:FINISHED_SAVED]
    return _Saved(
        fabric=model.name,
        now=model.now,
        next_id=model.next_id,
        places=model.places(),
        operations=(*running, *finished),
        layouts=layouts,
    ).model_dump_json()


def load(model: FabricModel, text: str | bytes) -> tuple[LayoutRecord, ...]:
    """Make a model that was built from settings be as it was; returns the layouts. Raises SavedStateError."""
    try:
        saved = _Saved.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise SavedStateError(f"{where}: {first['msg']}; remove the file to begin with the settings' pool") from error
    if saved.fabric != model.name:
        raise SavedStateError(f"fabric: it is of {saved.fabric!r}, not of {model.name!r}")
    model.restore(
        now=Instant(saved.now),
        next_id=saved.next_id,
        places=saved.places,
        operations=sorted(saved.operations, key=_number),
    )
    return saved.layouts


def _number(operation: Operation) -> int:
    return operation.id


class FabricStore:
    """One fabric's file, replaced whole, written at most every SAVE_PAUSE_S.

    It outlives the process (SIGKILL), which is what it is for; it is not forced to the disk, so it may not outlive the
    machine. dump: its state as text, asked when it is about to be written."""

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
    """Replace a file in one step: a reader sees the old or the new file, never a part."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    part.replace(path)
