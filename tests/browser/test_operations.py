"""The pages of operations on a running stack: what services answer is what the pages take."""

import pytest

from browser.accessibility import breaks_no_rule
from browser.dashboards import OpenDashboard
from kit.stack.living import Harness, job

SHOWN = {
    "/health": "text=Every node and every GPU is healthy",
    "/use": "section[aria-label='All GPUs'] >> text=Reported by exporters",
    "/campaigns": "text=No campaigns",
    "/clusters": "section[aria-label='local'] >> text=Routed here",
}


@pytest.mark.parametrize("path", SHOWN)
async def test_a_page_shows_what_the_services_answer(opened: OpenDashboard, path: str) -> None:
    async with opened("/fleet") as shown:
        await shown.live()
        await shown.follow(path)
        await shown.page.wait_for_selector(SHOWN[path])
        assert await shown.page.locator("[role=alert]").count() == 0
        assert await breaks_no_rule(shown)


async def test_the_use_of_a_job_that_runs_is_told(opened: OpenDashboard, harness: Harness) -> None:
    submitted = await harness.muster.submit(job("measured", run_s=60.0))
    async with opened("/use") as shown:
        await shown.live()
        row = shown.page.locator("table[aria-label='GPU use by job'] tbody tr", has_text=submitted.name)
        await row.click()
        await shown.page.wait_for_selector(f"section[aria-label='Job {submitted.name}']")
