"""The page of use: busy against truly active, by job and team, and what is held and idle."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, ViewportSize

from browser.accessibility import breaks_no_rule
from browser.dashboards import DESKTOP, PHONE, Dashboard
from browser.staged_harness import Stage, looked_at, staged
from muster.core.instant import NS_PER_S
from muster.schemas.facts.telemetry import DeviceUse, Use
from muster.schemas.usage import (
    Energy,
    EnergyRow,
    ExporterCount,
    Idle,
    IdleGpu,
    IdleTeam,
    JobUse,
    Top,
    TopRow,
    UseColumn,
)

JOB = "TRAIN222222222222222222222"
GIB_MIB = 1024
DAY_NS = 86_400 * NS_PER_S


def top(*exporters: ExporterCount) -> Top:
    """One job of team vision that is busy and hardly active; the row is the team's, too."""
    row = TopRow(
        key="vision", name="train", team="vision", jobs=2, gpus=16, idle=3, busy_pct=97, sm_active_pct=21,
        memory_pct=62, power_w=6_400,
    )  # fmt: skip
    return Top(
        at=time.time_ns(), rows=(row.model_copy(update={"key": JOB}),), total=1, gpus_expected=40, gpus_seen=39,
        held=16, idle_held=3, power_w=12_400, exporters=exporters,
    )  # fmt: skip


def idle() -> Idle:
    """Three GPUs of team vision have done nothing for two hours."""
    gpus = tuple(
        IdleGpu(node="node-3", index=place, job_id=JOB, name="train", team="vision", idle_s=7_200) for place in range(3)
    )
    teams = (IdleTeam(team="vision", held=16, idle=3, jobs=1, idle_s=21_600),)
    return Idle(at=time.time_ns(), after_s=600, teams=teams, gpus=gpus, total=3)


def energy() -> Energy:
    """Two teams over some days; one of them used most of it, a good deal for nothing."""
    rows = (
        EnergyRow(key="vision", energy_kwh=1_204.5, gpu_hours=2_409, idle_gpu_hours=700),
        EnergyRow(key="llm", energy_kwh=95.5, gpu_hours=190, idle_gpu_hours=0.25),
    )
    return Energy(at=time.time_ns(), since=time.time_ns() - 7 * DAY_NS, rows=rows, total=2, energy_kwh=1_300)


def job_use() -> JobUse:
    """Ten minutes of the job."""
    now = time.time_ns()
    columns = tuple(
        UseColumn(at=now + minute * 60 * NS_PER_S, gpus=16, busy_pct=97, sm_active_pct=20 + minute)
        for minute in range(10)
    )
    use = Use(measured_s=600, busy_s=580, sm_measured_s=600, sm_active_s=126, memory_mib_max=50 * GIB_MIB)
    return JobUse(
        job_id=JOB, name="train", gpus=16, use=use, energy_kwh=1.25, gpu_hours=2.7, idle_gpu_hours=0.5, busy_pct=97,
        sm_active_pct=21, devices=(DeviceUse(node="node-3", index=0, use=use),), column_s=60, columns=columns,
        advice=("Its GPUs are busy, but 4 of 5 SMs stand still: try larger batches.",),
    )  # fmt: skip


@asynccontextmanager
async def page(
    browser: Browser, told: Top | None = None, *, viewport: ViewportSize = DESKTOP, search: str = ""
) -> AsyncIterator[Dashboard]:
    """The page on a stage whose telemetry tells this."""
    stage = Stage()
    stage.answers |= {
        "/v1/usage/top": told or top(),
        "/v1/usage/idle": idle(),
        "/v1/usage/energy": energy(),
        f"/v1/jobs/{JOB}/stats": job_use(),
    }
    async with staged(stage) as harness, looked_at(browser, harness, f"/use{search}", viewport=viewport) as shown:
        await shown.page.wait_for_selector("table[aria-label='Held and idle']")
        yield shown


async def test_busy_is_told_beside_truly_active(browser: Browser) -> None:
    async with page(browser) as shown:
        row = await shown.text("table[aria-label='GPU use by job'] tbody tr")
        for word in ("train", "vision", "97 %", "21 %", "62 %", "6.4 kW"):
            assert word in row
        bar = await shown.page.get_attribute("[aria-label^='Activity of job train']", "aria-label")
        assert bar == "Activity of job train: SM active 21 %, busy 97 %"


async def test_what_teams_leave_idle_is_told(browser: Browser) -> None:
    async with page(browser) as shown:
        rows = await shown.page.locator("table[aria-label='Use by team'] tbody tr").all_inner_texts()
        assert rows[0].split("\t")[0] == "vision"
        assert rows[0].split("\t")[-2:] == ["3", "6"]
        held = await shown.page.locator("table[aria-label='Held and idle'] tbody tr").all_inner_texts()
        assert len(held) == 3
        assert "2 h" in held[0]


async def test_exporters_that_do_not_answer_are_told(browser: Browser) -> None:
    hung = ExporterCount(state="hung", count=2, nodes=("node-8",))
    async with page(browser, top(ExporterCount(state="ok", count=4), hung)) as shown:
        assert "2 exporters hung: node-8 …" in await shown.text("section[aria-label='All GPUs']")
        assert "39 of 40" in await shown.text("section[aria-label='All GPUs']")


async def test_a_job_opens_with_energy_course_and_advice(browser: Browser) -> None:
    async with page(browser) as shown:
        await shown.page.click("table[aria-label='GPU use by job'] tbody tr")
        await shown.page.wait_for_selector("section[aria-label='Job train'] >> text=try larger batches")
        panel = await shown.text("section[aria-label='Job train']")
        assert "1.25 kWh" in panel
        assert await shown.page.locator(".use-course polyline").count() == 2
        assert f"job={JOB}" in shown.page.url
        assert await breaks_no_rule(shown)


async def test_what_is_asked_stands_in_the_address(browser: Browser) -> None:
    async with page(browser) as shown:
        await shown.page.select_option("select[aria-label='A row for each']", "user")
        await shown.page.wait_for_selector("table[aria-label='GPU use by user']")
        assert "by=user" in shown.page.url


async def test_the_page_fits_a_phone(browser: Browser) -> None:
    async with page(browser, viewport=PHONE, search=f"?job={JOB}") as shown:
        await shown.page.wait_for_selector(".use-course svg")
        assert await shown.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert await breaks_no_rule(shown)


async def test_energy_is_told_by_team_and_over_as_many_days_as_are_asked_for(browser: Browser) -> None:
    async with page(browser, search="?days=7") as shown:
        table = "table[aria-label='Energy by team']"
        row = await shown.text(f"{table} tbody tr")
        for word in ("vision", "1.2 MWh", "93 %", "2,409", "700"):
            assert word in row
        assert "1.3 MWh since" in await shown.text("section[aria-label='Energy'] .panel-head")
        await shown.page.select_option("select[aria-label='Energy of each']", "queue")
        await shown.page.wait_for_selector("table[aria-label='Energy by queue']")
        await shown.until("location.search === '?days=7&energy=queue'")
        assert await breaks_no_rule(shown)
