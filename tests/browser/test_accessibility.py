"""No page breaks a rule that axe-core knows, in either theme, on a screen and on a phone."""

from pathlib import Path
from typing import cast

import pytest

from browser.dashboards import DESKTOP, PHONE, Dashboard, OpenDashboard, Theme
from kit.stack.living import House, job

AXE = Path(__file__).parents[2] / "services" / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = ("/fleet", "/queues", "/jobs", "/scale", "/events")
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


async def breaks_no_rule(shown: Dashboard) -> bool:
    """Fails with what axe-core finds on the page as it stands."""
    found = await broken_rules(shown)
    assert not found, "\n".join(found)
    return True


async def broken_rules(shown: Dashboard) -> list[str]:
    """Rule, place and reason of each breach."""
    assert AXE.exists(), f"no {AXE}: run `make web` first"
    await shown.page.evaluate(AXE.read_text(encoding="utf-8"))
    found = cast(
        "list[dict[str, object]]",
        await shown.page.evaluate(
            "tags => axe.run({runOnly: tags}).then(({violations}) => violations.flatMap(({id, help, nodes}) =>"
            " nodes.map(({html, failureSummary}) => ({id, help, html, why: failureSummary}))))",
            list(RULES),
        ),
    )
    return [f"{one['id']}: {one['help']}\n  {one['html']}\n  {one['why']}" for one in found]


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("path", PAGES)
async def test_a_page_breaks_no_rule(opened: OpenDashboard, house: House, path: str, theme: Theme) -> None:
    await house.muster.submit(job("seen-by-all", run_s=30.0))
    async with opened(path, theme=theme) as shown:
        await shown.live()
        await shown.page.wait_for_selector("h1")
        assert await breaks_no_rule(shown)


@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_a_jobs_page_breaks_no_rule(opened: OpenDashboard, house: House, theme: Theme) -> None:
    submitted = await house.muster.submit(job("looked-into", run_s=30.0))
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
