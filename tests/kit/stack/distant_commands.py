"""`muster` commands of somebody on another machine: nothing of a stack's state directory, and a home of their own."""

import asyncio
import io
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from muster.cli.main import run


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


async def distant_command(home: Path, *words: str, **variables: str) -> Ended:
    """Run a command in this process. home: of the user; variables: of the environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "XDG_"))}
    elsewhere = {"HOME": str(home), "MUSTER_STATE_DIR": str(home / "state")}
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, {**kept, **elsewhere, **variables}, clear=True),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = await asyncio.to_thread(run, words)
    return Ended(code, out.getvalue(), err.getvalue())
