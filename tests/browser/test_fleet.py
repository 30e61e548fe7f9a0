"""The fleet as a map: cells that follow jobs, keyboard, words and table beside it, GPUs that move, 14,000 cells."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from browser.dashboards import PHONE, Dashboard, Json, OpenDashboard, dashboard, stack_options
from browser.synthetic_fleet import CELLS, synthetic_fleet
from kit.stack.living import Harness, job, open_harness
from kit.waiting import until_async
from muster.cli.starting import FABRIC, MODEL
from muster.schemas.devices import ComposabilitySpec
from muster.stack.options import StartOptions

MAP = ".fleet-canvas"
CURSOR = "[data-testid=fleet-cursor]"
MOVES = ".fleet-moves"
SOURCES = Path(__file__).parents[2] / "services" / "dashboard"
RACKS, RACK_NODES = 3, 8
SWITCH_S, VISIBLE_S, MOVING_S_MAX = 2.0, 0.5, 60.0

PIXELS = """(selector) => {
  const canvas = document.querySelector(selector);
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  return copy.getImageData(0, 0, canvas.width, canvas.height);
}"""
TOKEN_AT = f"""(() => {{
  const {{ data, width }} = ({PIXELS})(".fleet-flights");
  let [sum, count] = [0, 0];
  for (let at = 0; at < data.length; at += 4) {{
    if (data[at + 3] > 250) {{ sum += (at / 4) % width; count++; }}
  }}
  return count > 60 ? sum / count / width : null;
}})()"""
"""How far from the left the opaque pixels over map and pool are, 0 to 1; null while nothing moves there."""

COLOURS = f"""(() => {{
  const {{ data }} = ({PIXELS})(".fleet-canvas canvas");
  const found = {{}};
  for (let at = 0; at < data.length; at += 4) {{
    const colour = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
    found[colour] = (found[colour] ?? 0) + 1;
  }}
  return found;
}})()"""
"""How many pixels of the map have which colour."""


async def cell(shown: Dashboard, node: str, place: int) -> str:
    """What is said of one GPU when the keyboard comes to it."""
    keyboard = shown.page.keyboard
    await shown.page.focus(MAP)
    for rack in range(RACKS):
        await keyboard.press("Control+Home")
        for _ in range(rack):
            await keyboard.press("PageDown")
        for _ in range(RACK_NODES):
            if (await shown.text(CURSOR)).startswith(f"{node} · GPU 0:"):
                for _ in range(place):
                    await keyboard.press("ArrowRight")
                said = await shown.text(CURSOR)
                assert said.startswith(f"{node} · GPU {place}:"), said
                return said
            await keyboard.press("ArrowDown")
    raise AssertionError(f"the keyboard does not come to {node}")


async def until_said(shown: Dashboard, node: str, place: int, words: str) -> None:
    """Wait until that is said of one GPU."""

    async def is_said() -> bool:
        return words in await cell(shown, node, place)

    await until_async(is_said, patience_s=MOVING_S_MAX)


async def test_a_job_is_seen_on_its_cells_and_they_are_free_after_it(opened: OpenDashboard, harness: Harness) -> None:
    async with opened("/fleet") as shown:
        await shown.live()
        await shown.page.wait_for_selector(f"{MAP} canvas")
        placed = await harness.muster.submit(job("on-the-map", gpus=8, run_s=60.0))
        held = await harness.job_that(placed.id, lambda one: one.phase == "running")
        node = held.nodes[0]
        await until_said(shown, node, 0, "job on-the-map of team physics, running")
        before = await shown.page.evaluate(COLOURS)
        await harness.muster.cancel(placed.id)
        await until_said(shown, node, 0, ": free")
        after = await shown.page.evaluate(COLOURS)
        assert before != after


async def test_a_click_tells_of_the_gpu_its_job_and_its_node(opened: OpenDashboard, harness: Harness) -> None:
    placed = await harness.muster.submit(job("clicked-on", gpus=2, run_s=60.0))
    held = await harness.job_that(placed.id, lambda one: one.phase == "running")
    node, device = held.slots[0].node, held.slots[0].devices[0]
    async with opened("/fleet") as shown:
        await shown.live()
        await until_said(shown, node, device, "clicked-on")
        await shown.page.keyboard.press("Enter")
        await shown.page.wait_for_url(f"**node={node}&gpu={device}*")
        details = shown.page.locator("[aria-label=Details]")
        await details.locator("text=clicked-on").wait_for()
        await shown.until("document.querySelector('.fleet-readings')?.textContent.includes('°C')")
        await details.locator("[aria-label='Show the nodes of job clicked-on']").click()
        await shown.page.wait_for_url(f"**job={placed.id}*")
        about = shown.page.locator("[aria-label=Job]")
        await about.locator("text=Mean utilization").wait_for()
        await about.locator("a", has_text="Open the page").click()
        await shown.page.wait_for_url(f"**/jobs/{placed.id}")
    await harness.muster.cancel(placed.id)


async def test_colours_filter_and_table_stand_in_the_address(opened: OpenDashboard) -> None:
    async with opened("/fleet") as shown:
        await shown.live()
        page = shown.page
        await page.keyboard.press("3")
        await page.wait_for_url("**by=utilisation*")
        await page.locator(".fleet-ramp").wait_for()
        plain = await page.evaluate(f"JSON.stringify({COLOURS})")
        await page.keyboard.press("f")
        await page.keyboard.type("node:gpu-0003")
        await page.wait_for_url("**q=node*")
        await shown.until(f"JSON.stringify({COLOURS}) !== {plain!r}")
        await page.get_by_role("button", name="Table").click()
        await page.wait_for_url("**view=table*")
        rows = page.locator(".fleet-main tbody tr")
        assert await rows.count() == 1
        assert "gpu-0003" in await rows.inner_text()
        await shown.go(page.url.removeprefix(shown.url))
        await shown.live()
        assert await page.locator(".fleet-main tbody tr").count() == 1


async def test_the_map_zooms_by_keys_and_shows_all_again(opened: OpenDashboard) -> None:
    async with opened("/fleet") as shown:
        await shown.live()
        await shown.page.wait_for_selector(f"{MAP} canvas")
        await shown.page.focus(MAP)
        fits = await shown.page.evaluate(COLOURS)
        for _ in range(4):
            await shown.page.keyboard.press("+")
        assert await shown.page.evaluate(COLOURS) != fits
        assert await shown.page.get_by_role("button", name="Show all").is_enabled()
        await shown.page.keyboard.press("0")
        assert await shown.page.get_by_role("button", name="Show all").is_disabled()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def quick_fabric(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    """A stack whose fabric takes some seconds for a switch, so that a test sees the way and not only its ends.

    Tests begin when all devices are in the pool, and give back what they attach.
    """
    options = _with_quick_fabric(stack_options(tmp_path_factory.mktemp("stack"), nodes=8))
    async with open_harness(options) as running:
        yield running


def _with_quick_fabric(wanted: StartOptions) -> StartOptions:
    fabric: Json = {
        "name": FABRIC,
        "simulated": {"pool": {MODEL: 8}, "switch_median_s": SWITCH_S, "switch_sigma": 0.1},
    }
    scaling = {**cast("Json", wanted.settings["scaling"]), "visible_s": VISIBLE_S}
    return wanted.model_copy(update={"settings": {**wanted.settings, "fabrics": [fabric], "scaling": scaling}})


async def test_a_gpu_is_seen_moving_from_the_pool_to_its_node_and_back(browser: Browser, quick_fabric: Harness) -> None:
    async with dashboard(browser, quick_fabric, path="/fleet") as shown:
        await shown.live()
        await shown.page.wait_for_selector("text=8 free, 0 attached")
        assert "no device in this place" in await cell(shown, "flex-0001", 0)
        await quick_fabric.muster.compose(
            ComposabilitySpec(model=MODEL, size=1, target_node="flex-0001"), name="seen-moving"
        )
        there = await _way(shown, until="flex-0001 · GPU 0: free")
        assert there == sorted(there, reverse=True), f"it did not move to the left, where its node is: {there}"
        assert there[0] - there[-1] > 0.2
        await shown.page.wait_for_selector("text=7 free, 1 attached")
        await quick_fabric.muster.decompose("seen-moving")
        back = await _way(shown, until="flex-0001 · GPU 0: no device")
        assert back == sorted(back), f"it did not move to the right, where the pool is: {back}"
        assert back[-1] - back[0] > 0.2
        await shown.page.wait_for_selector("text=8 free, 0 attached")


async def _way(shown: Dashboard, *, until: str) -> list[float]:
    """Where the GPU was seen on its way, about ten times a second, to a hundredth of the page's width."""
    await shown.page.wait_for_selector(f"{MOVES} li")
    seen: list[float] = []

    async def is_over() -> bool:
        at = cast("float | None", await shown.page.evaluate(TOKEN_AT))
        if at is not None:
            seen.append(round(at, 2))
            return False
        return (await cell(shown, "flex-0001", 0)).startswith(until)

    await until_async(is_over, patience_s=MOVING_S_MAX)
    assert len(set(seen)) >= 4, f"it was seen at too few places to be moving: {seen}"
    return seen


async def test_who_wants_less_motion_is_told_in_words_and_shown_both_ends(
    browser: Browser, quick_fabric: Harness
) -> None:
    async with dashboard(browser, quick_fabric, path="/fleet", reduced_motion=True) as shown:
        await shown.live()
        await shown.page.wait_for_selector("text=8 free, 0 attached")
        await quick_fabric.muster.compose(
            ComposabilitySpec(model=MODEL, size=1, target_node="flex-0002"), name="told-moving"
        )
        await shown.page.wait_for_selector(f"{MOVES} >> text=on its way to flex-0002")
        seen: set[float] = set()

        async def is_there() -> bool:
            at = cast("float | None", await shown.page.evaluate(TOKEN_AT))
            seen.update(() if at is None else (round(at, 1),))
            return "1 attached" in await shown.text(".fleet-pool") and at is None

        await until_async(is_there, patience_s=MOVING_S_MAX)
        assert len(seen) <= 3, f"it travelled: {sorted(seen)}"
    await quick_fabric.muster.decompose("told-moving")


async def test_on_a_phone_pool_map_and_details_stand_below_each_other(opened: OpenDashboard) -> None:
    async with opened("/fleet", viewport=PHONE) as shown:
        await shown.live()
        await shown.page.wait_for_selector(f"{MAP} canvas")
        pool = await shown.page.locator(".fleet-pool").bounding_box()
        drawn = await shown.page.locator(MAP).bounding_box()
        assert pool is not None
        assert drawn is not None
        assert pool["y"] + pool["height"] <= drawn["y"]
        assert drawn["width"] > PHONE["width"] * 0.8
        assert await shown.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("by", ["job", "utilisation"])
async def test_14_000_cells_are_drawn_and_follow(browser: Browser, tmp_path: Path, by: str) -> None:
    """How long a frame takes is measured by tests/bench/fleet_frames.py."""
    with synthetic_fleet(tmp_path) as address:
        context = await browser.new_context(viewport={"width": 1440, "height": 900})
        try:
            page = await context.new_page()
            await page.goto(f"{address}?by={by}")
            await page.wait_for_selector(f"{MAP} canvas")
            assert f"{CELLS:,}" in await page.inner_text(".page-note")
            seen: set[str] = set()

            async def has_changed() -> bool:
                seen.add(json.dumps(await page.evaluate(COLOURS)))
                return len(seen) > 3

            await until_async(has_changed, patience_s=20)
        finally:
            await context.close()
