"""Pages that one cluster's services answer: whose they show can be chosen where there are several."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser
from pydantic import BaseModel

from browser.accessibility import breaks_no_rule
from browser.dashboards import PHONE, Dashboard
from browser.staged_harness import CLUSTER, Stage, looked_at, staged
from kit.waiting import until
from muster.schemas.access import Role, TokenRecord
from muster.schemas.apiserver import ApiServerReplica, ApiServerReport
from muster.schemas.campaigns import CampaignView
from muster.schemas.conditions import Condition, ConditionsAnswer
from muster.schemas.facts.health import HealthPhase
from muster.schemas.facts.operations import NodeAction
from muster.schemas.facts.upgrade import CampaignSpec
from muster.schemas.queries import ScaleChoiceView
from muster.schemas.usage import Energy, Idle, Top, TopRow
from muster.schemas.views import NodeView

OTHER = "west"
CHOICE = "select[aria-label='Cluster']"
PAGES = ("/health", "/campaigns", "/use", "/apiserver", "/scale")
AWAY: dict[str, object] = {"status": 503, "title": "Unavailable", "detail": "health does not answer"}


def told_by(cluster: str) -> dict[str, BaseModel | dict[str, object]]:
    """What a cluster's services tell; every page of it shows `CLUSTER-is-told` somewhere."""
    word, now = f"{cluster}-is-told", time.time_ns()
    ill = Condition(kind="node", name=word, node=word, phase=HealthPhase.SUSPECT, since=now, began_at=now)
    spec = CampaignSpec(name=word, component=NodeAction.DRIVER, version="1")
    campaign = CampaignView(name=word, spec=spec, state="going", accepted_at=now)
    row = TopRow(key=word, name=word, team=word, jobs=1, gpus=1, busy_pct=1)
    choice = ScaleChoiceView(id=word, cluster=cluster, name="node-add-chosen", case=2, group=word, at=now, reason=word)
    answers: dict[str, BaseModel | dict[str, object]] = {
        "/v1/conditions": ConditionsAnswer(nodes=1, conditions=(ill,), at=now, cluster=cluster),
        f"/v1/conditions/{word}": ConditionsAnswer(nodes=1, conditions=(ill,), at=now, cluster=cluster, known=True),
        f"POST /v1/conditions/{word}/verify": ConditionsAnswer(cluster=cluster),
        "/v1/campaigns": {"campaigns": [campaign.model_dump(mode="json")]},
        f"/v1/campaigns/{word}": campaign,
        "/v1/usage/top": Top(at=now, rows=(row,), total=1, gpus_expected=1, gpus_seen=1, held=1),
        "/v1/usage/idle": Idle(at=now, after_s=600),
        "/v1/usage/energy": Energy(at=now, since=now),
        "/v1/apiserver": ApiServerReport(
            cluster=cluster, guarded=True, at=now, replicas=(ApiServerReplica(name=word, memory_mib=1, seen_at=now),)
        ),
        "/v1/scale": {"choices": [choice.model_dump(mode="json")]},
    }
    return answers if cluster == CLUSTER else {f"{path}?cluster={cluster}": said for path, said in answers.items()}


@asynccontextmanager
async def page(browser: Browser, path: str, *others: str, **how: object) -> AsyncIterator[tuple[Dashboard, Stage]]:
    """A page over clusters that each tell of themselves."""
    me = TokenRecord(principal="grace", role=Role.OPERATOR)
    stage = Stage(me=me, others=others)
    for name in (CLUSTER, *others):
        stage.answers |= told_by(name)
    async with staged(stage) as harness, looked_at(browser, harness, path, **how) as shown:  # type: ignore[arg-type]
        yield shown, stage


async def tells(shown: Dashboard, cluster: str) -> None:
    """Wait until the page shows what that cluster tells, and nothing of another one."""
    await shown.page.wait_for_selector(f"main >> text={cluster}-is-told >> nth=0")
    said = await shown.text("main")
    assert not any(f"{name}-is-told" in said for name in {CLUSTER, OTHER} - {cluster})


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_shows_the_cluster_that_is_chosen_and_keeps_it_in_its_address(browser: Browser, path: str) -> None:
    async with page(browser, path, OTHER) as (shown, _):
        await tells(shown, CLUSTER)
        await shown.page.focus(CHOICE)
        await shown.page.keyboard.press("ArrowDown")
        await tells(shown, OTHER)
        assert shown.page.url.endswith(f"{path}?cluster={OTHER}")
        await shown.page.reload()
        await tells(shown, OTHER)
        await shown.until(f"document.querySelector(\"{CHOICE}\")?.value === '{OTHER}'")
        assert await breaks_no_rule(shown)
        await shown.page.select_option(CHOICE, CLUSTER)
        await tells(shown, CLUSTER)
        await shown.until(f"location.pathname + location.search === '{path}'")


@pytest.mark.parametrize("path", PAGES)
async def test_where_there_is_one_cluster_nothing_is_to_be_chosen(browser: Browser, path: str) -> None:
    async with page(browser, path) as (shown, _):
        await tells(shown, CLUSTER)
        assert await shown.page.locator(CHOICE).count() == 0


async def test_what_is_asked_is_asked_of_the_cluster_that_is_shown(browser: Browser) -> None:
    word = f"{OTHER}-is-told"
    async with page(browser, f"/health?cluster={OTHER}&node={word}", OTHER) as (shown, stage):
        await shown.page.click("text=Repair done")
        await shown.page.click("dialog button >> text=Verify")
        await shown.page.wait_for_selector("text=Requested: verification of")
        assert [asked for asked, _ in stage.posted] == [f"POST /v1/conditions/{word}/verify?cluster={OTHER}"]


async def test_a_cluster_that_there_is_not_is_told_and_left_by_the_choice(browser: Browser) -> None:
    how = {"ignored": lambda text: "404" in text}
    async with page(browser, "/health?cluster=north", **how) as (shown, _):
        await shown.page.wait_for_selector(".state-broken")
        await shown.page.select_option(CHOICE, CLUSTER)
        await tells(shown, CLUSTER)


async def test_a_phone_has_room_for_the_choice(browser: Browser) -> None:
    async with page(browser, "/health", OTHER, viewport=PHONE) as (shown, _):
        await shown.page.wait_for_selector(CHOICE)
        assert await shown.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def test_the_map_of_all_clusters_lets_those_that_are_not_chosen_step_back(browser: Browser) -> None:
    stage = Stage(others=(OTHER,), nodes=(NodeView(name="n-1", cluster=CLUSTER), NodeView(name="n-2", cluster=OTHER)))
    for name in (CLUSTER, OTHER):
        fabric = {"name": "cdi", "cluster": name, "driver": "fm", "breaker": "closed", "error": "", "in_flight": 0,
                  "limit": 1, "orphans": 0, "pool": []}  # fmt: skip
        stage.answers[f"/v1/devices?cluster={name}"] = {"devices": []}
        stage.answers[f"/v1/fabrics?cluster={name}"] = {"fabrics": [fabric]}
    stage.answers |= {"/v1/devices": {"devices": []}, "/v1/fabrics": {"fabrics": []}}
    async with staged(stage) as harness, looked_at(browser, harness, "/fleet?view=table") as shown:
        await shown.page.wait_for_selector("text=west/cdi")
        assert "atlas/cdi" in await shown.text("section[aria-label='Pool and fabric']")
        await shown.page.select_option(CHOICE, OTHER)
        await shown.until("!document.querySelector('.fleet-pool').textContent.includes('atlas/cdi')")
        await shown.page.wait_for_selector("tbody >> text=n-2")
        assert await shown.page.locator("tbody >> text=n-1").count() == 0


WATCH = """
window.wasBroken = false;
new MutationObserver(() => { window.wasBroken ||= document.querySelector('.state-broken') !== null; })
  .observe(document.body, {childList: true, subtree: true});
"""


async def test_a_service_whose_leader_is_not_there_yet_is_waited_for_and_no_failure_is_shown(browser: Browser) -> None:
    stage = Stage(answers={"/v1/conditions": AWAY})
    async with (
        staged(stage) as harness,
        looked_at(browser, harness, "/jobs", ignored=lambda text: "503" in text) as shown,
    ):
        await shown.page.evaluate(WATCH)
        await shown.follow("/health")
        await until(lambda: bool(stage.refused))
        stage.answers |= told_by(CLUSTER)
        await tells(shown, CLUSTER)
        assert await shown.page.evaluate("window.wasBroken") is False
