"""The benchmark of the dashboard, small: it measures what it says."""

import asyncio
import json
import os
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
SMALL = "--nodes 8 --jobs-per-s 5 --run-s 2 --duration 4 --browsers 1 --listeners 2"


async def test_the_bench_of_dashboards_follows_facts_to_pixels() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.dashboards", *SMALL.split(),
        env={**os.environ, "PYTHONPATH": str(TESTS)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0
    figures = json.loads(said)
    (page,) = figures["browsers"]
    assert figures["jobs_accepted"] == 70
    assert figures["jobs_refused"] == 0
    assert page["factToPaintedMs"]["count"] > 0
    assert figures["listeners"]["messages_per_s_each"] > 0
    assert figures["fleet_painted_ms"]["median"] > 0
