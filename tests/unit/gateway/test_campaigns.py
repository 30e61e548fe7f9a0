"""Campaigns over HTTP: who may, what is asked of the upgrader first, what is stored, what is answered."""

import pytest

from kit.http.gateway import FakeHarness
from muster.gateway.api import changes
from muster.schemas.campaigns import (
    AskCampaignCheck,
    CampaignCheckAnswer,
    CampaignPreview,
    CampaignsAnswer,
    CampaignView,
)
from muster.schemas.facts.upgrade import CampaignChangeRequested, CampaignSpec, CampaignStartRequested

BODY = {"name": "driver-580", "component": "driver", "version": "580.105", "max_unavailable": "5%"}
SPEC = CampaignSpec.model_validate(BODY)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGE_WAIT_S", 0.01)
    monkeypatch.setattr(changes, "CHANGE_POLL_S", 0.0)


def a_harness(state: str = "", **check: str) -> FakeHarness:
    """One whose upgrader has this campaign in that state, if any, and answers checks so."""
    harness = FakeHarness()
    views = (CampaignView(name=SPEC.name, spec=SPEC, state=state),) if state else ()
    harness.leaders.answers["upgrader", "campaigns"] = CampaignsAnswer(campaigns=views)
    harness.leaders.answers["upgrader", "campaign-check"] = CampaignCheckAnswer.model_validate(check)
    return harness


@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("ann", 403), ("olga", 202)])
async def test_operators_start_campaigns(who: str, status: int) -> None:
    harness = a_harness()
    async with harness.client(who) as client:
        answer = await client.post("/v1/campaigns", json=BODY)
    assert answer.status_code == status
    stored = [(draft.name, draft.subject_id, draft.payload) for draft in harness.log.operations.values()]
    payload = CampaignStartRequested(spec=SPEC, principal="olga")
    assert stored == ([("start-requested", "driver-580", payload)] if status == 202 else [])


async def test_what_the_upgrader_would_refuse_is_refused_at_once() -> None:
    harness = a_harness(field="select", problem="no node fits")
    async with harness.client("olga") as client:
        answer = await client.post("/v1/campaigns", json=BODY)
    assert (answer.status_code, answer.json()["field"], answer.json()["detail"]) == (422, "select", "no node fits")
    assert not harness.log.operations
    (asked,) = [question for _, name, question in harness.leaders.asked if name == "campaign-check"]
    assert asked == AskCampaignCheck(name="driver-580", ask="start", spec=SPEC)


async def test_a_spec_that_says_nothing_to_do_is_refused() -> None:
    async with a_harness().client("olga") as client:
        answer = await client.post("/v1/campaigns", json={"name": "x", "component": "driver"})
    assert answer.status_code == 422
    assert "version" in answer.json()["detail"]


@pytest.mark.parametrize(("ask", "state"), [("pause", "paused"), ("resume", "going"), ("abort", "aborting")])
async def test_once_it_is_so_the_campaign_is_answered(ask: str, state: str) -> None:
    harness = a_harness(state)
    async with harness.client("olga") as client:
        answer = await client.post(f"/v1/campaigns/driver-580/{ask}", params={"reason": "lunch"})
    assert (answer.status_code, answer.json()["state"]) == (200, state)
    (draft,) = harness.log.operations.values()
    assert draft.name == f"{ask}-requested"
    assert draft.payload == CampaignChangeRequested(principal="olga", reason="lunch")


async def test_there_is_no_changing_of_campaigns_that_are_not_there() -> None:
    harness = a_harness()
    async with harness.client("olga") as client:
        answer = await client.post("/v1/campaigns/nothing/pause")
    assert answer.status_code == 404
    assert not harness.log.operations


async def test_viewers_see_campaigns() -> None:
    async with a_harness("going").client("eve") as client:
        listed = await client.get("/v1/campaigns")
        one = await client.get("/v1/campaigns/driver-580")
    assert [view["name"] for view in listed.json()["campaigns"]] == ["driver-580"]
    assert one.json()["state"] == "going"


@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("ann", 403), ("olga", 200)])
async def test_who_may_start_campaigns_plans_them_and_nobody_else_costs_the_upgrader_its_time(
    who: str, status: int
) -> None:
    harness = a_harness()
    harness.leaders.answers["upgrader", "preview"] = CampaignPreview(nodes=200)
    async with harness.client(who) as client:
        answer = await client.post("/v1/campaign-previews", json=BODY)
    assert answer.status_code == status
    assert [name for _, name, _ in harness.leaders.asked] == (["preview"] if status == 200 else [])
