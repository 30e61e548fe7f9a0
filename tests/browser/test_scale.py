"""The page of scaling: what was chosen, when, why, and what else was looked at."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from playwright.async_api import Browser

from browser.dashboards import PHONE, Dashboard, dashboard
from browser.staged_fleet import small_fleet
from browser.staged_harness import Stage, StagedHarness, looked_at, staged
from browser.staged_story import choices
from kit.stack.living import Harness
from muster.schemas.job import JobSpec, Phase, TaskGroup
from muster.schemas.queries import ScaleChoiceView
from muster.schemas.views import FactView

ATTACHED_MS_MAX = 60_000.0  # the simulated fabric takes its time for each device


def stage_with(found: Sequence[ScaleChoiceView]) -> Stage:
    """A stage whose scaler chose so."""
    return Stage(answers={"/v1/scale": {"choices": [one.model_dump(mode="json") for one in found]}})


def some() -> tuple[ScaleChoiceView, ...]:
    """One of each kind and outcome."""
    now = time.time_ns()
    return choices(now, [one for one in small_fleet(now).jobs if one.phase is Phase.QUEUED])


@asynccontextmanager
async def page(browser: Browser, stage: Stage, search: str = "") -> AsyncIterator[tuple[Dashboard, StagedHarness]]:
    """The page of scaling on a stage."""
    async with staged(stage) as harness, looked_at(browser, harness, f"/scale{search}") as shown:
        yield shown, harness


async def test_the_newest_choice_is_told_with_its_reason_and_every_alternative(browser: Browser) -> None:
    async with page(browser, stage_with(some())) as (shown, _):
        told = await shown.text("[aria-label^='Attach 4'][aria-label$='H100 to gpu-0003']")
        assert "4 more H100 on gpu-0003 let the job run" in told
        assert "under way for" in told
        assert "+2800 W" in told
        assert await shown.page.locator(".looked > li").count() == 4
        assert "chosen" in await shown.text(".looked-chosen")
        assert "ready in 4 min" in await shown.text(".looked > li:last-child")


async def test_a_choice_is_picked_on_the_line_of_time_and_stands_in_the_address(browser: Browser) -> None:
    async with page(browser, stage_with(some())) as (shown, _):
        await shown.page.click(".when-failed")
        await shown.page.wait_for_selector("text=the fabric refused: port 7 is down")
        assert "choice=scale-0005" in shown.page.url
        await shown.page.reload()
        await shown.page.wait_for_selector("text=the fabric refused: port 7 is down")
        lanes = await shown.page.locator(".when-title").all_inner_texts()
        assert lanes == ["Attach GPUs", "Return GPUs", "Add nodes", "Remove nodes", "Nothing helps"]


async def test_where_nothing_helps_can_be_left_out(browser: Browser) -> None:
    async with page(browser, stage_with(some())) as (shown, _):
        assert await shown.page.locator(".choice").count() == 7
        await shown.page.click("text=Show decisions without a helpful option")
        await shown.until("document.querySelectorAll('.choice').length === 6")
        assert "nothing=hidden" in shown.page.url


async def test_a_new_choice_appears_when_the_scaler_speaks(browser: Browser) -> None:
    stage = stage_with(some()[1:])
    async with page(browser, stage) as (shown, harness):
        await shown.until("document.querySelectorAll('.choice').length === 6")
        stage.answers["/v1/scale"] = {"choices": [one.model_dump(mode="json") for one in some()]}
        fact = FactView(
            id="f", seq=stage.seq + 1, time=time.time_ns(), stream="LOG_atlas", cluster="atlas", writer="scaler",
            kind="scale", subject_id="scale-0009", name="gpu-attach-chosen",
        )  # fmt: skip
        await harness.change(facts=(fact,))
        await shown.until("document.querySelectorAll('.choice').length === 7")


async def test_a_fleet_that_never_scaled_and_a_scaler_that_is_away_are_told_apart(browser: Browser) -> None:
    async with page(browser, stage_with(())) as (shown, _):
        await shown.page.wait_for_selector("text=No decisions yet")
    away = Stage(answers={"/v1/scale": {"status": 503, "title": "Service Unavailable", "detail": "the scaler is away"}})
    async with (
        staged(away) as harness,
        looked_at(browser, harness, "/scale", ignored=lambda text: "503" in text) as shown,
    ):
        await shown.page.wait_for_selector(".state-broken >> text=the scaler is away")


async def test_the_page_fits_a_phone(browser: Browser) -> None:
    async with page(browser, stage_with(some())) as (shown, _):
        await shown.page.set_viewport_size(PHONE)
        await shown.until(f"document.querySelector('.page').scrollWidth <= {PHONE['width']}")


async def test_a_real_attachment_is_shown_from_choice_to_done(browser: Browser, own_harness: Harness) -> None:
    """On a stack of its own: where another test left GPUs attached, nothing needs to be chosen."""
    harness = own_harness
    group = TaskGroup(gpus=6, replicas=1, cpu_milli=100, memory_mib=100)
    full = TaskGroup(gpus=8, replicas=4, cpu_milli=100, memory_mib=100)
    labels = {"sim.muster.dev/run-s": "12", "sim.muster.dev/exit-code": "0"}
    first = await harness.muster.submit(JobSpec(name="fills-all", team="physics", task_groups=(full,), labels=labels))
    await harness.job_that(first.id, lambda view: view.phase is Phase.RUNNING)
    async with dashboard(browser, harness, path="/scale") as shown:
        await shown.live()
        more = await harness.muster.submit(
            JobSpec(name="needs-more", team="physics", task_groups=(group,), labels=labels)
        )
        await shown.page.wait_for_selector(".when-mark")
        await shown.page.wait_for_selector(".choice-jobs >> text=needs-more")
        await harness.job_that(more.id, lambda view: view.phase in {Phase.RUNNING, Phase.SUCCEEDED})
        await shown.page.wait_for_selector(".choice >> text=/done in/", timeout=ATTACHED_MS_MAX)
        await harness.ended([first.id, more.id])
