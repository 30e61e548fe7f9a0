"""The page of clusters: what each is, whether the federation gives it jobs, and where jobs go."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, ViewportSize

from browser.accessibility import breaks_no_rule
from browser.dashboards import DESKTOP, PHONE, Dashboard
from browser.staged_harness import Stage, looked_at, staged
from muster.core.instant import NS_PER_S
from muster.schemas.access import Role, TokenRecord
from muster.schemas.apiserver import ClusterView
from muster.schemas.facts.federation import ClusterPhase
from muster.schemas.members import FederationView, MemberView, RoutesView, WaitingView
from muster.schemas.routing import Choice, RoutingPolicy, RoutingRule, TeamLimit

OPERATOR = TokenRecord(principal="grace", role=Role.OPERATOR)


def atlas() -> ClusterView:
    """A real cluster, three quarters full."""
    return ClusterView(
        name="atlas", backend="kubernetes", version="v1.34.4", devices="kubelet", sharing="none", nodes=125,
        lacking=("resource.k8s.io/v1 is not served: GPUs come from the device plugin.",),
        gpu_milli_total=1_000_000, gpu_milli_free=250_000, jobs_running=40, jobs_queued=3,
    )  # fmt: skip


def federation() -> FederationView:
    """atlas gets jobs, borealis is drained to it, and old was not heard for an hour."""
    now = time.time_ns()
    heard = now - 3_600 * NS_PER_S
    return FederationView(
        clusters=(
            MemberView(name="atlas", jobs=43, gpus=344, heard_at=now, lost_after_s=300),
            MemberView(
                name="borealis", state=ClusterPhase.DRAINING, since=heard, to=("atlas",), by="grace",
                reason="it is moved", jobs=5, gpus_total=64, gpus_free=24, nodes=8, heard_at=now,
            ),
            MemberView(name="old", state=ClusterPhase.LOST, heard_at=heard, lost_after_s=300),
        ),
        waiting=(WaitingView(team="vision", rule="large", gpus=512, jobs=2, oldest_at=heard, detail="all are full"),),
    )  # fmt: skip


def routes() -> RoutesView:
    """Large jobs of two teams overflow from atlas to borealis."""
    large = RoutingRule(
        name="large", teams=("vision", "llm"), gpus_min=64,
        clusters=(Choice(cluster="atlas", queue_max=50), Choice(cluster="borealis")),
    )  # fmt: skip
    rest = RoutingRule(name="rest", clusters=(Choice(cluster="atlas"),))
    limits = (TeamLimit(team="vision", gpus=256, weight=2),)
    return RoutesView(policy=RoutingPolicy(rules=(large, rest), teams=limits), version=3, by="grace")


@asynccontextmanager
async def page(
    browser: Browser, *, me: TokenRecord = OPERATOR, viewport: ViewportSize = DESKTOP, search: str = ""
) -> AsyncIterator[tuple[Dashboard, Stage]]:
    """The page on a stage with three clusters of which one answers."""
    stage = Stage(me=me)
    stage.answers |= {
        "/v1/clusters": {"clusters": [atlas().model_dump(mode="json")]},
        "/v1/federation": federation(),
        "/v1/routes": routes(),
        "POST /v1/clusters/atlas/drain": federation().clusters[0],
        "POST /v1/clusters/borealis/resume": federation().clusters[1],
    }
    async with staged(stage) as harness, looked_at(browser, harness, f"/clusters{search}", viewport=viewport) as shown:
        await shown.page.wait_for_selector("section[aria-label='old']")
        await shown.page.wait_for_selector("table[aria-label='Rules in their order']")
        yield shown, stage


async def test_a_cluster_shows_what_it_is_and_what_it_lacks(browser: Browser) -> None:
    async with page(browser) as (shown, _):
        told = await shown.text("section[aria-label='atlas']")
        assert "Kubernetes v1.34.4" in told
        assert "250 of 1000 free" in told.replace(",", "")
        assert "40 running, 3 waiting" in told
        assert "is not served" in told


async def test_each_cluster_is_in_the_state_that_the_federation_has_it_in(browser: Browser) -> None:
    async with page(browser) as (shown, _):
        atlas_told = await shown.text("section[aria-label='atlas']")
        assert "active" in atlas_told
        assert "43 jobs, 344 GPUs" in atlas_told
        borealis = await shown.text("section[aria-label='borealis']")
        assert "draining" in borealis
        assert "by grace: it is moved. New jobs go to atlas. 5 jobs left there." in borealis
        assert "24 of 64 free" in borealis
        lost = await shown.text("section[aria-label='old']")
        assert "lost" in lost
        assert "Its jobs that may run elsewhere were rerouted" in lost


async def test_where_jobs_go_and_what_waits_is_told(browser: Browser) -> None:
    async with page(browser) as (shown, _):
        rows = await shown.page.locator("table[aria-label='Rules in their order'] tbody tr").all_inner_texts()
        assert rows[0].split("\t") == [
            "large",
            "team vision or llm, 64 GPUs or more",
            "atlas (until 50 wait), then borealis",
        ]
        assert "every job" in rows[1]
        assert "256" in await shown.text("table[aria-label='Teams with a limit or a weight'] tbody tr")
        assert "all are full" in await shown.text("table[aria-label='Waiting jobs by request'] tbody tr")


async def test_an_operator_drains_a_cluster_to_another(browser: Browser) -> None:
    async with page(browser) as (shown, stage):
        await shown.page.click("section[aria-label='atlas'] button")
        await shown.page.select_option("dialog select", "borealis")
        await shown.page.click("text=Drain it")
        await shown.page.wait_for_selector("text=Requested: drain atlas")
        assert stage.posted == [("POST /v1/clusters/atlas/drain?to=borealis", "")]


async def test_who_is_no_operator_is_told_so(browser: Browser) -> None:
    async with page(browser, me=TokenRecord(principal="ada", role=Role.VIEWER)) as (shown, stage):
        await shown.page.locator("section[aria-label='borealis'] button").press("Enter")
        await shown.page.wait_for_selector(".toast-bad >> text=ada is a viewer")
        assert not stage.posted


async def test_the_page_fits_a_phone_and_its_tab_is_in_sight(browser: Browser) -> None:
    async with page(browser, viewport=PHONE) as (shown, _):
        tab = await shown.page.locator("nav a[href='/clusters']").bounding_box()
        assert tab is not None
        assert tab["x"] + tab["width"] <= PHONE["width"]
        assert await shown.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert await breaks_no_rule(shown)
