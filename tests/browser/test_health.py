"""The page of health: what is not healthy and why, problems over time, the brake."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, ViewportSize

from browser.accessibility import breaks_no_rule
from browser.dashboards import DESKTOP, PHONE, Dashboard
from browser.staged_harness import Stage, looked_at, staged
from muster.core.instant import NS_PER_S
from muster.schemas.access import Role, TokenRecord
from muster.schemas.conditions import BrakeView, Condition, ConditionsAnswer, EndedIllness, FaultCount
from muster.schemas.facts.health import BrakeTripped, FaultClass, FaultObserved, HealthPhase, OpenFault

ADMIN = TokenRecord(principal="grace", role=Role.ADMIN)
NO_BRAKE = BrakeView(nodes=2, most=6, window_s=600)
TRIPPED = BrakeView(
    nodes=9,
    most=6,
    window_s=600,
    tripped=BrakeTripped(nodes=9, most=6, fleet=100, window_s=600, because="9 nodes lost their exporters at once"),
    tripped_at=time.time_ns() - 60 * NS_PER_S,
)


def told(brake: BrakeView = NO_BRAKE) -> ConditionsAnswer:
    """A node that fell off the bus an hour ago, and another that is healthy again."""
    now = time.time_ns()
    fault = FaultObserved(code="xid-79", fault_class=FaultClass.FATAL, because="The GPU fell off the bus.")
    sick = Condition(
        kind="node", name="node-7", node="node-7", phase=HealthPhase.QUARANTINED, since=now - 3_000 * NS_PER_S,
        began_at=now - 3_600 * NS_PER_S, faults=(OpenFault(told=fault, since=now, seen_at=now),), attempt=3,
        action="replace", needs_person=True, withheld=True,
    )  # fmt: skip
    over = EndedIllness(
        kind="device", name="GPU-3", node="node-3", codes=("remap-pending",), began_at=now - 7_200 * NS_PER_S,
        ended_at=now - 5_400 * NS_PER_S, attempts=1,
    )  # fmt: skip
    counts = (FaultCount(code="xid-79", fault_class=FaultClass.FATAL, count=4),)
    return ConditionsAnswer(nodes=100, conditions=(sick,), ended=(over,), brake=brake, counts=counts, at=now)


@asynccontextmanager
async def page(
    browser: Browser,
    answer: ConditionsAnswer,
    *,
    me: TokenRecord = ADMIN,
    viewport: ViewportSize = DESKTOP,
    search: str = "",
) -> AsyncIterator[tuple[Dashboard, Stage]]:
    """The page on a stage whose health tells this."""
    stage = Stage(me=me)
    stage.answers |= {"/v1/conditions": answer, "/v1/conditions/node-7": answer, "POST /v1/brake/reset": answer}
    async with staged(stage) as harness, looked_at(browser, harness, f"/health{search}", viewport=viewport) as shown:
        await shown.page.wait_for_selector("table[aria-label='Nodes and GPUs with faults']")
        yield shown, stage


async def test_what_is_not_healthy_is_told_with_state_reason_and_tries(browser: Browser) -> None:
    async with page(browser, told()) as (shown, _):
        row = await shown.text("table[aria-label='Nodes and GPUs with faults'] tbody tr")
        for word in ("node-7", "quarantined", "replace, try 3", "needs a person", "xid-79", "fell off the bus"):
            assert word in row


async def test_problems_over_time_come_with_the_time_between_failures(browser: Browser) -> None:
    async with page(browser, told()) as (shown, _):
        panel = await shown.text("section[aria-label='Problems over time']")
        assert "2 h between failures in the fleet" in panel
        assert "2 problems" in panel
        assert await shown.page.locator("svg[aria-label^='Not healthy over time: 1 now, 1 at the most']").count() == 1
        assert "remap-pending" in await shown.text("table[aria-label='Over'] tbody tr")
        assert "xid-79" in await shown.text("table[aria-label='Codes'] tbody tr")


async def test_an_admin_resets_the_brake_and_says_why(browser: Browser) -> None:
    async with page(browser, told(TRIPPED)) as (shown, stage):
        assert "lost their exporters at once" in await shown.text("section[aria-label='Brake']")
        await shown.page.click("text=Reset the brake")
        await shown.page.fill("dialog .ask-field input", "the exporters were upgraded")
        await shown.page.click("text=Reset brake")
        await shown.page.wait_for_selector("text=Reset of the brake requested")
        assert stage.posted == [("POST /v1/brake/reset?reason=the+exporters+were+upgraded", "")]


async def test_who_is_no_operator_is_told_why_the_brake_stays(browser: Browser) -> None:
    ada = TokenRecord(principal="ada", role=Role.SUBMITTER, teams=("physics",))
    async with page(browser, told(TRIPPED), me=ada) as (shown, stage):
        button = shown.page.locator("button", has_text="Reset the brake")
        assert await button.get_attribute("aria-disabled") == "true"
        assert "ada is a submitter" in str(await button.get_attribute("title"))
        await button.press("Enter")
        await shown.page.wait_for_selector(".toast-bad")
        assert await shown.page.locator("dialog").count() == 0
        assert not stage.posted


async def test_a_node_that_was_chosen_is_told_in_full(browser: Browser) -> None:
    async with page(browser, told(), search="?node=node-7") as (shown, _):
        await shown.page.wait_for_selector("section[aria-label='node-7'] >> text=no jobs hold it")
        assert await breaks_no_rule(shown)


async def test_the_page_fits_a_phone(browser: Browser) -> None:
    async with page(browser, told(TRIPPED), viewport=PHONE) as (shown, _):
        assert await shown.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert await breaks_no_rule(shown)
