"""The page of events: facts as they come, found, held and looked into."""

from browser.dashboards import OpenDashboard
from kit.stack.living import Harness, job
from muster.schemas.access import Role, TokenRecord

ROWS = ".table tbody tr[data-place]"


async def test_what_happens_to_a_job_appears_newest_first(opened: OpenDashboard, harness: Harness) -> None:
    async with opened("/events") as shown:
        await shown.live()
        submitted = await harness.muster.submit(job("watched", run_s=0.1))
        await harness.ended([submitted.id])
        await shown.page.fill("#event-filter", "watched")
        await shown.page.wait_for_selector(f"{ROWS} >> text=succeeded")
        names = await shown.page.locator(f"{ROWS} .badge").all_inner_texts()
        assert names.index("running") < names.index("placed") < names.index("queued") < names.index("submitted")
        assert "q=watched" in shown.page.url


async def test_a_paused_list_stands_still_and_says_what_waits(opened: OpenDashboard, harness: Harness) -> None:
    async with opened("/events") as shown:
        await shown.live()
        await shown.page.wait_for_selector(ROWS)
        await shown.page.keyboard.press("p")
        first = await shown.page.inner_text(ROWS)
        await harness.muster.submit(job("meanwhile", run_s=0.1))
        await shown.page.wait_for_selector("text=/paused, [1-9][0-9]* new/")
        assert await shown.page.inner_text(ROWS) == first
        await shown.page.keyboard.press("p")
        await shown.until("document.querySelector('.table').textContent.includes('meanwhile')")


async def test_a_fact_is_opened_by_keyboard_with_its_body_and_its_cause(
    opened: OpenDashboard, harness: Harness
) -> None:
    submitted = await harness.muster.submit(job("opened", run_s=0.1))
    await harness.ended([submitted.id])
    async with opened("/events?q=opened%20placed") as shown:
        await shown.page.focus(ROWS)
        await shown.page.keyboard.press("Enter")
        await shown.page.wait_for_selector(".event-details .body")
        assert '"slots"' in await shown.text(".event-details .body")
        assert "scheduler" in await shown.text(".event-details .pairs")
        await shown.page.click(".event-details .causes button")
        await shown.until("!document.querySelector('.event-details .panel-head').textContent.includes('placed')")


async def test_a_filter_that_nothing_fits_says_so(opened: OpenDashboard) -> None:
    async with opened("/events?q=no-such-word") as shown:
        await shown.page.wait_for_selector("text=No fact matches")


async def test_who_is_of_no_team_hears_of_every_job_and_misses_nothing(opened: OpenDashboard, harness: Harness) -> None:
    made = await harness.muster.make_token(TokenRecord(principal="visitor", role=Role.VIEWER))
    async with opened("/events?q=overheard", token=made.token) as shown:
        await shown.live()
        await harness.muster.submit(job("overheard", run_s=0.1))
        await shown.page.wait_for_selector(f"{ROWS} >> text=running")
        assert await shown.page.evaluate("musterDiagnostics().lastGap") == ""
