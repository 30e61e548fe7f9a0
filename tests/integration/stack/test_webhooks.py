"""A stack with a webhook: a real job's end arrives once it is over, whatever dies on the way."""

import asyncio
from pathlib import Path

import pytest

from kit.loopback import served
from kit.stack.living import command, job, open_harness, options
from kit.stack.webhooks import SECRET, Received, Receiver, Reply
from kit.waiting import until_async

pytestmark = pytest.mark.connected


async def test_a_job_is_told_when_it_ends_also_if_the_stack_is_killed_in_mid_delivery(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def hang_once(_: Received) -> Reply:
        if not asked.is_set():
            asked.set()
            await asyncio.Event().wait()
        return 204, {}

    receiver = Receiver(hang_once)
    key = tmp_path / "key"
    key.write_text(SECRET)
    async with served(receiver) as url:
        webhook = {
            "name": "ci",
            "url": url,
            "events": ["job-ended"],
            "secret": str(key),
            "timeout_s": 2,
            "backoff_s": 1,
        }
        start = options(tmp_path / "state", nodes=4)
        start = start.model_copy(update={"settings": {**start.settings, "webhooks": [webhook]}})
        async with open_harness(start) as harness:
            accepted = await harness.muster.submit(job("build", run_s=0.2), idempotency_key="build")
            await asked.wait()
            await harness.kill("all")
            await until_async(lambda: _has(receiver, 2))
            listed = await command(start.state_dir, "webhook", "list")
            assert await harness.metric("muster_webhook_deliveries_total", webhook="ci", outcome="delivered") == 1
    first, again = receiver.received
    assert first.id == again.id
    assert first.body == again.body
    assert (again.data["job_id"], again.data["phase"], again.data["team"]) == (accepted.id, "succeeded", "physics")
    assert again.data["url"] == f"{harness.settings.dashboard_url}/jobs/{accepted.id}"
    assert "job-ended" in listed


async def _has(receiver: Receiver, requests: int) -> bool:
    return len(receiver.received) >= requests
