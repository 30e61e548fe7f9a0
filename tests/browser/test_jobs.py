"""The table of jobs: live rows by the thousand, filters and views in the address, ended ones page by page."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from playwright.async_api import Browser

from browser.dashboards import FOR_EVER_S, PHONE, Dashboard, OpenDashboard
from browser.staged_fleet import COME, S, busy_slice, job_id, many_jobs, small_fleet
from browser.staged_harness import Stage, StagedHarness, looked_at, staged
from kit.stack.living import Harness, job
from muster.schemas.job import Phase
from muster.schemas.views import JobView

ROWS = ".jobs-table tbody tr[data-job]"
NOTE = ".page-note"
MANY = 25_000
SLICES = 60
ROWS_MAX = 100  # in the document, of however many: those in sight and a few to either side


@asynccontextmanager
async def table(
    browser: Browser, jobs: Sequence[JobView], search: str = "", **how: object
) -> AsyncIterator[tuple[Dashboard, StagedHarness]]:
    """The page over a stage with these jobs."""
    stage = Stage(jobs={one.id: one for one in jobs})
    async with staged(stage) as harness, looked_at(browser, harness, f"/jobs{search}", **how) as shown:  # type: ignore[arg-type]
        yield shown, harness


async def shows(shown: Dashboard, note: str) -> None:
    """Wait until the line beside the title says so."""
    await shown.until(f"document.querySelector('{NOTE}').textContent === '{note}'")


async def names(shown: Dashboard) -> list[str]:
    """Of the jobs in sight, from the top."""
    return await shown.page.locator(f"{ROWS} .job-name").all_inner_texts()


async def test_a_job_appears_when_it_is_submitted_and_leaves_when_it_has_ended(
    opened: OpenDashboard, harness: Harness
) -> None:
    async with opened("/jobs?q=comes-and-goes") as shown:
        await shown.live()
        submitted = await harness.muster.submit(job("comes-and-goes", run_s=FOR_EVER_S))
        await shown.page.wait_for_selector(f'tr[data-job="{submitted.id}"] >> text=running')
        await harness.muster.cancel(submitted.id)
        await shown.page.wait_for_selector(f'tr[data-job="{submitted.id}"]', state="detached")
        await shown.page.click("text=Ended")
        await shown.page.wait_for_selector(f'tr[data-job="{submitted.id}"] >> text=cancelled')
        await shown.page.click(f'tr[data-job="{submitted.id}"] td:nth-child(5)')
        await shown.until(f"location.pathname === '/jobs/{submitted.id}'")


async def test_what_is_asked_stands_in_the_address_and_comes_back_from_it(browser: Browser) -> None:
    jobs = small_fleet(time.time_ns()).jobs
    async with table(browser, jobs) as (shown, _):
        await shown.page.click('.phase-chip[data-phase="running"]')
        await shown.page.click("text=Filter")
        await shown.page.click(".menu-row >> text=GPUs")
        await shown.page.fill(".menu-form input", ">=4")
        await shown.page.press(".menu-form input", "Enter")
        await shown.page.click("thead >> text=GPUs")
        await shown.until("location.search === '?phase=running&gpus=%3E%3D4&sort=gpus'")
        before = await names(shown)
        await shown.page.reload()
        await shown.live()
        await shown.page.wait_for_selector(ROWS)
        assert await names(shown) == before
        wanted = [one for one in jobs if one.phase is Phase.RUNNING and one.gpu_milli >= 4_000]
        assert len(before) == len(wanted) > 0
        await shown.page.click("text=Clear all")
        await shown.until("location.search === '?sort=gpus'")


async def test_a_bound_that_cannot_be_read_is_answered_in_words(browser: Browser) -> None:
    async with table(browser, small_fleet(time.time_ns()).jobs, "?gpus=>many") as (shown, _):
        assert "is no number: write for example 8, >=8 or <64" in await shown.text(".filters")


async def test_groups_tell_their_counts_and_are_unfolded_one_by_one(browser: Browser) -> None:
    jobs = small_fleet(time.time_ns()).jobs
    mine = [one for one in jobs if one.team == "serving" and not one.phase.is_terminal]
    async with table(browser, jobs, "?group=team") as (shown, _):
        await shown.page.wait_for_selector(".group-row")
        assert await shown.page.locator(ROWS).count() == 0
        serving = shown.page.locator(".group-toggle", has_text="serving")
        assert str(len(mine)) == await serving.locator(".group-count").inner_text()
        await serving.click()
        await shown.page.wait_for_selector(ROWS)
        assert "open=serving" in shown.page.url
        assert await shown.page.locator(ROWS).count() == len(mine)


async def test_a_view_is_kept_under_a_name_and_found_again(browser: Browser) -> None:
    async with table(browser, small_fleet(time.time_ns()).jobs, "?team=research&sort=-gpus") as (shown, _):
        await shown.page.click("text=Views")
        await shown.page.fill(".menu-form input", "our biggest")
        await shown.page.click(".menu-form >> text=Save >> nth=-1")
        await shown.page.keyboard.press("Escape")
        await shown.go("/jobs")
        await shown.live()
        await shown.page.click("text=All live")
        await shown.page.click(".menu-row >> text=our biggest")
        await shown.until("location.search === '?team=research&sort=-gpus'")


async def test_rows_are_gone_over_and_opened_by_keyboard(browser: Browser) -> None:
    async with table(browser, small_fleet(time.time_ns()).jobs) as (shown, _):
        await shown.page.wait_for_selector(ROWS)
        second = await shown.page.locator(ROWS).nth(1).get_attribute("data-job")
        await shown.page.focus(".jobs-scroll")
        await shown.page.keyboard.press("ArrowDown")
        await shown.page.keyboard.press("ArrowDown")
        await shown.until(f"document.activeElement.dataset.job === '{second}'")
        await shown.page.keyboard.press("Enter")
        await shown.until(f"location.pathname === '/jobs/{second}'")


async def test_a_table_that_is_held_still_says_how_much_changed_since(browser: Browser) -> None:
    now = time.time_ns()
    async with table(browser, small_fleet(now).jobs) as (shown, harness):
        await shown.page.wait_for_selector(ROWS)
        before = await names(shown)
        await shown.page.keyboard.press("p")
        await harness.change(
            [small_fleet(now).jobs[-1].model_copy(update={"id": job_id(99_999), "phase": Phase.QUEUED})]
        )
        await shown.page.wait_for_selector("text=Paused; 1 job changed since")
        assert await names(shown) == before
        await shown.page.keyboard.press("p")
        await shown.until(f"document.querySelector('{NOTE}').textContent.startsWith('67 live')")


async def test_of_25_000_live_jobs_only_those_in_sight_are_in_the_document_and_in_order(browser: Browser) -> None:
    now = time.time_ns()
    jobs = many_jobs(MANY, now)
    async with table(browser, jobs) as (shown, harness):
        await shows(shown, "25,000 live")
        assert 0 < await shown.page.locator(ROWS).count() < ROWS_MAX
        for number in range(SLICES):
            await harness.change(busy_slice(jobs, number, now_ns=now, seq=harness.stage.seq))
        await shows(shown, f"{MANY + SLICES * COME:,} live")
        newest = {one.name for one in many_jobs(COME, now, first=MANY + COME * (SLICES - 1))}
        assert set((await names(shown))[:COME]) == newest
        assert 0 < await shown.page.locator(ROWS).count() < ROWS_MAX
        assert (await shown.diagnostics())["gaps"] == 0


async def test_where_one_has_scrolled_to_stays_when_rows_come_in_above(browser: Browser) -> None:
    now = time.time_ns()
    async with table(browser, many_jobs(2_000, now)) as (shown, harness):
        await shows(shown, "2,000 live")
        await shown.page.evaluate("document.querySelector('.jobs-scroll').scrollTop = 320 * 100")
        top = "document.elementFromPoint(500, 260)?.closest('tr')?.dataset.job"
        await shown.until(f"Boolean({top})")
        before = await shown.page.evaluate(top)
        fresh = many_jobs(50, now, first=5_000)
        await harness.change([one.model_copy(update={"submitted_at": now + S}) for one in fresh])
        await shows(shown, "2,050 live")
        await shown.until(f"{top} === '{before}'")


async def test_ended_jobs_are_read_page_by_page_as_they_are_scrolled_to(browser: Browser) -> None:
    jobs = small_fleet(time.time_ns(), ended=900).jobs
    ended = sorted((one for one in jobs if one.phase.is_terminal), key=lambda one: -one.submitted_at)
    async with table(browser, jobs, "?show=ended") as (shown, _):
        await shown.page.wait_for_selector(ROWS)
        assert (await names(shown))[0] == ended[0].name
        count = f"Number(document.querySelector('{NOTE}').textContent.split(' ')[0].replace(',', ''))"
        assert await shown.page.evaluate(count) < len(ended)
        await shown.until(
            f"(document.querySelector('.jobs-scroll').scrollTop = 1e6, {count} === {len(ended)}"
            " && document.querySelector('.jobs-foot').textContent === 'No more jobs.')"
        )
        await shown.until(f"[...document.querySelectorAll('{ROWS}')].at(-1).dataset.job === '{ended[-1].id}'")


async def test_where_nothing_is_live_or_fits_it_says_so(browser: Browser) -> None:
    async with table(browser, ()) as (shown, harness):
        await shown.page.wait_for_selector("text=No live jobs")
        await harness.change(many_jobs(3, time.time_ns()))
        await shown.page.wait_for_selector(ROWS)
        await shown.page.fill("input[type=search]", "no such job")
        await shown.page.wait_for_selector("text=No live job matches")


async def test_on_a_phone_each_row_tells_its_job_in_two_lines(browser: Browser) -> None:
    async with table(browser, small_fleet(time.time_ns()).jobs, viewport=PHONE) as (shown, _):
        await shown.page.wait_for_selector(f"{ROWS} .job-line")
        assert await shown.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


async def test_values_to_filter_by_are_those_of_the_rows_that_are_shown(browser: Browser) -> None:
    jobs = [one for one in small_fleet(time.time_ns()).jobs if one.phase.is_terminal]
    marked = jobs[0].model_copy(update={"principal": "only-once"})
    async with table(browser, [marked, *jobs[1:]], "?show=ended") as (shown, _):
        await shown.page.wait_for_selector(ROWS)
        await shown.page.click("text=Filter")
        await shown.page.click(".menu-row >> text=User")
        await shown.page.click(".menu-row >> text=only-once")
        await shown.until(f"document.querySelectorAll('{ROWS}').length === 1")
        assert "user=only-once" in shown.page.url
