"""The benchmarks of the dashboard, small: they measure what they say."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
Json = dict[str, Any]
SMALL = "--nodes 8 --jobs-per-s 5 --run-s 2 --duration 4 --browsers 1 --listeners 2"


async def figures_of(bench: str, *words: str) -> Json:
    """What a benchmark prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"bench.{bench}", *words,
        env={**os.environ, "PYTHONPATH": str(TESTS)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(said)


async def test_the_bench_of_frames_sees_each_colouring_drawn() -> None:
    figures = await figures_of("fleet_frames", "--rounds", "1")
    assert all(look["count"] > 10 and look["p95"] > 0 for looks in figures["frame_cpu_ms"].values() for look in looks)


async def test_the_bench_of_the_table_of_jobs_sees_its_frames() -> None:
    figures = await figures_of("jobs_table", "--jobs", "200", "--duration", "1")
    assert figures["jobs"] == 200
    assert figures["frame_work_ms"]["count"] > 0
    assert figures["slices_per_s"] > 0


async def test_the_bench_of_dashboards_follows_facts_to_pixels() -> None:
    figures = await figures_of("dashboards", *SMALL.split())
    (page,) = figures["browsers"]
    assert figures["jobs_accepted"] == 70
    assert figures["jobs_refused"] == 0
    assert page["factToPaintedMs"]["count"] > 0
    assert figures["listeners"]["messages_per_s_each"] > 0
    assert figures["fleet_painted_ms"]["median"] > 0
