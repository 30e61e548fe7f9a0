"""Every block of docs/integration.md, run as a reader would: it submits a job and hears of the choice made for it."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from kit.doc_blocks import block, blocks
from kit.stack.devices import DevicesHarness, open_devices_harness
from kit.waiting import until_async
from muster.schemas.facts.queue import QueueSpec
from natscli import nats_command

pytestmark = pytest.mark.connected

PAGE = "integration.md"
TEAM = "research"
PATIENCE_S = 60.0


@asynccontextmanager
async def running(
    words: Sequence[str], *, cwd: Path, environment: dict[str, str]
) -> AsyncIterator[asyncio.StreamReader]:
    """What a program says, while the block runs; afterwards it and its children are ended."""
    process = await asyncio.create_subprocess_exec(
        *words, cwd=cwd, env={**os.environ, **environment}, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        with suppress(ProcessLookupError):  # it ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def line_with(output: asyncio.StreamReader, text: str) -> str:
    """The first line that holds this. Fails with all that was said if it ends, or takes too long."""
    said: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            while line := (await output.readline()).decode():
                said.append(line)
                if text in line:
                    return line
    except TimeoutError:
        said.append(f"and nothing more in {PATIENCE_S:g} s")
    raise AssertionError(f"no line with {text!r}:\n{''.join(said)}")


@asynccontextmanager
async def short_harness(state_dir: Path) -> AsyncIterator[tuple[DevicesHarness, dict[str, str]]]:
    """A stack where a job of two GPUs must wait for one to be attached; and the variables of the page."""
    async with open_devices_harness(state_dir) as short:
        muster = short.harness.muster
        await muster.set_queue(QueueSpec(name=TEAM))
        await until_async(lambda: _has_queue(short))
        token = short.harness.stack.state.token.read_text().strip()
        yield short, {"MUSTER_URL": short.harness.stack.endpoints.http, "MUSTER_TOKEN": token}


async def _has_queue(short: DevicesHarness) -> bool:
    return any(queue.name == TEAM for queue in await short.harness.muster.queues())


async def test_from_python(tmp_path: Path) -> None:
    script = tmp_path / "hello.py"
    script.write_text(block(PAGE, "python"))
    async with short_harness(tmp_path / "state") as (short, variables):
        async with running((sys.executable, str(script)), cwd=tmp_path, environment=variables) as output:
            job_id = (await line_with(output, "submitted ")).split()[1]
            assert "hello waits" in await line_with(output, "gpu-attach-chosen")
        assert (await short.harness.muster.get(job_id)).team == TEAM


@pytest.mark.timeout(1_000)  # the command is built at its first use
async def test_from_the_command_line_of_nats(tmp_path: Path) -> None:
    program = await asyncio.to_thread(nats_command)
    for needed in ("curl", "jq"):
        if shutil.which(needed) is None:
            pytest.skip(f"the block needs {needed}")
    (tmp_path / "nats").symlink_to(program)
    posting, _, listening = blocks(PAGE, "sh")[-1].partition(
        "curl -fsS -X POST"
    )  # the choice may be made before one listens
    script = tmp_path / "hello.sh"
    script.write_text(f"set -euo pipefail\ncurl -fsS -X POST{listening}")
    async with short_harness(tmp_path / "state") as (short, variables):
        environment = {**variables, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        async with running(("bash", str(script)), cwd=tmp_path, environment=environment) as output:
            await until_async(lambda: _listens(short))
            async with running(("bash", "-c", posting), cwd=tmp_path, environment=environment) as posted:
                await line_with(posted, '"team":"research"')
            assert "hello waits" in await line_with(output, '["gpu-attach-chosen"')


async def _listens(short: DevicesHarness) -> bool:
    """Somebody is subscribed to slices by WebSocket."""
    monitor = short.harness.stack.endpoints.monitor
    async with httpx.AsyncClient() as client:
        page = (await client.get(f"{monitor}/connz", params={"subs": "true"})).json()
    return any(f"view.{short.harness.settings.cluster}.*.slice" in one.get("subscriptions_list", ())
               for one in page["connections"])  # fmt: skip
