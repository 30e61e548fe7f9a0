"""The page of one job: its first line, its life, its place, its GPUs, what it printed, and what may be done with it."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser

from browser.dashboards import FOR_EVER_S, PHONE, Dashboard, OpenDashboard
from browser.staged_fleet import S, small_fleet
from browser.staged_harness import Stage, StagedHarness, looked_at, staged
from browser.staged_story import facts_of, output_of, readings_of
from kit.stack.living import Harness, job
from muster.schemas.access import Role, TokenRecord
from muster.schemas.job import Phase, Slot
from muster.schemas.live import LiveTelemetry, OutputLine, OutputPage
from muster.schemas.queries import WhyAnswer
from muster.schemas.views import JobView

SENTENCE = ".job-sentence"
GPUS_OF_THE_STACK = 12 * 8


def a_job(now_ns: int, phase: Phase, **more: object) -> JobView:
    """One of the staged fleet's jobs, of team physics, as if it were so."""
    known = next(one for one in small_fleet(now_ns).jobs if one.phase is phase)
    return known.model_copy(update={"team": "physics", **more})


@asynccontextmanager
async def page_of(
    browser: Browser, shown_job: JobView, *, stage: Stage | None = None, ignored: str = "\n", search: str = ""
) -> AsyncIterator[tuple[Dashboard, StagedHarness]]:
    """The job's page on a stage. ignored: what the console may complain of."""
    stage = stage or Stage()
    stage.jobs[shown_job.id] = shown_job
    facts = [fact.model_dump(mode="json") for fact in facts_of(shown_job)]
    stage.answers.setdefault(f"/v1/jobs/{shown_job.id}/events", {"facts": facts})
    stage.answers.setdefault(f"/v1/jobs/{shown_job.id}/why", WhyAnswer(job=shown_job))
    stage.answers.setdefault(f"/v1/jobs/{shown_job.id}/output", {"job_id": shown_job.id, "lines": []})
    stage.answers.setdefault(f"/v1/jobs/{shown_job.id}/telemetry", {"job_id": shown_job.id, "at": [], "devices": {}})
    async with (
        staged(stage) as harness,
        looked_at(browser, harness, f"/jobs/{shown_job.id}{search}", ignored=lambda text: ignored in text) as shown,
    ):
        await shown.page.wait_for_selector(SENTENCE)
        yield shown, harness


async def answers(shown: Dashboard) -> dict[str, str]:
    """The answers below the first line, by question."""
    told = await shown.page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.job-answers > dl > div')]"
        ".map(one => [one.querySelector('dt').textContent, one.querySelector('dd').innerText]))"
    )
    assert isinstance(told, dict)
    return told


async def test_a_waiting_job_s_first_line_says_why_its_place_and_its_start(
    opened: OpenDashboard, harness: Harness
) -> None:
    first = await harness.muster.submit(job("blocks", gpus=8, replicas=12, run_s=FOR_EVER_S))
    await harness.job_that(first.id, lambda view: view.phase is Phase.RUNNING)
    waits = await harness.muster.submit(job("waits", gpus=8, replicas=12))
    try:
        async with opened(f"/jobs/{waits.id}") as shown:
            await shown.until("document.querySelector('.job-sentence')?.textContent.includes('1st of 1 in physics')")
            sentence = await shown.text(SENTENCE)
            assert sentence.startswith("Waits for ")
            why = await harness.muster.why(waits.id)
            told = await answers(shown)
            assert why.detail[1:20] in told["Why"]
            assert "1st of 1 in physics" in told["Place"]
            assert why.cure[1:] in told["Hint"]
            if why.expected_start_at:
                assert told["Starts"].startswith("By ")
    finally:
        await harness.muster.cancel(waits.id)
        await harness.muster.cancel(first.id)
        await harness.ended([first.id, waits.id])


async def test_a_running_job_shows_its_place_its_readings_and_its_facts_as_they_come(
    opened: OpenDashboard, harness: Harness
) -> None:
    submitted = await harness.muster.submit(job("runs", gpus=4, replicas=2, run_s=FOR_EVER_S))
    async with opened(f"/jobs/{submitted.id}") as shown:
        await shown.page.wait_for_selector("text=/^Has run for/")
        view = await harness.muster.get(submitted.id)
        assert await shown.page.locator(".places .cell-mine").count() == 8
        places = await shown.text(".places")
        assert all(node in places for node in view.nodes)
        await shown.page.wait_for_selector(".course svg")
        await shown.page.wait_for_selector(".fall-row >> text=running")
        await harness.muster.cancel(submitted.id)
        await shown.page.wait_for_selector("text=/^Was cancelled after/")
        await shown.page.wait_for_selector(".fall-row >> text=cancelled")
        await harness.ended([submitted.id])
        trail = await harness.muster.events(job_id=submitted.id, limit=1_000)
        facts = len({fact.id for fact in trail})
        await shown.until(f"document.querySelectorAll('.fall-row').length === {facts}")


async def test_a_job_is_held_released_given_a_priority_and_cancelled_from_its_page(
    opened: OpenDashboard, harness: Harness
) -> None:
    first = await harness.muster.submit(job("in-front", gpus=8, replicas=12, run_s=FOR_EVER_S))
    await harness.job_that(first.id, lambda view: view.phase is Phase.RUNNING)
    waits = await harness.muster.submit(job("acted-on", gpus=8, replicas=12))
    try:
        async with opened(f"/jobs/{waits.id}") as shown:
            await shown.live()
            await shown.page.click("text=Hold")
            await shown.page.fill(".job-ask input", "until the data is there")
            await shown.page.click("text=Hold it")
            await shown.page.wait_for_selector(".job-answers.answers-held")
            assert (await harness.muster.get(waits.id)).held
            await shown.page.click("text=Release")
            await shown.page.click("text=Release it")
            await shown.page.wait_for_selector(".job-answers.answers-waiting")
            await shown.page.click(".job-action >> text=Priority")
            await shown.page.fill(".job-ask input[type=number]", "80")
            await shown.page.click("text=Set the priority")
            await shown.until("document.querySelector('.job-side .pairs').innerText.includes('80')")
            await shown.page.click(".job-action-cancel")
            await shown.page.click("text=Cancel the job")
            await shown.page.wait_for_selector("text=Was cancelled before it ran.")
            assert (await harness.muster.get(waits.id)).phase is Phase.CANCELLED
    finally:
        await harness.muster.cancel(first.id)
        await harness.ended([first.id, waits.id])


async def test_who_may_not_act_is_told_why(opened: OpenDashboard, harness: Harness) -> None:
    made = await harness.muster.make_token(TokenRecord(principal="onlooker", role=Role.VIEWER))
    submitted = await harness.muster.submit(job("looked-at", run_s=120.0))
    try:
        async with opened(f"/jobs/{submitted.id}", token=made.token) as shown:
            await shown.page.wait_for_selector('.job-action-cancel[aria-disabled="true"]')
            assert "onlooker is a viewer" in str(await shown.page.get_attribute(".job-action-cancel", "title"))
            await shown.page.focus(".job-action-cancel")
            await shown.page.keyboard.press("Enter")
            await shown.page.wait_for_selector(".toast >> text=onlooker is a viewer")
    finally:
        await harness.muster.cancel(submitted.id)
        await harness.ended([submitted.id])


async def test_place_start_and_cure_are_told_as_the_scheduler_says_them(browser: Browser) -> None:
    now = time.time_ns()
    waits = a_job(now, Phase.QUEUED, held=False, queue="llm", submitted_at=now - 700 * S)
    why = WhyAnswer(
        job=waits, position=3, waiting=12, reason="quota", detail="llm holds 24 of 24 GPUs", cure="ask for 8 GPUs",
        expected_start_at=now + 725 * S, expected_basis="the slice of pretrain-12 ends",
    )  # fmt: skip
    stage = Stage(answers={f"/v1/jobs/{waits.id}/why": why})
    async with page_of(browser, waits, stage=stage) as (shown, _):
        await shown.until("document.querySelector('.job-sentence').textContent.includes('3rd of 12 in llm')")
        assert "(in 12 min): its queue's quota is used up." in await shown.text(SENTENCE)
        told = await answers(shown)
        assert told["Hint"] == "Ask for 8 GPUs"
        assert "the slice of pretrain-12 ends" in told["Starts"]


async def test_idle_gpus_are_pointed_out_and_readings_go_on(browser: Browser) -> None:
    now = time.time_ns()
    slots = (Slot(group=0, replica=0, node="gpu-0003", devices=tuple(range(8)), gpu_milli=1000),)
    runs = a_job(now, Phase.RUNNING, slots=slots, nodes=("gpu-0003",), gpu_milli=8_000)
    stage = Stage(nodes=small_fleet(now).nodes)
    stage.answers[f"/v1/jobs/{runs.id}/telemetry"] = readings_of(runs, now, idle=(2, 5))
    async with page_of(browser, runs, stage=stage) as (shown, harness):
        await shown.page.wait_for_selector("text=2 of its 8 GPUs stand idle")
        await harness.read(
            LiveTelemetry(cluster="atlas", at=now, nodes={"gpu-0003": ((99.0, 60.0, 70_000, 600.0),) * 8})
        )
        await shown.until("document.querySelector('.course figcaption').textContent.startsWith('99 %')")
        await shown.page.select_option("select", "power")
        await shown.until("document.querySelector('.course figcaption').textContent.startsWith('600 W')")
        assert "measure=power" in shown.page.url


async def test_output_is_followed_found_in_and_refused_in_words(browser: Browser) -> None:
    now = time.time_ns()
    runs = a_job(now, Phase.RUNNING)
    stage = Stage(answers={f"/v1/jobs/{runs.id}/output": output_of(runs, now)})
    async with page_of(browser, runs, stage=stage) as (shown, harness):
        await shown.page.wait_for_selector(".line >> text=step   1580")
        await harness.print_lines(runs, at=now, lines=("saved checkpoint 12",))
        await shown.page.wait_for_selector(".line >> text=saved checkpoint 12")
        await shown.page.fill(".panel-actions input[type=search]", "checkpoint")
        await shown.until("document.querySelectorAll('.line').length === 1")
    of_others = runs.model_copy(update={"team": "biology"})
    async with page_of(browser, of_others) as (shown, _):
        await shown.page.wait_for_selector("text=Only the team can read the output")
        await shown.page.wait_for_selector("text=your teams: physics. Ask an operator.")


async def test_a_fact_is_looked_into_in_the_waterfall_and_in_words(browser: Browser) -> None:
    failed = a_job(time.time_ns(), Phase.FAILED)
    async with page_of(browser, failed) as (shown, _):
        await shown.page.click(".fall-row >> text=placed")
        assert "protected from preemption for 1 h of running" in await shown.text(".fact-details")
        await shown.page.click("text=In words")
        await shown.page.wait_for_selector(".story-row >> text=exit code 137")
        assert "facts=list" in shown.page.url
        assert "killed, often for want of memory" in (await answers(shown))["Why"]


async def test_a_job_that_nobody_knows_is_said_to_be_so(browser: Browser) -> None:
    stage = Stage()
    async with (
        staged(stage) as harness,
        looked_at(browser, harness, "/jobs/AAAAAAAAAAAAAAAAAAAAAAAAAA", ignored=lambda text: "404" in text) as shown,
    ):
        await shown.page.wait_for_selector(".state-broken >> text=Not Found")
        await shown.page.wait_for_selector("text=Try again")


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.RUNNING, Phase.FAILED])
async def test_the_page_fits_a_phone(browser: Browser, phase: Phase) -> None:
    now = time.time_ns()
    shown_job = a_job(now, phase, held=False)
    stage = Stage(nodes=small_fleet(now).nodes)
    async with page_of(browser, shown_job, stage=stage) as (shown, _):
        await shown.page.set_viewport_size(PHONE)
        await shown.until(f"document.querySelector('.page').scrollWidth <= {PHONE['width']}")


async def test_the_last_lines_of_a_failed_job_are_shown_though_they_are_stored_after_its_end(browser: Browser) -> None:
    now = time.time_ns()
    runs = a_job(now, Phase.RUNNING)
    path = f"/v1/jobs/{runs.id}/output"
    stage = Stage(answers={path: output_of(runs, now, lines=3)})
    async with page_of(browser, runs, stage=stage) as (shown, harness):
        await shown.page.wait_for_selector(".line")
        lines = [*output_of(runs, now, lines=3).lines, OutputLine(at=now, attempt=1, text="CUDA out of memory")]
        stage.answers[path] = OutputPage(job_id=runs.id, lines=tuple(lines))
        await harness.change([runs.model_copy(update={"phase": Phase.FAILED, "ended_at": now, "exit_code": 1})])
        await shown.page.wait_for_selector(".line >> text=CUDA out of memory")
        assert await shown.page.locator(".line").count() == 4
