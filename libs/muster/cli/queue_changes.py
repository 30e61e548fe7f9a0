"""Queues as an operator wants them, from a file or from options."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from pydantic import ValidationError

from muster.cli.errors import usage
from muster.cli.jobfile import load_queues, sentence
from muster.cli.session import call
from muster.schemas.facts.queue import QueueSpec

if TYPE_CHECKING:
    from muster.client import Muster


def wanted(file: Path | None, *, name: str, quota: float | None, limit: float | None, closed: bool) -> list[QueueSpec]:
    """The queues asked for; quota and limit in GPUs. Raises CliError."""
    if file is not None:
        if name:
            raise usage("FILE and --name: give the file or one queue, not both")
        return load_queues(file)
    if not name:
        raise usage("FILE: no queue named; give a queue file, or --name with --quota and --limit")
    try:
        return [QueueSpec(name=name, gpu_milli_quota=_milli(quota), gpu_milli_limit=_milli(limit), closed=closed)]
    except ValidationError as error:
        raise usage(sentence(error)) from error


def apply(state_dir: Path, queues: list[QueueSpec]) -> None:
    """Ask for each change, in order. Raises CliError at the first that is refused."""

    async def ask(muster: "Muster") -> None:
        for spec in queues:
            await muster.set_queue(spec)

    call(state_dir, ask)
    for spec in queues:
        typer.echo(f"{spec.name}: change requested")


def _milli(gpus: float | None) -> int | None:
    return None if gpus is None else round(gpus * 1000)
