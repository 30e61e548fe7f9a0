"""No page breaks a rule that axe-core knows, in either theme, on a screen and on a phone."""

import pytest

from browser.accessibility import breaks_no_rule, broken_rules
from browser.dashboards import DESKTOP, PHONE, OpenDashboard, Theme
from kit.stack.living import Harness, job

PAGES = ("/fleet", "/queues", "/jobs", "/scale", "/events")


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("path", PAGES)
async def test_a_page_breaks_no_rule(opened: OpenDashboard, harness: Harness, path: str, theme: Theme) -> None:
    await harness.muster.submit(job("seen-by-all", run_s=30.0))
    async with opened(path, theme=theme) as shown:
        await shown.live()
        await shown.page.wait_for_selector("h1")
        assert await breaks_no_rule(shown)


@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_a_jobs_page_breaks_no_rule(opened: OpenDashboard, harness: Harness, theme: Theme) -> None:
    submitted = await harness.muster.submit(job("looked-into", run_s=30.0))
    async with opened(f"/jobs/{submitted.id}", theme=theme) as shown:
        await shown.live()
        await shown.page.wait_for_selector("text=looked-into")
        assert await breaks_no_rule(shown)


@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_the_login_breaks_no_rule(opened: OpenDashboard, theme: Theme) -> None:
    async with opened(token="", theme=theme) as shown:
        await shown.page.wait_for_selector("#token")
        assert await breaks_no_rule(shown)


@pytest.mark.parametrize("key", ["?", "/", "d"])
async def test_a_dialog_breaks_no_rule(opened: OpenDashboard, key: str) -> None:
    async with opened("/events", viewport=DESKTOP) as shown:
        await shown.live()
        await shown.page.keyboard.press(key)
        await shown.page.wait_for_selector("dialog")
        assert await breaks_no_rule(shown)


async def test_a_phone_breaks_no_rule(opened: OpenDashboard) -> None:
    async with opened("/events", viewport=PHONE) as shown:
        await shown.live()
        assert await breaks_no_rule(shown)


async def test_the_rules_would_tell_of_a_breach(opened: OpenDashboard) -> None:
    async with opened(token="") as shown:
        await shown.page.wait_for_selector("#token")
        await shown.page.evaluate("document.querySelector('label[for=token]').remove()")
        assert any(told.startswith("label:") for told in await broken_rules(shown))
