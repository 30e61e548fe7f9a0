"""What a frame of the fleet's map costs: `PYTHONPATH=tests .venv/bin/python -m bench.fleet_frames`.

14,000 cells in Chromium, with a stack played by a worker of the page (125 jobs/s, every GPU read each second), so that
nothing but the page is measured. Per frame: CPU time of all that the page's main thread did since the frame before,
decoding, layout and drawing alike, from Chromium's own trace. CPU time, not time on the clock: what else runs on the
machine is not the page's work.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from bisect import bisect_right
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

from playwright.async_api import Browser

from bench.dashboards import quantiles
from browser.dashboards import chromium
from browser.synthetic_fleet import synthetic_fleet
from muster.cli.machine import this_machine

COLOURS = ("job", "utilisation")
WARM_MS, WATCHED_MS = 3_000, 6_000
TASKS = ("ThreadControllerImpl::RunTask", "RunTask")


class Event(TypedDict, total=False):
    """One event of a trace, as far as it is looked at. ts, tdur: microseconds."""

    name: str
    pid: int
    tid: int
    ts: float
    tdur: float


async def rounds(browser: Browser, address: str, *, by: str, count: int) -> list[dict[str, float]]:
    """Quantiles of the frames of several looks at one page, in ms."""
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    page = await context.new_page()
    await page.goto(f"{address}?by={by}")
    await page.wait_for_timeout(WARM_MS)
    found = []
    for _ in range(count):
        await browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
        await page.wait_for_timeout(WATCHED_MS)
        found.append(quantiles(frames_cpu_ms(json.loads(await browser.stop_tracing())["traceEvents"])))
    await context.close()
    return found


def frames_cpu_ms(events: list[Event]) -> list[float]:
    """CPU time of the page's main thread from one drawn frame to the next."""
    frames = [event for event in events if event.get("name") == "FireAnimationFrame"]
    threads = Counter((event["pid"], event["tid"]) for event in frames)
    main = threads.most_common(1)[0][0]
    begins = sorted(event["ts"] for event in frames if (event["pid"], event["tid"]) == main)
    worked = [0.0] * (len(begins) + 1)
    for event in events:
        if (event["pid"], event["tid"]) == main and event.get("name") in TASKS:
            worked[bisect_right(begins, event["ts"])] += event.get("tdur", 0) / 1000
    return worked[1:-1]


async def measure(count: int) -> dict[str, object]:
    """Each colouring in turn, so many looks of six seconds."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name, synthetic_fleet(Path(name)) as address:
        async with chromium() as browser:
            frames = {by: await rounds(browser, address, by=by, count=count) for by in COLOURS}
    return {"machine": asdict(this_machine()), "frame_cpu_ms": frames}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="looks of six seconds at each colouring")
    sys.stdout.write(json.dumps(asyncio.run(measure(parser.parse_args().rounds)), indent=2) + "\n")
