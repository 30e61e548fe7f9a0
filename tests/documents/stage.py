"""Where a page's commands are run: a folder that looks like the repository, and a stack that `muster up` started."""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from documents.blocks import ROOT
from kit.ports import own_ports
from kit.waiting import until, until_async
from muster.cli.examples_dir import queue_file
from muster.cli.queue_tree import load_queues
from muster.cli.starting import FABRIC, MODEL, NODES, POOL, composable_settings
from muster.client import Muster
from muster.schemas.access import Endpoints
from muster.stack import control
from muster.stack.options import endpoints_of
from muster.stack.state_dir import StateDir

PATIENCE_S = 60.0
COMMAND_S_MAX = 240.0
POLL_S = 0.1
FLEET = "--nodes 16"
START_S_MAX = 150.0
"""A stack starts in a tenth of it, unless others take all of the machine."""
READY = "API token"
"""What `muster up` says when it is ready, among other things."""

_NOT_SHOWN = frozenset({".git", ".venv", "site", "dist", "out"})
_PORTS = ("nats", "monitor", "websocket", "redis", "http", "metrics", "fabric", "dcgm")
_ENV = ".environment"


class CommandFailedError(AssertionError):
    """A command of a page ended otherwise than a reader would expect."""


@dataclass(frozen=True)
class Stage:
    """One page's place. work: the folder. state: the state directory, where a reader's would be too."""

    work: Path
    home: Path

    @property
    def state(self) -> Path:
        return self.home / ".local/state/muster"

    @property
    def http(self) -> str:
        """Where the gateway listens."""
        return Endpoints.model_validate_json(StateDir(self.state).endpoints.read_bytes()).http

    async def run(self, script: str) -> str:
        """Run lines as one after the other at a prompt, and give what they print. What they export stays.

        Raises CommandFailedError with everything that was said.
        """
        whole = f"set -euo pipefail\n[ ! -f {_ENV} ] || . ./{_ENV}\n{script}\nexport -p > {_ENV}\n"
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", whole, cwd=self.work, env=self._environment(), stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(COMMAND_S_MAX):
                said, _ = await process.communicate()
        except TimeoutError:
            raise CommandFailedError(f"not done in {COMMAND_S_MAX:g} s:\n{script}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        text = said.decode(errors="replace")
        if process.returncode:
            raise CommandFailedError(f"ended with {process.returncode}:\n{script}\n--- it said\n{text}")
        return text

    async def run_python(self, program: str) -> str:
        """Run a program as a reader would who saved it."""
        name = "program.py"
        (self.work / name).write_text(program)
        return await self.run(f".venv/bin/python {name}")

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("MUSTER_", "OTEL_", "XDG_"))}
        programs = str(Path(sys.executable).parent)
        return {
            **kept,
            "HOME": str(self.home),
            "MUSTER_STATE_DIR": str(self.state),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "160",
        }

    @asynccontextmanager
    async def stack(self, options: str, *, settings: Mapping[str, object]) -> AsyncIterator[None]:
        """`muster up` beside the block, in the foreground as a reader has it, and Ctrl-C at the end."""
        _prepare(self.state, settings)
        said = self.work / ".up.txt"
        with said.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                "muster", "up", *shlex.split(f"{FLEET} {options}"), cwd=self.work, env=self._environment(),
                stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        try:
            await until(lambda: process.returncode is not None or READY in said.read_text(), patience_s=START_S_MAX)
            assert process.returncode is None, f"`muster up` ended:\n{said.read_text()}"
            await self._queues_are_there()
            yield
            if process.returncode is None:
                os.kill(process.pid, signal.SIGINT)
                code = await asyncio.wait_for(process.wait(), PATIENCE_S)
                assert code == 0, f"Ctrl-C did not end it cleanly:\n{said.read_text()}"
        finally:
            await asyncio.to_thread(control.down, self.state)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def _queues_are_there(self) -> None:
        path = queue_file()
        assert path is not None, "examples/queues.yaml is not there"
        wanted = {spec.name for spec in load_queues(path)}
        async with Muster.from_state_dir(self.state) as muster:
            await until_async(lambda: _has(muster, wanted))


def made(directory: Path, *, home: Path | None = None) -> Stage:
    """A stage in an empty directory: files that commands write fall beside the repository's, never among them.

    home: another stage's, whose stack is then that of both.
    """
    work, own_home = directory / "work", directory / "home"
    work.mkdir(parents=True)
    own_home.mkdir()
    for path in ROOT.iterdir():
        if path.name not in _NOT_SHOWN:
            (work / path.name).symlink_to(path)
    (work / ".venv").symlink_to(sys.prefix)
    return Stage(work, home or own_home)


def keep_own_ports(state: StateDir) -> None:
    """Prepare a new state directory whose stack will listen on ports that no other stack takes."""
    state.prepare()
    state.run.mkdir(exist_ok=True)
    ports = own_ports(*_PORTS)
    state.endpoints.write_text(endpoints_of(ports, redis_url="", processes=("all",)).model_dump_json())


def _prepare(state_dir: Path, settings: Mapping[str, object]) -> None:
    """As if the stack had run before: on ports that are free, since the usual ones may be somebody else's in a moment.

    Settings are those of a first start, but no job fails by chance, and what takes a reader a minute takes a second.
    """
    state = StateDir(state_dir)
    keep_own_ports(state)
    first = composable_settings(nodes=NODES, pool=POOL)
    fabrics = [{"name": FABRIC, "simulated": {"pool": {MODEL: POOL}, "switch_median_s": 0.5}}]
    written = {
        "state_dir": str(state.path),
        "credentials_dir": str(state.creds),
        "simulation": {"start_s": 0.2, "run_s": 1.0, "job_failure_share": 0.0},
        "scaling": {**cast("dict[str, object]", first["scaling"]), "visible_s": 0.5},
        "fabrics": fabrics,
        **settings,
    }
    state.settings.write_text(json.dumps(written))


async def _has(muster: Muster, queues: set[str]) -> bool:
    return queues <= {queue.name for queue in await muster.queues()}
