"""On the narrowest of phones nothing scrolls sideways but what is made to, and no column loses its place."""

import pytest
from playwright.async_api import ViewportSize

from browser.dashboards import OpenDashboard
from kit.stack.living import Harness, job

NARROW: ViewportSize = {"width": 320, "height": 640}
PAGES = (
    "/fleet",
    "/queues",
    "/jobs",
    "/use",
    "/use?by=team",
    "/health",
    "/campaigns",
    "/scale",
    "/clusters",
    "/apiserver",
    "/events",
)
COLUMN_PX_MIN = 40
TOO_WIDE = """
[document.documentElement, document.querySelector('main'), document.querySelector('.page')]
  .filter(box => box.scrollWidth > box.clientWidth).map(box => `${box.tagName} ${box.scrollWidth}`)
"""
SQUEEZED = f"""
[...document.querySelectorAll('main thead th')].filter(one => one.checkVisibility())
  .filter(one => one.clientWidth < {COLUMN_PX_MIN}).map(one => `${{one.textContent}} ${{one.clientWidth}} px`)
"""
OUTSIDE = """
[...document.querySelectorAll('main .table-scroll')].filter(box => box.scrollWidth > box.clientWidth)
  .map(box => `${box.ariaLabel} ${box.scrollWidth} of ${box.clientWidth} px`)
"""


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_fits_the_narrowest_phone(opened: OpenDashboard, harness: Harness, path: str) -> None:
    await harness.muster.submit(job("seen-by-all", run_s=30.0))
    async with opened(path, viewport=NARROW) as shown:
        await shown.live()
        await shown.page.wait_for_selector("h1")
        await shown.until("!document.querySelector('main .spinner')")
        found = [item for what in (TOO_WIDE, SQUEEZED, OUTSIDE) for item in await shown.page.evaluate(what)]
        assert not found
