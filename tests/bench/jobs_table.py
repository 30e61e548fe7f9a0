"""What a frame of the table of jobs costs: `PYTHONPATH=tests .venv/bin/python -m bench.jobs_table`.

25,000 live jobs on a stage, 36 rows changed by each of 20 slices a second, as a projector sends them. The page
measures itself (`musterDiagnostics()`): the main thread's work per frame in ms, on the clock; so what else runs on the
machine is in it.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from browser.dashboards import chromium
from browser.staged_fleet import busy_slice, many_jobs
from browser.staged_harness import Stage, looked_at, staged
from muster.cli.machine import this_machine

SLICES_PER_S = 20
JOBS, SECONDS = 25_000, 15.0


async def measure(jobs: int, seconds: float) -> dict[str, object]:
    """One page, looked at so long."""
    now_ns = time.time_ns()
    live = many_jobs(jobs, now_ns)
    stage = Stage(jobs={one.id: one for one in live})
    async with chromium() as browser, staged(stage) as harness, looked_at(browser, harness, "/jobs") as shown:
        await shown.until(f"document.querySelector('.page-note').textContent === '{jobs:,} live'")
        await shown.page.evaluate("musterDiagnostics.clear()")
        began_s = time.monotonic()
        for number in range(round(seconds * SLICES_PER_S)):
            await harness.change(busy_slice(live, number, now_ns=now_ns, seq=stage.seq))
            await asyncio.sleep(max(0.0, began_s + (number + 1) / SLICES_PER_S - time.monotonic()))
        took_s = time.monotonic() - began_s
        measured = await shown.diagnostics()
    return {
        "machine": asdict(this_machine()),
        "jobs": jobs,
        "slices_per_s": round(seconds * SLICES_PER_S / took_s, 1),
        "frame_work_ms": measured["frameWorkMs"],
        "gaps": measured["gaps"],
    }


def main(arguments: Sequence[str]) -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--duration", type=float, default=SECONDS, help="seconds")
    asked = parser.parse_args(arguments)
    sys.stdout.write(json.dumps(asyncio.run(measure(asked.jobs, asked.duration)), indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
