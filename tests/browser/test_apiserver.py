"""The page of the API server."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, ViewportSize

from browser.dashboards import DESKTOP, PHONE, Dashboard
from browser.staged_harness import Stage, looked_at, staged
from muster.core.instant import NS_PER_S
from muster.schemas.apiserver import (
    ApiServerReplica,
    ApiServerReport,
    FlowLevel,
    Lister,
    MemoryPoint,
    StandingAdvice,
    StoredKind,
)


def replica(name: str, *memory_mib: float) -> ApiServerReplica:
    """An API server that was seen so often, with this memory."""
    now = time.time_ns()
    points = tuple(MemoryPoint(at=now + index * 15 * NS_PER_S, memory_mib=mib) for index, mib in enumerate(memory_mib))
    return ApiServerReplica(
        name=name, memory_mib=memory_mib[-1], memory=points, in_flight=12, lists_per_s=3.5, seen_at=now
    )


def report(*advices: StandingAdvice, seats: int = 2) -> ApiServerReport:
    """Two API servers, one of them much larger."""
    return ApiServerReport(
        cluster="local",
        guarded=True,
        applies=True,
        at=time.time_ns(),
        replicas=(replica("https://127.0.0.1:6443", 500, 2_094), replica("https://127.0.0.2:6443", 480, 512)),
        memory_skew=4.1,
        listers=(Lister(client="poller/1.0", resource="secrets", lists_per_minute=240, lists=9_000),),
        levels=(
            FlowLevel(
                name="list-secrets", seats=seats, wanted=2, executing=2, queued=10, rejected=4, wait_ms_p99=14_700
            ),
        ),
        kinds=(StoredKind(resource="secrets", objects=300, bytes=40_100_000),),
        advices=advices,
    )


@asynccontextmanager
async def page(
    browser: Browser, told: ApiServerReport, *, viewport: ViewportSize = DESKTOP
) -> AsyncIterator[Dashboard]:
    """The page of the API server on a stage whose guard tells this."""
    stage = Stage(answers={"/v1/apiserver": told.model_dump(mode="json")})
    async with staged(stage) as harness, looked_at(browser, harness, "/apiserver", viewport=viewport) as shown:
        yield shown


async def test_each_replica_has_its_line_and_its_row(browser: Browser) -> None:
    async with page(browser, report()) as shown:
        await shown.page.wait_for_selector("text=largest memory 4.1 times the smallest")
        assert await shown.page.locator("polyline.memory-line").count() == 2
        rows = await shown.page.locator("[aria-label='API servers'] tbody tr").all_inner_texts()
        assert "2.0 GiB" in rows[0]
        assert "512 MiB" in rows[1]


async def test_who_lists_what_and_how_often_is_told(browser: Browser) -> None:
    async with page(browser, report()) as shown:
        row = await shown.text("table[aria-label='LIST requests by client'] tbody tr")
        assert "poller/1.0" in row
        assert "secrets" in row
        assert "240" in row


async def test_a_level_that_has_lost_its_seats_stands_out(browser: Browser) -> None:
    async with page(browser, report(seats=3)) as shown:
        assert "2 seats wanted" in await shown.text("table[aria-label='Priority levels'] tbody tr")
    async with page(browser, report()) as shown:
        assert "kept" in await shown.text("table[aria-label='Priority levels'] tbody tr")


async def test_an_advice_says_what_to_do(browser: Browser) -> None:
    advice = StandingAdvice(
        id="memory-skew", code="memory-skew", about="https://127.0.0.1:6443",
        detail="2094 MiB here, 512 MiB at the smallest.", cure="Start the API servers with --goaway-chance=0.001.",
    )  # fmt: skip
    async with page(browser, report(advice)) as shown:
        told = await shown.text("section[aria-label='Advice']")
        assert "memory skew" in told
        assert "--goaway-chance=0.001" in told


async def test_without_a_real_cluster_the_page_says_so(browser: Browser) -> None:
    async with page(browser, ApiServerReport()) as shown:
        await shown.page.wait_for_selector("text=No API server is monitored")


async def test_the_page_fits_a_phone(browser: Browser) -> None:
    async with page(browser, report(), viewport=PHONE) as shown:
        await shown.page.wait_for_selector("polyline.memory-line")
        assert await shown.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
