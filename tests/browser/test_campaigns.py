"""The page of campaigns: how far each is, where its nodes stand, and what operators may ask of it."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, ViewportSize

from browser.accessibility import breaks_no_rule
from browser.dashboards import DESKTOP, PHONE, Dashboard
from browser.staged_harness import Stage, looked_at, staged
from muster.core.instant import NS_PER_S
from muster.schemas.access import Role, TokenRecord
from muster.schemas.campaigns import CampaignView, TurnView
from muster.schemas.facts.operations import NodeAction
from muster.schemas.facts.upgrade import CampaignSpec, Window

OPERATOR = TokenRecord(principal="grace", role=Role.OPERATOR)
JOB = "WEEKLONG222222222222222222"
HOUR_NS = 3_600 * NS_PER_S


def campaign(state: str = "going", reason: str = "") -> CampaignView:
    """A driver on ten nodes: six are done, one failed, one waits for a job of a week."""
    now = time.time_ns()
    turns = (
        TurnView(node="node-1", step="done", since=now),
        TurnView(node="node-2", step="waiting-for-jobs", since=now, waits_for=JOB),
        TurnView(node="node-3", step="failed", since=now, detail="nvidia-smi found 7 of 8 GPUs", attempt=2),
        TurnView(node="node-4", step="planned", turn_at=now + HOUR_NS),
    )
    return CampaignView(
        name="driver-580",
        spec=CampaignSpec(
            name="driver-580", component=NodeAction.DRIVER, version="580.105", per_rack="1",
            windows=(Window(days=(5, 6), from_min=60, to_min=330),),
        ),
        principal="grace", state=state, reason=reason, accepted_at=now - HOUR_NS, next_at=now + HOUR_NS,
        steps={"done": 6, "waiting-for-jobs": 1, "failed": 1, "planned": 2}, ends_at=now + 3 * HOUR_NS,
        out_of_use=2, out_of_use_most=3, gpu_hours_lost=12.5, nodes=turns,
    )  # fmt: skip


@asynccontextmanager
async def page(
    browser: Browser,
    *told: CampaignView,
    me: TokenRecord = OPERATOR,
    viewport: ViewportSize = DESKTOP,
    search: str = "",
) -> AsyncIterator[tuple[Dashboard, Stage]]:
    """The page on a stage whose upgrader tells these."""
    stage = Stage(me=me)
    rows = [one.model_copy(update={"nodes": ()}).model_dump(mode="json") for one in told]
    stage.answers["/v1/campaigns"] = {"campaigns": rows}
    for one in told:
        stage.answers[f"/v1/campaigns/{one.name}"] = one
        for ask in ("pause", "resume", "abort"):
            stage.answers[f"POST /v1/campaigns/{one.name}/{ask}"] = one
    async with staged(stage) as harness, looked_at(browser, harness, f"/campaigns{search}", viewport=viewport) as shown:
        yield shown, stage


async def test_a_campaign_shows_how_far_it_is_and_when_it_ends(browser: Browser) -> None:
    async with page(browser, campaign()) as (shown, _):
        row = await shown.text("table[aria-label='Campaigns, active ones first'] tbody tr")
        for word in ("driver-580", "driver 580.105", "going", "6 of 10"):
            assert word in row
        await shown.page.wait_for_selector("table[aria-label='Its nodes']")
        panel = await shown.text("section[aria-label='Campaign driver-580']")
        for word in ("1 waiting for jobs", "1 of a rack", "Sat Sun 01:00 to 05:30 UTC", "in 2 h 59 min", "12.5"):
            assert word in panel


async def test_nodes_that_failed_come_first_and_waiting_ones_name_their_job(browser: Browser) -> None:
    async with page(browser, campaign()) as (shown, _):
        await shown.page.wait_for_selector("table[aria-label='Its nodes']")
        rows = await shown.page.locator("table[aria-label='Its nodes'] tbody tr").all_inner_texts()
        assert [row.split("\t")[0] for row in rows] == ["node-3", "node-2", "node-4", "node-1"]
        assert "found 7 of 8 GPUs" in rows[0]
        assert await shown.page.locator(f"table[aria-label='Its nodes'] a[href='/jobs/{JOB}']").count() == 1


async def test_an_operator_pauses_it_and_says_why(browser: Browser) -> None:
    async with page(browser, campaign()) as (shown, stage):
        await shown.page.click("button >> text=Pause")
        await shown.page.fill("dialog .ask-field input", "a deadline")
        await shown.page.click("text=Pause it")
        await shown.page.wait_for_selector("text=Pause requested")
        assert stage.posted == [("POST /v1/campaigns/driver-580/pause?reason=a%20deadline", "")]


async def test_one_that_stopped_says_why_and_can_go_on(browser: Browser) -> None:
    async with page(browser, campaign("stopped", "1 node failed")) as (shown, stage):
        await shown.page.wait_for_selector(".note-bad >> text=1 node failed")
        await shown.page.click("button >> text=Resume")
        await shown.page.click("dialog button >> text=Go on")
        await shown.page.wait_for_selector("text=Resume requested")
        assert stage.posted == [("POST /v1/campaigns/driver-580/resume", "")]


async def test_who_is_no_operator_is_told_so(browser: Browser) -> None:
    ada = TokenRecord(principal="ada", role=Role.VIEWER)
    async with page(browser, campaign(), me=ada) as (shown, stage):
        button = shown.page.locator("button", has_text="Abort")
        await button.press("Enter")
        await shown.page.wait_for_selector(".toast-bad >> text=ada is a viewer")
        assert not stage.posted


async def test_without_a_campaign_the_page_says_how_to_plan_one(browser: Browser) -> None:
    async with page(browser) as (shown, _):
        await shown.page.wait_for_selector("text=No campaigns")


async def test_the_page_fits_a_phone(browser: Browser) -> None:
    async with page(browser, campaign(), viewport=PHONE) as (shown, _):
        await shown.page.wait_for_selector("table[aria-label='Its nodes']")
        assert await shown.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert await breaks_no_rule(shown)
