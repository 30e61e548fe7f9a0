"""The page of queues: the tree with its bars, who waits and why, what is reserved."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser

from browser.dashboards import FOR_EVER_S, PHONE, Dashboard, OpenDashboard
from browser.staged_fleet import Fleet, small_fleet
from browser.staged_harness import Stage, StagedHarness, looked_at, staged
from kit.stack.living import Harness, job
from muster.schemas.facts.queue import QueueSpec
from muster.schemas.job import Phase
from muster.schemas.queries import WhyAnswer

S = 1_000_000_000


def stage_of(fleet: Fleet) -> Stage:
    """The three teams; every waiting job is second of nine."""
    stage = Stage(
        jobs={one.id: one for one in fleet.jobs},
        nodes=fleet.nodes,
        queues=fleet.queues,
        reservations=fleet.reservations,
        answers={"/v1/queues": {"queues": [queue.model_dump(mode="json") for queue in fleet.queues]}},
    )
    start = time.time_ns() + 905 * S
    for one in fleet.jobs:
        if one.phase is Phase.QUEUED:
            why = WhyAnswer(
                job=one, position=2, waiting=9, reason=one.reason, detail=one.detail, expected_start_at=start
            )
            stage.answers[f"/v1/jobs/{one.id}/why"] = why
    return stage


@asynccontextmanager
async def page(browser: Browser, stage: Stage, search: str = "") -> AsyncIterator[tuple[Dashboard, StagedHarness]]:
    """The page of queues on a stage."""
    async with staged(stage) as harness, looked_at(browser, harness, f"/queues{search}") as shown:
        yield shown, harness


async def test_the_tree_tells_what_is_held_promised_borrowed_and_lent(browser: Browser) -> None:
    fleet = small_fleet(time.time_ns())
    held = {queue.name: queue.gpu_milli_held // 1000 for queue in fleet.queues}
    async with page(browser, stage_of(fleet)) as (shown, _):
        await shown.page.wait_for_selector('tr[data-queue="llm"]')
        order = await shown.page.eval_on_selector_all("tr[data-queue]", "rows => rows.map(row => row.dataset.queue)")
        assert order == ["archive", "org", "platform", "research", "llm", "vision", "serving"]
        bar = shown.page.locator('tr[data-queue="vision"] .qbar')
        words = str(await bar.get_attribute("aria-label"))
        assert f"holds {held['vision']} of 8 promised, {held['vision'] - 8} of it borrowed" in words
        assert "limit 24" in str(await shown.page.locator('tr[data-queue="serving"] .qbar').get_attribute("aria-label"))
        assert "lent" in str(await shown.page.locator('tr[data-queue="platform"] .qbar').get_attribute("aria-label"))
        assert "0.31" in await shown.page.inner_text('tr[data-queue="llm"]')


async def test_a_queue_is_chosen_folded_and_told_in_full(browser: Browser) -> None:
    async with page(browser, stage_of(small_fleet(time.time_ns()))) as (shown, _):
        await shown.page.click('tr[data-queue="serving"] .qopen')
        await shown.page.wait_for_selector("text=Waiting jobs in serving")
        assert "queue=serving" in shown.page.url
        assert "16 GPUs" in await shown.text("[aria-label='Queue serving']")
        await shown.page.click("[aria-label='Queues below research']")
        await shown.page.wait_for_selector('tr[data-queue="llm"]', state="detached")


async def test_who_waits_is_told_with_reason_place_and_expected_start(browser: Browser) -> None:
    fleet = small_fleet(time.time_ns())
    waiting = [one for one in fleet.jobs if one.phase is Phase.QUEUED and one.queue == "serving"]
    async with page(browser, stage_of(fleet), "?queue=serving") as (shown, _):
        await shown.page.wait_for_selector(".waiter-start >> text=/^by /")
        assert f"{len(waiting)} jobs" in await shown.text("[aria-label='Waiting jobs in serving'] .panel-head")
        assert "in 15 min" in await shown.text(".waiters")
        await shown.page.click("text=All of them")
        await shown.until("location.pathname === '/jobs' && location.search.includes('queue=serving')")
        await shown.until(f"document.querySelectorAll('.jobs-table tbody tr[data-job]').length === {len(waiting)}")


async def test_another_resource_has_bars_of_its_own(browser: Browser) -> None:
    async with page(browser, stage_of(small_fleet(time.time_ns()))) as (shown, _):
        await shown.page.select_option("select", "memory_mib")
        await shown.page.wait_for_selector("text=/memory, GiB held/")
        assert "nothing is promised" in str(
            await shown.page.locator('tr[data-queue="llm"] .qbar').get_attribute("aria-label")
        )


async def test_reservations_say_what_is_kept_for_whom_and_when(browser: Browser) -> None:
    async with page(browser, stage_of(small_fleet(time.time_ns()))) as (shown, _):
        told = await shown.text("[aria-label='Reservations']")
        assert "gpu-[0001-0002] for maintenance" in told
        assert "64 H100 GPUs for queue llm" in told
        assert "every week" in told


async def test_a_fleet_without_queues_says_how_to_make_them(browser: Browser) -> None:
    async with page(browser, Stage(answers={"/v1/queues": {"queues": []}})) as (shown, _):
        await shown.page.wait_for_selector("text=No queues yet")
        await shown.page.wait_for_selector("text=No waiting jobs")


async def test_the_page_fits_a_phone(browser: Browser) -> None:
    async with page(browser, stage_of(small_fleet(time.time_ns()))) as (shown, _):
        await shown.page.set_viewport_size(PHONE)
        await shown.until(f"document.querySelector('.page').scrollWidth <= {PHONE['width']}")
        box = await shown.page.locator('tr[data-queue="llm"] td:last-child').bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= PHONE["width"]


async def test_a_real_queue_fills_and_empties(opened: OpenDashboard, harness: Harness) -> None:
    await harness.muster.set_queue(QueueSpec(name="filled"))  # of its own: jobs of other tests may still run
    bar = "document.querySelector('tr[data-queue=filled] .qbar').ariaLabel"
    async with opened("/queues?queue=filled") as shown:
        await shown.page.wait_for_selector('tr[data-queue="filled"]')
        submitted = await harness.muster.submit(job("fills", gpus=4, run_s=FOR_EVER_S, queue="filled"))
        await shown.until(f"{bar}.includes('holds 4')")
        await harness.muster.cancel(submitted.id)
        await shown.until(f"{bar}.includes('holds 0')")
