"""The frame around every page: logging in and out, the connection's words, keys, theme, search, a phone."""

import pytest
from playwright.async_api import Browser

from browser.dashboards import PHONE, OpenDashboard, dashboard
from kit.stack.living import Harness, job
from muster.schemas.access import Role, TokenRecord

PAGES = ("/fleet", "/queues", "/jobs", "/scale", "/events")


async def test_a_token_in_the_address_logs_in_and_leaves_the_address(opened: OpenDashboard) -> None:
    async with opened("/events") as shown:
        await shown.live()
        assert "token" not in shown.page.url
        assert await shown.text(".account-name small") == "admin"


async def test_a_link_with_another_token_replaces_no_session_unasked(opened: OpenDashboard, harness: Harness) -> None:
    made = await harness.muster.make_token(TokenRecord(principal="mallory", role=Role.VIEWER))
    link = f"/fleet#token={made.token}"
    async with opened("/events") as shown:
        await shown.live()
        await shown.page.goto(shown.url + link)
        await shown.page.wait_for_selector("dialog strong")
        assert made.token not in shown.page.url
        assert await shown.text("dialog strong") == "mallory"
        await shown.page.click("dialog .button-main")
        assert await shown.page.locator("dialog").count() == 0
        await shown.live()
        assert await shown.text(".account-name small") == "admin"
        await shown.page.evaluate("address => { location.href = address }", link)  # the page stays, its hash changes
        await shown.page.click("text=Log in as mallory")
        await shown.page.wait_for_selector("text=viewer")


async def test_without_a_token_it_asks_for_one_and_says_when_it_is_wrong(browser: Browser, harness: Harness) -> None:
    refused = "the server responded with a status of 401"
    async with dashboard(browser, harness, token="", ignored=lambda text: refused in text) as shown:
        await shown.page.fill("#token", "muster_mistyped")
        await shown.page.press("#token", "Enter")
        await shown.page.wait_for_selector("[role=alert]")
        assert "Invalid token" in await shown.text("[role=alert]")
        await shown.page.fill("#token", harness.stack.state.token.read_text().strip())
        await shown.page.click("text=Log in")
        await shown.live()
        await shown.page.click("text=Log out")
        await shown.page.wait_for_selector("#token")
        assert await shown.page.evaluate("sessionStorage.length + localStorage.length") == 0


async def test_a_token_is_remembered_only_if_asked(browser: Browser, harness: Harness) -> None:
    async with dashboard(browser, harness, token="") as shown:
        await shown.page.fill("#token", harness.stack.state.token.read_text().strip())
        await shown.page.check("text=Remember the token")
        await shown.page.click("text=Log in")
        await shown.live()
        later = await shown.page.context.new_page()
        await later.goto(shown.url)
        await later.wait_for_selector('[data-connection="live"]')


async def test_keys_lead_to_every_page_and_are_listed(opened: OpenDashboard) -> None:
    async with opened() as shown:
        await shown.live()
        for key, path in zip("fqjse", PAGES, strict=True):
            await shown.page.keyboard.press("g")
            await shown.page.keyboard.press(key)
            await shown.page.wait_for_url(f"**{path}")
        await shown.page.keyboard.press("?")
        listed = await shown.text("dialog")
        assert all(words in listed for words in ("Go to Fleet", "Search", "Theme", "Performance"))
        await shown.page.keyboard.press("Escape")
        assert await shown.page.locator("dialog").count() == 0


async def test_search_finds_jobs_nodes_and_queues(opened: OpenDashboard, harness: Harness) -> None:
    submitted = await harness.muster.submit(job("sought-after", run_s=30.0))
    async with opened("/events") as shown:
        await shown.live()
        await shown.until("document.querySelector('.table')?.textContent.includes('sought-after')")
        await shown.page.keyboard.press("/")
        await shown.page.keyboard.type("sought")
        await shown.page.wait_for_selector("[role=option]")
        await shown.page.keyboard.press("Enter")
        await shown.page.wait_for_url(f"**/jobs/{submitted.id}")


async def test_the_theme_is_the_systems_until_one_is_chosen_and_then_kept(opened: OpenDashboard) -> None:
    async with opened(theme="light") as shown:
        await shown.live()
        assert await shown.page.evaluate("document.documentElement.dataset.theme") == "light"
        await shown.page.keyboard.press("t")
        await shown.go("/events")
        assert await shown.page.evaluate("document.documentElement.dataset.theme") == "dark"


async def test_a_phone_has_the_pages_at_the_bottom_and_scrolls_in_one_direction_only(opened: OpenDashboard) -> None:
    async with opened("/events", viewport=PHONE) as shown:
        await shown.live()
        for path in PAGES:
            await shown.follow(path)
            await shown.page.wait_for_selector("h1")
            wide = await shown.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} is {wide} pixels wider than the phone"
        box = await shown.page.locator("nav.sidebar").bounding_box()
        assert box is not None
        assert box["y"] > PHONE["height"] * 0.8


@pytest.mark.parametrize("path", ["/nowhere", "/jobs/%25", "/jobs/..%2Fme", "/jobs/SHORT"])
async def test_an_address_that_is_no_page_says_so(opened: OpenDashboard, path: str) -> None:
    async with opened(path) as shown:
        await shown.page.wait_for_selector(f"text=No page exists at {path}")


async def test_the_page_measures_how_late_and_how_costly_it_is(opened: OpenDashboard, harness: Harness) -> None:
    async with opened("/events") as shown:
        await shown.live()
        before = await shown.page.evaluate("musterDiagnostics().factToPaintedMs.count")
        await harness.muster.submit(job("measured", run_s=0.1))
        await shown.until(f"musterDiagnostics().factToPaintedMs.count >= {before} + 4")
        report = await shown.page.evaluate("musterDiagnostics()")
        assert 0 < report["factToPaintedMs"]["p50"] < 10_000
        assert report["frameWorkMs"]["p95"] >= report["frameWorkMs"]["p50"] > 0
        assert 0 < report["firstFilledMs"] < 20_000
        await shown.page.keyboard.press("d")
        assert "Fact to display" in await shown.text("dialog")
