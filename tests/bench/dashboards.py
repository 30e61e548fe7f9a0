"""From a fact to a pixel: `PYTHONPATH=tests .venv/bin/python -m bench.dashboards`.

A whole stack with a large simulated fleet, jobs at a steady rate over HTTP, some dashboards in Chromium and the rest as
NATS clients with a dashboard's credential. The browsers measure themselves (`musterDiagnostics()`): from the broker's
time-stamp of a fact until it is painted, and the main thread's work per frame; Chromium's own account of the main
thread stands beside it. First paint is measured before the load, by pages opened in fresh profiles.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import httpx
from playwright.async_api import Browser, CDPSession

from bench.live_listeners import Heard, Listeners
from browser.dashboards import Dashboard, chromium, dashboard, stack_options
from kit.stack.living import TEAM, Harness, open_harness
from muster.cli.fleet_ready import fleet_ready
from muster.cli.machine import this_machine
from muster.schemas.live import LiveCredential
from muster.schemas.subjects import FED_LOG, cluster_log
from muster_tools.bench.load import steady, submit
from muster_tools.bench.workload import GPU_CYCLE, RUN_LABEL

PAGES = ("/fleet?by=team", "/fleet?colour=utilisation", "/fleet?colour=job")
OPENED_COLD = 5
CONNECTIONS = 16
WARM_UP_S = 10.0
WINDOW_S = 3.0
"""A page keeps its newest 4,096 values: it is asked so often, so that at 1,000 facts/s none is left out."""


@dataclass(frozen=True, slots=True)
class Plan:
    """jobs_per_s: each makes some nine facts that dashboards see. listeners: dashboards beside the browsers."""

    nodes: int
    jobs_per_s: float
    run_s: float
    duration_s: float
    browsers: int
    listeners: int


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and the most, in the values' unit; zeros for nothing."""
    ordered = sorted(values) or [0.0]

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)

    return {"count": len(values), "p50": at(0.50), "p95": at(0.95), "p99": at(0.99), "max": at(1.0)}


async def first_paints(browser: Browser, harness: Harness) -> dict[str, object]:
    """Pages opened one after the other, each in a profile without a cache: first contentful paint, and all shown."""
    contentful, filled = [], []
    for _ in range(OPENED_COLD):
        async with dashboard(browser, harness, path="/fleet") as shown:
            await shown.live()
            await shown.until("musterDiagnostics().firstFilledMs > 0")
            contentful.append(
                float(await shown.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            )
            filled.append(float(cast("float", (await shown.diagnostics())["firstFilledMs"])))
    return {
        "first_contentful_paint_ms": {"min": round(min(contentful)), "median": round(statistics.median(contentful))},
        "fleet_painted_ms": {"min": round(min(filled)), "median": round(statistics.median(filled))},
    }


@asynccontextmanager
async def watching(browser: Browser, harness: Harness, plan: Plan) -> AsyncIterator[list[Dashboard]]:
    """So many browsers' dashboards, all live. What they complain of is retried by them, and shows in their figures."""
    async with AsyncExitStack() as stack:
        shown = [
            await stack.enter_async_context(
                dashboard(browser, harness, path=PAGES[number % len(PAGES)], ignored=lambda _: True)
            )
            for number in range(plan.browsers)
        ]
        for one in shown:
            await one.live()
        yield shown


async def credentials(harness: Harness, count: int) -> list[LiveCredential]:
    """Of dashboards of somebody with one team."""
    token = harness.stack.state.token.read_text().strip()
    async with httpx.AsyncClient(base_url=harness.stack.endpoints.http) as client:
        answer = await client.post(
            "/v1/tokens",
            headers={"Authorization": f"Bearer {token}"},
            json={"principal": "wall", "role": "submitter", "teams": [TEAM]},
        )
        wall = {"Authorization": f"Bearer {answer.raise_for_status().json()['token']}"}
        answers = [await client.post("/v1/live/credential", headers=wall) for _ in range(count)]
    return [LiveCredential.model_validate_json(answer.raise_for_status().content) for answer in answers]


def bodies(plan: Plan) -> list[tuple[str, bytes]]:
    """Jobs of one to eight GPUs that run for a while and end well."""
    count = round(plan.jobs_per_s * (plan.duration_s + WARM_UP_S))
    return [
        (
            f"pixel-{number}",
            json.dumps(
                {
                    "name": f"pixel-{number}",
                    "team": TEAM,
                    "task_groups": [
                        {"gpus": GPU_CYCLE[number % len(GPU_CYCLE)], "cpu_milli": 1000, "memory_mib": 1024}
                    ],
                    "labels": {RUN_LABEL: f"{plan.run_s:g}", "sim.muster.dev/exit-code": "0"},
                }
            ).encode(),
        )
        for number in range(count)
    ]


async def facts_shown(harness: Harness) -> int:
    """Facts in both logs so far, without the fences that each batch begins with."""
    cluster = cluster_log(harness.settings.cluster)
    counts = [
        await harness.metric("muster_folded_facts_total", service="projector", log=log.stream)
        for log in (cluster, FED_LOG)
    ]
    return round(sum(counts))


class MainThread:
    """What Chromium itself says of a page's main thread, from `begin` on."""

    def __init__(self, session: CDPSession) -> None:
        self._session = session
        self._began_s = 0.0

    @classmethod
    async def begin(cls, shown: Dashboard) -> "MainThread":
        """Count from now on."""
        thread = cls(await shown.page.context.new_cdp_session(shown.page))
        await thread._session.send("Performance.enable")
        thread._began_s = await thread._task_s()
        return thread

    async def worked_s(self) -> float:
        """Time in tasks of the main thread so far."""
        return await self._task_s() - self._began_s

    async def _task_s(self) -> float:
        metrics = (await self._session.send("Performance.getMetrics"))["metrics"]
        return next(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")


async def under_load(harness: Harness, shown: list[Dashboard], listeners: Listeners, plan: Plan) -> dict[str, object]:
    """Jobs at the rate; figures of everything after the warm-up."""
    token = harness.stack.state.token.read_text().strip()
    sending = asyncio.create_task(
        submit(
            bodies(plan), url=harness.stack.endpoints.http, token=token, connections=CONNECTIONS,
            progress=lambda _: None, pace_s=steady(plan.jobs_per_s),
        )
    )  # fmt: skip
    await asyncio.sleep(WARM_UP_S)
    await listeners.clear()
    for one in shown:
        await one.page.evaluate("musterDiagnostics.clear()")
    threads = [await MainThread.begin(one) for one in shown]
    before, began_s = await facts_shown(harness), time.monotonic()
    windows: list[list[dict[str, float]]] = []
    while not sending.done():
        await asyncio.wait([sending], timeout=WINDOW_S)
        windows.append([cast("dict[str, float]", (await one.diagnostics())["factToPaintedMs"]) for one in shown])
    sent = sending.result()
    took_s = time.monotonic() - began_s
    pages = [await one.diagnostics() for one in shown]
    worked_s = [await thread.worked_s() for thread in threads]
    made = await facts_shown(harness) - before
    heard: Heard = await listeners.stop()
    return {
        "jobs_accepted": sent.accepted,
        "jobs_refused": sent.refused,
        "facts_per_s": round(made / took_s),
        "browsers": [
            {
                **page,
                "fact_to_pixel_ms_p99_by_window": quantiles([window[number]["p99"] for window in windows]),
                "main_thread_share": round(worked / took_s, 3),
            }
            for number, (page, worked) in enumerate(zip(pages, worked_s, strict=True))
        ],
        "listeners": {
            "count": plan.listeners,
            "messages_per_s_each": round(heard.slices / took_s / max(1, plan.listeners), 1),
            "kib_per_s_each": round(heard.bytes / took_s / max(1, plan.listeners) / 1024, 1),
            "fact_to_client_ms": quantiles(heard.late_ms),
        },
    }


async def measure(plan: Plan, directory: Path) -> dict[str, object]:
    """Everything, on a fresh stack."""
    wanted = stack_options(directory, nodes=plan.nodes)
    simulation = {**cast("dict[str, object]", wanted.settings["simulation"]), "telemetry_interval_s": 10.0}
    settings = {
        **wanted.settings,
        "simulation": simulation,
        "telemetry": {"interval_s": 10.0},
        "access": {"submitter": {"requests_per_s": None}},
    }
    options = wanted.model_copy(update={"settings": settings})
    async with open_harness(options) as harness, chromium() as browser:
        await fleet_ready(harness.muster, nodes=plan.nodes, queue=TEAM)
        paints = await first_paints(browser, harness)
        listeners = Listeners(harness.stack.endpoints.nats, await credentials(harness, plan.listeners))
        await listeners.start()
        async with watching(browser, harness, plan) as shown:
            load = await under_load(harness, shown, listeners, plan)
    return {"plan": asdict(plan), "machine": asdict(this_machine()), **paints, **load}


def main(arguments: Sequence[str]) -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_750, help="of 8 GPUs")
    parser.add_argument("--jobs-per-s", type=float, default=110.0)
    parser.add_argument("--run-s", type=float, default=15.0, help="how long each job runs")
    parser.add_argument("--duration", type=float, default=60.0, help="seconds, after the warm-up")
    parser.add_argument("--browsers", type=int, default=3)
    parser.add_argument("--listeners", type=int, default=47)
    asked = parser.parse_args(arguments)
    plan = Plan(asked.nodes, asked.jobs_per_s, asked.run_s, asked.duration, asked.browsers, asked.listeners)
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        figures = asyncio.run(measure(plan, Path(name) / "stack"))
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
