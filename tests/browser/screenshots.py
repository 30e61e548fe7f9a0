"""Takes the pictures of the documentation anew: `make screenshots` starts a stack, gives it work, shoots its pages."""

import asyncio
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Browser, ViewportSize

from browser.dashboards import PHONE, Theme, chromium, dashboard, stack_options
from kit.stack.living import Harness, open_harness
from kit.waiting import until_async
from muster.schemas.facts.queue import GPU, QueueSpec
from muster.schemas.facts.reservation import ReservationSpec
from muster.schemas.job import JobSpec, Phase, TaskGroup

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SCREEN: ViewportSize = {"width": 1440, "height": 900}
NODES, JOBS, SEED = 48, 90, 7
SETTLED_MS = 4_000
"""From the page's first full picture to the shot: readings arrive once a second."""

TEAMS = {"research": 210, "platform": 130, "serving": 90}
"""Teams with their nominal GPUs: together more than there are, so that the fleet fills and the scaler has to choose."""
WORK = {
    "research": ("pretrain-70b", "finetune", "eval-suite", "diffusion", "rlhf", "sweep"),
    "platform": ("tokenise", "embeddings", "distil", "nightly-eval"),
    "serving": ("chat", "search-rank", "speech"),
}
SIZES = ((1, 1), (1, 2), (1, 4), (2, 8), (4, 8), (1, 8), (8, 8))
"""Replicas, and GPUs of each."""


@dataclass(frozen=True)
class Shot:
    """One picture. path: of the page, `{job}` a running job's id."""

    name: str
    path: str
    theme: Theme = "dark"
    viewport: ViewportSize | None = None


SHOTS = (
    Shot("fleet", "/fleet"),
    Shot("fleet-light", "/fleet?by=utilisation", "light"),
    Shot("queues", "/queues"),
    Shot("jobs", "/jobs"),
    Shot("job", "/jobs/{job}"),
    Shot("scale", "/scale?choice=s000001"),
    Shot("events", "/events", "light"),
    Shot("phone", "/fleet?by=team", viewport=PHONE),
)


def queues() -> tuple[QueueSpec, ...]:
    """One organisation, three teams that lend to each other."""
    teams = (QueueSpec(name=name, parent="org", quota={GPU: gpus * 1000}) for name, gpus in TEAMS.items())
    return QueueSpec(name="org"), *teams


def work(seed: int) -> Iterator[JobSpec]:
    """More than fits: some of it ends at once, one in twelve fails, the rest runs for a long while."""
    draw = random.Random(seed)
    for number in range(JOBS):
        team = draw.choices(tuple(TEAMS), weights=(5, 3, 2))[0]
        replicas, gpus = draw.choice(SIZES[:3] if team == "serving" else SIZES)
        is_short = draw.random() < 0.3
        fails = is_short and draw.random() < 0.25
        yield JobSpec(
            name=f"{draw.choice(WORK[team])}-{number:02}",
            team=team,
            priority=draw.choice((50, 50, 50, 70)),
            task_groups=(TaskGroup(replicas=replicas, gpus=gpus, cpu_milli=4_000, memory_mib=16_384),),
            total_run_time_s=7_200.0,
            labels={
                "sim.muster.dev/run-s": str(draw.uniform(2, 8) if is_short else draw.uniform(900, 3_000)),
                "sim.muster.dev/exit-code": "1" if fails else "0",
            },
        )


async def prepare(harness: Harness) -> str:
    """Give the stack its work, and wait until there is something to see. Answers with a running job's id."""
    for queue in queues():
        await harness.muster.set_queue(queue)

    async def known() -> bool:
        return {*TEAMS} <= {queue.name for queue in await harness.muster.queues()}

    await until_async(known)
    ids = [(await harness.muster.submit(spec)).id for spec in work(SEED)]
    newest = await harness.muster.get(ids[-1])
    spec = ReservationSpec(
        name="maintenance", nodes=("gpu-0047", "gpu-0048"), starts_at=newest.submitted_at + 7_200 * 10**9,
        duration_s=3_600, reason="firmware of rack r5",
    )  # fmt: skip
    await harness.muster.reserve(spec)
    running: list[tuple[int, str]] = []

    async def busy() -> bool:
        jobs = [await harness.muster.get(job_id) for job_id in ids]
        running[:] = [(job.gpu_milli, job.id) for job in jobs if job.phase is Phase.RUNNING]
        if len(running) < 25 or not any(job.phase is Phase.FAILED for job in jobs):
            return False
        return any(fact.name == "gpu-attach-chosen" for fact in await harness.facts())

    await until_async(busy)
    return sorted(running)[len(running) * 3 // 4][1]


async def take(browser: Browser, harness: Harness, shot: Shot, *, job_id: str) -> Path:
    """One picture, in a browser profile of its own."""
    path = shot.path.format(job=job_id)
    viewport = shot.viewport or SCREEN
    async with dashboard(
        browser, harness, path=path, theme=shot.theme, viewport=viewport, reduced_motion=True
    ) as shown:
        await shown.live()
        await shown.page.wait_for_selector("h1")
        await shown.page.wait_for_timeout(SETTLED_MS)
        where = IMAGES / f"{shot.name}.png"
        await shown.page.screenshot(path=where)
        return where


async def main() -> None:
    """All of them."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        options = stack_options(Path(directory) / "stack", nodes=NODES)
        async with chromium() as browser, open_harness(options) as harness:
            job_id = await prepare(harness)
            for shot in SHOTS:
                print(await take(browser, harness, shot, job_id=job_id))  # noqa: T201 - says what it wrote


if __name__ == "__main__":
    asyncio.run(main())
