"""The browser's block of docs/integration.md, bundled as a reader's tools would, on a page of the gateway's origin."""

import asyncio
import json
import sys
from pathlib import Path

from playwright.async_api import Browser

from kit.doc_blocks import block
from kit.stack.devices import DevicesHarness, open_devices_harness
from kit.waiting import until, until_async
from muster.schemas.facts.queue import QueueSpec

ROOT = Path(__file__).parents[2]
MODULES = ROOT / "services/dashboard/node_modules"
ROLLDOWN = MODULES / "rolldown/bin/cli.mjs"
TEAM = "research"
BUNDLE_S_MAX = 60.0


async def test_from_the_browser(browser: Browser, tmp_path: Path) -> None:
    async with open_devices_harness(tmp_path / "state") as short:
        await short.harness.muster.set_queue(QueueSpec(name=TEAM))
        await until_async(lambda: _has_queue(short))
        token = short.harness.stack.state.token.read_text().strip()
        bundle = await bundled(tmp_path, f"const token = {json.dumps(token)};\n{block('integration.md', 'js')}")
        context = await browser.new_context(bypass_csp=True)  # the page's own policy allows no script put in by hand
        try:
            page = await context.new_page()
            said: list[str] = []
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(f"thrown: {error}"))
            await page.goto(f"{short.harness.stack.endpoints.http}/healthz")
            await page.add_script_tag(content=bundle, type="module")
            await until(lambda: any("gpu-attach-chosen hello waits" in line for line in said) or "thrown" in str(said))
            assert not [line for line in said if line.startswith("thrown")]
        finally:
            await context.close()


async def bundled(directory: Path, source: str) -> str:
    """The module with what it imports, as one. Fails with what the bundler says."""
    (directory / "hello.js").write_text(source)
    (directory / "node_modules").symlink_to(MODULES)
    node = Path(sys.executable).parent / "node"
    process = await asyncio.create_subprocess_exec(
        str(node), str(ROLLDOWN), "hello.js", "--file", "bundle.js", "--format", "esm", cwd=directory,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await asyncio.wait_for(process.communicate(), BUNDLE_S_MAX)
    assert process.returncode == 0, output.decode()
    return (directory / "bundle.js").read_text()


async def _has_queue(short: DevicesHarness) -> bool:
    return any(queue.name == TEAM for queue in await short.harness.muster.queues())
